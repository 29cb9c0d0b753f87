/* test_share - a node cut into equal parts. The node is hwloc's synthetic one: 2 packages of 4
 * cores with 2 hardware threads each. */
#include "hpo/sweep/share.h"

#include "tests/unit/test.h"

static char dir[] = "/tmp/test_share.XXXXXX", path[64];

static struct topo *node(int gpus)
{
    hwloc_topology_t h;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/node.xml", dir);
    hwloc_topology_init(&h);
    CHECK_INT(hwloc_topology_set_synthetic(h, "package:2 numa:1 core:4 pu:2"), 0);
    hwloc_topology_load(h);
    CHECK_INT(hwloc_topology_export_xml(h, path, 0), 0);
    hwloc_topology_destroy(h);
    char list[80];
    snprintf(list, sizeof list, "%s/node.gpus.json", dir);
    FILE *f = fopen(list, "w");
    fputc('[', f);
    for (int i = 0; i < gpus; i++)
        fprintf(f,
                "%s{\"index\":%d,\"uuid\":\"GPU-%d\",\"name\":\"x\",\"bus_id\":\"0000:%02d:00.0\","
                "\"numa\":%d}",
                i ? "," : "", i, i, i + 1, i < gpus / 2 ? 0 : 1);
    fputs("]\n", f);
    fclose(f);
    struct topo *t = NULL;
    struct err e = {0};
    if (topo_load_file(&t, path, &e) < 0)
        FAIL("%s", e.text);
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
    return t;
}

static int places(int gpus_there, int ranks, int gpus)
{
    AUTO(topo) struct topo *t = node(gpus_there);
    int n = -1;
    struct err e = {0};
    int rc = share_places(&n, t, ranks, gpus, &e);
    return rc < 0 ? rc : n;
}

TEST(as_many_trials_as_cores_hold)
{
    CHECK_INT(places(0, 1, 0), 8);
}
TEST(as_many_trials_of_several_ranks_as_cores_hold)
{
    CHECK_INT(places(0, 3, 0), 2);
}
TEST(at_least_one_trial)
{
    CHECK_INT(places(0, 64, 0), 1);
}
TEST(one_gpu_for_each_rank_where_there_are_any)
{
    CHECK_INT(places(4, 1, 0), 4);
}
TEST(as_many_trials_as_gpus_hold)
{
    CHECK_INT(places(4, 1, 2), 2);
}
TEST(a_trial_that_needs_more_gpus_than_there_are_is_refused)
{
    CHECK_INT(places(4, 1, 5), -EINVAL);
}

static struct share *cut(struct topo *t, struct share_want w)
{
    struct share *s = NULL;
    struct err e = {0};
    if (share_make(&s, t, &w, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

TEST(each_place_has_cores_of_its_own)
{
    AUTO(topo) struct topo *t = node(0);
    struct share *s = cut(t, (struct share_want){.places = 4, .ranks = 1});
    CHECK_STR(s[0].cpus, "0-3");
    CHECK_STR(s[3].cpus, "12-15");
    CHECK(!s[0].gpus && !s[0].shared);
    share_free(s, 4);
    s = cut(t, (struct share_want){.places = 3, .ranks = 2});
    CHECK_STR(s[0].cpus, "0-3");
    CHECK_STR(s[1].cpus, "4-9");
    CHECK_STR(s[2].cpus, "10-15");
    share_free(s, 3);
}

TEST(more_ranks_than_cores_share_them_all)
{
    AUTO(topo) struct topo *t = node(0);
    struct share *s = cut(t, (struct share_want){.places = 5, .ranks = 2});
    CHECK(s[4].shared && !s[4].cpus);
    share_free(s, 5);
    s = cut(t, (struct share_want){.places = 5, .ranks = 2, .cpus = "0-7"});
    CHECK(s[0].shared);
    CHECK_STR(s[0].cpus, "0-7");
    share_free(s, 5);
}

TEST(a_part_of_the_node_is_cut_likewise)
{
    AUTO(topo) struct topo *t = node(0);
    struct share *s = cut(t, (struct share_want){.places = 2, .ranks = 1, .cpus = "8-11"});
    CHECK_STR(s[0].cpus, "8-9");
    CHECK_STR(s[1].cpus, "10-11");
    share_free(s, 2);
    struct err e = {0};
    CHECK_INT(share_make(&s, t, &(struct share_want){"99", NULL, 1, 1}, &e), -EINVAL);
    CHECK_HAS(e.text, "'99'");
    CHECK_INT(share_make(&s, t, &(struct share_want){"x", NULL, 1, 1}, &e), -EINVAL);
}

TEST(gpus_go_with_the_places)
{
    AUTO(topo) struct topo *t = node(8);
    struct share *s = cut(t, (struct share_want){.places = 4, .ranks = 1});
    CHECK_STR(s[0].gpus, "0,1");
    CHECK_STR(s[3].gpus, "6,7");
    CHECK(!s[0].shared);
    share_free(s, 4);
    s = cut(t, (struct share_want){.places = 2, .ranks = 1, .gpus = "1,5"});
    CHECK_STR(s[0].gpus, "1");
    CHECK_STR(s[1].gpus, "5");
    share_free(s, 2);
    s = cut(t, (struct share_want){.places = 4, .ranks = 1, .gpus = "1,5"});
    CHECK_STR(s[1].gpus, "1");
    CHECK_STR(s[2].gpus, "5");
    CHECK(s[2].shared);
    share_free(s, 4);
}

TEST(a_trial_takes_no_more_gpus_than_it_asked_for)
{
    const struct {
        const char *list, *want;
        int n;
    } cases[] = {{"4,5,6", "4,5", 2}, {"4,5", "4,5", 2}, {"4,5", "4,5", 0},
                 {"4,5", "4,5", 7},   {"14", "14", 1},   {"4,5", "4", 1}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = share_first_gpus(cases[i].list, cases[i].n);
        CHECK_STR(got, cases[i].want);
    }
}
