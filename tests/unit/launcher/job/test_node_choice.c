/* restart_choose_nodes(): which nodes take part. */
#include "launcher/job/restart.h"

#include <string.h>

#include "common/mem.h"
#include "tests/unit/test.h"

enum { NODES_MAX = 8 };

/* A node per character: '0' to '9' is its number of faults, 'x' a node that cannot take part. */
static int choose(char text[NODES_MAX + 1], const char *nodes, int min, int max)
{
    struct restart_node n[NODES_MAX] = {0};
    bool chosen[NODES_MAX];
    int count = (int)strlen(nodes);
    for (int i = 0; i < count; i++)
        n[i] = (struct restart_node){.out = nodes[i] == 'x', .faults = nodes[i] - '0'};
    int rc = restart_choose_nodes(chosen, n, count, min, max);
    for (int i = 0; i < count; i++)
        text[i] = chosen[i] ? '1' : '.';
    text[count] = '\0';
    return rc;
}

TEST(the_best_nodes_are_chosen_in_the_order_of_the_list)
{
    static const struct {
        const char *nodes;
        int min, max;
        const char *chosen;
        int result;
    } cases[] = {
        {"00000", 4, 4, "1111.", 4}, /* the last one is the spare */
        {"0x000", 4, 4, "1.111", 4}, /* … and takes the place of one that is out */
        {"00100", 4, 4, "11.11", 4}, /* … or of one with a fault */
        {"00101", 4, 4, "1111.", 4}, /* a spare with as many faults is not better */
        {"00201", 4, 4, "11.11", 4}, /* one with fewer is */
        {"11111", 4, 4, "1111.", 4}, /* a fault that all nodes have says nothing */
        {"0xx00", 4, 4, ".....", 3}, /* too few */
        {"0xx00", 2, 4, "1..11", 3}, /* an elastic job runs with fewer */
        {"xxxxx", 1, 4, ".....", 0}, {"x0", 1, 1, ".1", 1}, {"93", 1, 1, ".1", 1},
        {"000", 1, 9, "111", 3},     {"", 0, 0, "", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char chosen[NODES_MAX + 1];
        CHECK_INT(choose(chosen, cases[i].nodes, cases[i].min, cases[i].max), cases[i].result);
        CHECK_STR(chosen, cases[i].chosen);
    }
}
