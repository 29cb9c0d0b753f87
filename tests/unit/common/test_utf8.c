/* utf8: valid characters stay, control characters and other bytes do not reach a terminal. */
#include "common/utf8.h"

#include "common/mem.h"
#include "tests/unit/test.h"

static void check(void (*add)(struct strbuf *b, const char *text), const char *text,
                  const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    add(&b, text);
    CHECK_STR(strbuf_str(&b), want);
}

TEST(characters_have_one_to_four_bytes)
{
    CHECK_INT(utf8_length(""), 1);
    CHECK_INT(utf8_length("a"), 1);
    CHECK_INT(utf8_length("\xc3\xa9"), 2);
    CHECK_INT(utf8_length("\xe2\x82\xac"), 3);
    CHECK_INT(utf8_length("\xf0\x9f\x98\x80"), 4);
}

TEST(overlong_and_cut_characters_and_surrogates_are_not_utf8)
{
    static const char *const bad[] = {"\x80",         "\xc0\xaf",         "\xc3",
                                      "\xe2\x82",     "\xe0\x9f\xbf",     "\xed\xa0\x80",
                                      "\xf0\x8f\xbf", "\xf4\x90\x80\x80", "\xff"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(utf8_length(bad[i]), 0);
}

TEST(an_invalid_byte_damages_no_other_character)
{
    check(utf8_add, "caf\xc3\xa9 \xff na\xc3\xafve", "caf\xc3\xa9 ? na\xc3\xafve");
    check(utf8_add, "cut \xe2\x82", "cut ??");
    check(utf8_add, "a\nb", "a\nb");
}

TEST(a_line_has_no_control_character)
{
    check(utf8_add_line, "caf\xc3\xa9", "caf\xc3\xa9");
    check(utf8_add_line, "a\nb\tc\rd", "a\\nb\\tc\\rd");
    check(utf8_add_line, "\x1b[2J\x07\x7f", "\\x1b[2J\\x07\\x7f");
    check(utf8_add_line,
          "\xc2\x9b"
          "1m",
          "\\x9b"
          "1m");
    check(utf8_add_line,
          "\x9b"
          "1m",
          "\\x9b"
          "1m");
    check(utf8_add_line,
          "no\xc2\xa0"
          "break",
          "no\xc2\xa0"
          "break");
}
