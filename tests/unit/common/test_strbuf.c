#include "common/strbuf.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(a_text_is_indented_by_lines)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_indent(&b, "a\n\nb");
    strbuf_indent(&b, "");
    CHECK_STR(strbuf_str(&b), "    a\n    \n    b\n");
}

TEST(an_untouched_buffer_is_the_empty_string)
{
    struct strbuf b = {0};
    CHECK_STR(strbuf_str(&b), "");
    CHECK_INT(b.len, 0);
    strbuf_reset(&b);
    strbuf_consume(&b, 0);
    strbuf_add(&b, NULL, 0);
    CHECK_STR(strbuf_str(&b), "");
    strbuf_free(&b);
    AUTO(free) char *s = strbuf_take(&b);
    CHECK_STR(s, "");
}

TEST(pieces_of_each_kind_are_put_together)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "ab");
    strbuf_putc(&b, 'c');
    strbuf_add(&b, "defg", 2);
    strbuf_printf(&b, "-%d-%s", 42, "x");
    strbuf_printf(&b, "%s", "");
    CHECK_STR(strbuf_str(&b), "abcde-42-x");
    CHECK_INT(b.len, 10);
}

TEST(bytes_with_nuls_are_kept)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_add(&b, "a\0b", 3);
    strbuf_putc(&b, '\0');
    CHECK_INT(b.len, 4);
    CHECK(memcmp(b.data, "a\0b\0", 5) == 0);
}

TEST(it_grows_at_every_length_and_stays_terminated)
{
    AUTO(strbuf) struct strbuf a = {0};
    AUTO(strbuf) struct strbuf f = {0};
    for (int i = 0; i < 5000; i++) {
        strbuf_putc(&a, (char)('a' + i % 26));
        strbuf_printf(&f, "%c", 'a' + i % 26);
        CHECK_INT(a.len, i + 1);
        CHECK(a.data[a.len] == '\0' && f.data[f.len] == '\0' && a.len < a.cap && f.len < f.cap);
    }
    CHECK_STR(strbuf_str(&a), strbuf_str(&f));
}

TEST(a_formatted_piece_may_be_longer_than_all_before)
{
    for (int width = 55; width < 300; width++) {
        AUTO(strbuf) struct strbuf b = {0};
        strbuf_printf(&b, "%*d|", width, 7);
        CHECK_INT(b.len, width + 1);
        CHECK_INT(strlen(b.data), width + 1);
        CHECK_STR(b.data + width - 1, "7|");
    }
}

TEST(a_prefix_is_dropped)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "one\ntwo\n");
    strbuf_consume(&b, 4);
    CHECK_STR(strbuf_str(&b), "two\n");
    strbuf_consume(&b, 4);
    CHECK_STR(strbuf_str(&b), "");
    CHECK_INT(b.len, 0);
    strbuf_puts(&b, "three");
    CHECK_STR(strbuf_str(&b), "three");
}

TEST(more_than_there_is_cannot_be_dropped)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        struct strbuf b = {0};
        strbuf_puts(&b, "abc");
        strbuf_consume(&b, 4);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(a_length_that_overflows_aborts)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        alarm(5);
        volatile size_t huge = (size_t)-1;
        struct strbuf b = {0};
        strbuf_puts(&b, "abc");
        strbuf_add(&b, "x", huge);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM));
}

TEST(what_is_taken_leaves_an_empty_buffer)
{
    struct strbuf b = {0};
    strbuf_puts(&b, "abc");
    AUTO(free) char *s = strbuf_take(&b);
    CHECK_STR(s, "abc");
    CHECK(b.data == NULL && b.len == 0 && b.cap == 0);
    strbuf_puts(&b, "d");
    CHECK_STR(strbuf_str(&b), "d");
    strbuf_reset(&b);
    CHECK_STR(strbuf_str(&b), "");
    CHECK(b.cap > 0);
    strbuf_free(&b);
}
