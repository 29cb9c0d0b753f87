/* last_lines: the last lines, complete and in order. */
#include "launcher/io/last_lines.h"

#include "tests/unit/test.h"

TEST(an_empty_tail_has_no_line)
{
    AUTO(last_lines) struct last_lines *t = last_lines_new(3);
    CHECK_INT(last_lines_count(t), 0);
    CHECK(last_lines_get(t, 0, NULL) == NULL);
    CHECK(last_lines_get(t, -1, NULL) == NULL);
}

TEST(the_oldest_line_goes_first)
{
    AUTO(last_lines) struct last_lines *t = last_lines_new(3);
    const char *lines[] = {"a", "bb", "", "dddd", "e"};
    for (size_t i = 0; i < 5; i++)
        last_lines_push(t, lines[i], strlen(lines[i]));
    CHECK_INT(last_lines_count(t), 3);
    size_t len = 99;
    CHECK_STR(last_lines_get(t, 0, &len), "");
    CHECK_INT(len, 0);
    CHECK_STR(last_lines_get(t, 1, &len), "dddd");
    CHECK_INT(len, 4);
    CHECK_STR(last_lines_get(t, 2, NULL), "e");
    CHECK(last_lines_get(t, 3, NULL) == NULL);
}

TEST(a_long_line_is_cut_and_a_slot_is_used_again)
{
    AUTO(last_lines) struct last_lines *t = last_lines_new(1);
    char line[3 * LAST_LINES_LINE_MAX];
    memset(line, 'x', sizeof line);
    size_t len = 0;
    for (int round = 0; round < 3; round++) {
        last_lines_push(t, line, sizeof line);
        CHECK_INT(strlen(last_lines_get(t, 0, &len)), LAST_LINES_LINE_MAX);
        CHECK_INT(len, LAST_LINES_LINE_MAX);
        last_lines_push(t, line, 127);
        CHECK_INT(strlen(last_lines_get(t, 0, &len)), 127);
        last_lines_push(t, line, 128);
        CHECK_INT(strlen(last_lines_get(t, 0, &len)), 128);
    }
}

TEST(bytes_are_kept_as_they_are)
{
    AUTO(last_lines) struct last_lines *t = last_lines_new(2);
    last_lines_push(t, "a\0b", 3);
    size_t len = 0;
    CHECK(memcmp(last_lines_get(t, 0, &len), "a\0b", 4) == 0);
    CHECK_INT(len, 3);
}

TEST(a_copy_has_the_lines_of_its_moment)
{
    AUTO(last_lines) struct last_lines *t = last_lines_new(2);
    AUTO(strv) char **copy = NULL;
    last_lines_copy(&copy, t);
    CHECK(!copy);
    last_lines_push(t, "a", 1);
    last_lines_push(t, "b", 1);
    last_lines_copy(&copy, t);
    last_lines_push(t, "c", 1);
    CHECK_INT(strv_len(copy), 2);
    CHECK_STR(copy[0], "a");
    CHECK_STR(copy[1], "b");
}
