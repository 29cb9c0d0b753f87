/* hang_lines: tracebacks and full disks in the last lines of a rank. */
#include "launcher/hang/hang_lines.h"

#include "tests/unit/test.h"

static struct hang_lines after(const char *const *lines)
{
    struct hang_lines l = {0};
    for (; *lines; lines++)
        hang_lines_add(&l, *lines, strlen(*lines));
    return l;
}

TEST(a_traceback_at_the_end_is_one_with_its_error)
{
    struct hang_lines l = after((const char *[]){
        "Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "KeyError: 1", "",
        "During handling of the above exception, another exception occurred:", "",
        "Traceback (most recent call last):", "  File \"a.py\", line 5, in g", "ValueError: bad",
        NULL});
    CHECK_INT(l.traceback, HANG_TRACEBACK_ENDED);
    CHECK_STR(l.error, "ValueError: bad");
}

TEST(a_traceback_after_which_the_rank_goes_on_is_none)
{
    struct hang_lines l = after((const char *[]){"Traceback (most recent call last):", "  File …",
                                                 "OSError: x", "retrying", NULL});
    CHECK_INT(l.traceback, HANG_TRACEBACK_NONE);
}

TEST(no_space_left_counts_until_another_line)
{
    CHECK(after((const char *[]){"write: No space left on device", NULL}).disk_full);
    CHECK(!after((const char *[]){"write: No space left on device", "step 4", NULL}).disk_full);
}
