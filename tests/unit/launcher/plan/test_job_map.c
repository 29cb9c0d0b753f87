/* job_map: what a node is told about the whole job. */
#include "launcher/plan/job_map.h"

#include "tests/unit/test.h"

TEST(ranks_that_are_not_placed_in_blocks_are_found_by_their_numbers)
{
    static const int nodes[] = {0, 2, 0, 1, 2, 2};
    struct plan_rank ranks[COUNT_OF(nodes)] = {0};
    struct plan_node names[3] = {
        {.name = (char *)"a"}, {.name = (char *)"b"}, {.name = (char *)"c"}};
    struct plan p = {.job_id = (char *)"j",
                     .ranks = ranks,
                     .world_size = COUNT_OF(nodes),
                     .nodes = names,
                     .node_count = 3};
    for (int i = 0; i < p.world_size; i++)
        ranks[i] = (struct plan_rank){.rank = i, .node = nodes[i]};
    ranks[4].cpus = (char *)"2,6";
    AUTO(job_map) struct job_map *m = job_map_new(&p, 2);
    CHECK_INT(m->ranks, 6);
    CHECK_INT(m->node, 2);
    CHECK_INT(m->local_count, 3);
    CHECK(m->local[0] == 1 && m->local[1] == 4 && m->local[2] == 5);
    CHECK_STR(m->cpus[0], "");
    CHECK_STR(m->cpus[1], "2,6");
    CHECK_INT(job_map_index(m, 1), 0);
    CHECK_INT(job_map_index(m, 4), 1);
    CHECK_INT(job_map_index(m, 5), 2);
    for (int i = -1; i < 8; i++)
        if (i != 1 && i != 4 && i != 5)
            CHECK_INT(job_map_index(m, i), -1);
}
