/* sweep_output: the last lines of a file, however long it is. */
#include "hpo/cmd/sweep_output.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/test.h"

static off_t from_end(const char *text, int lines)
{
    char path[] = "/tmp/test_output.XXXXXX";
    AUTO(fd) int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    unlink(path);
    return sweep_output_last_lines(fd, lines);
}

TEST(the_last_lines_are_found)
{
    static const struct {
        const char *text;
        int lines;
        off_t at;
    } cases[] = {
        {"a\nb\nc\n", 1, 4}, {"a\nb\nc\n", 2, 2},  {"a\nb\nc\n", 3, 0}, {"a\nb\nc\n", 9, 0},
        {"a\nb\nc\n", 0, 6}, {"a\nb\nc\n", -1, 0}, {"a\nb\nc", 1, 4},   {"a\nb\nc", 2, 2},
        {"", 3, 0},          {"\n\n\n", 2, 1},     {"abc", 1, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_INT(from_end(cases[i].text, cases[i].lines), cases[i].at);
}

TEST(lines_longer_than_a_read_are_found)
{
    enum { LEN = 200000 };
    AUTO(free) char *text = xzalloc(2 * LEN + 1);
    memset(text, 'x', 2 * LEN);
    text[LEN - 1] = text[2 * LEN - 1] = '\n';
    CHECK_INT(from_end(text, 1), LEN);
    CHECK_INT(from_end(text, 2), 0);
}
