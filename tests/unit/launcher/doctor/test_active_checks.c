/* active_checks: which figures are slow. */
#include "launcher/doctor/active/active_checks.h"

#include <string.h>

#include "common/mem.h"
#include "tests/unit/test.h"

enum { VALUES_MAX = 8 };

TEST(a_node_far_below_the_others_is_slow)
{
    static const struct {
        double values[VALUES_MAX];
        int count;
        const char *slow; /* a character per node: '1' slow */
    } cases[] = {
        {{100, 101, 99, 100}, 4, "...."},
        {{100, 101, 80, 100}, 4, "..1."},
        {{100, 101, 95, 100}, 4, "...."},     /* less than a tenth */
        {{100, 60, 140, 80, 70}, 5, "....."}, /* the others vary, too */
        {{100, 101, 99, 40, 100, 30}, 6, "...1.1"},
        {{100, 10}, 2, ".."}, /* which one is slow? */
        {{100, 100, 10}, 3, "..1"},
        {{100, 70, 15}, 3, "..1"},      /* below half of the others, which vary */
        {{0, 100, 100, 10}, 4, "...1"}, /* one is unknown */
        {{100}, 1, "."},
        {{0}, 0, ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bool slow[VALUES_MAX];
        char text[VALUES_MAX + 1] = "";
        active_checks_find_slow(slow, cases[i].values, cases[i].count);
        for (int k = 0; k < cases[i].count; k++)
            text[k] = slow[k] ? '1' : '.';
        CHECK_STR(text, cases[i].slow);
    }
}
