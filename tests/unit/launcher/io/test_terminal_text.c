/* test_terminal_text - text of trials and users for a terminal. */
#include "launcher/io/terminal_text.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(text_is_cut_between_characters)
{
    static const struct {
        const char *text;
        int cells;
        const char *want;
        int used;
    } rows[] = {
        {"abc", 5, "abc", 3},
        {"abc", 2, "ab", 2},
        {"abc", 0, "", 0},
        {"äöü", 2, "äö", 2},
        {"日本語", 5, "日本", 4}, /* two cells each */
        {"日", 1, "", 0},
        {"█▁…│→", 5, "█▁…│→", 5},
        {"a\xcc\x81", 9, "a\xcc\x81", 2}, /* at most two cells */
        {"\xf0\x9f\x98\x80!", 3, "\xf0\x9f\x98\x80!", 3},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        CHECK_INT(terminal_text_add(&b, rows[i].text, rows[i].cells), rows[i].used);
        CHECK_STR(strbuf_str(&b), rows[i].want);
    }
    CHECK_INT(terminal_text_cells("a日ü"), 4);
}

TEST(what_is_escaped_is_cut_as_what_is_shown)
{
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(terminal_text_add(&b, "a\x1b[2J\xff\n", 99), 14);
    CHECK_STR(strbuf_str(&b), "a\\x1b[2J\\xff\\n");
    strbuf_reset(&b);
    CHECK_INT(terminal_text_add(&b, "a\x1b[2J", 3), 3);
    CHECK_STR(strbuf_str(&b), "a\\x");
}
