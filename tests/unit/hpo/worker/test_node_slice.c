/* test_node_slice - a node divided into equal slices. The node is a synthetic one of hwloc: 2
 * packages of 4 cores with 2 hardware threads each. */
#include "hpo/worker/node_slice.h"

#include "tests/unit/test.h"

static char dir[64], path[96];
static int divided = -1; /* the GPU that has MIG instances; -1: none */
static const char parts[] = ",\"parts\":[\"MIG-a\",\"MIG-b\"]";

/* A node of 8 cores, 16 GiB and `gpus` GPUs. */
static struct topo *node(int gpus)
{
    hwloc_topology_t h;
    snprintf(dir, sizeof dir, "/tmp/test_node_slice.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/node.xml", dir);
    hwloc_topology_init(&h);
    CHECK_INT(hwloc_topology_set_synthetic(h, "package:2 numa:1(memory=8589934592) core:4 pu:2"),
              0);
    hwloc_topology_load(h);
    CHECK_INT(hwloc_topology_export_xml(h, path, 0), 0);
    hwloc_topology_destroy(h);
    char list[96];
    snprintf(list, sizeof list, "%s/node.gpus.json", dir);
    FILE *f = fopen(list, "w");
    fputc('[', f);
    for (int i = 0; i < gpus; i++)
        fprintf(f,
                "%s{\"index\":%d,\"uuid\":\"GPU-%d\",\"name\":\"x\",\"bus_id\":\"0000:%02d:00.0\","
                "\"numa\":%d%s}",
                i ? "," : "", i, i, i + 1, i < gpus / 2 ? 0 : 1, i == divided ? parts : "");
    fputs("]\n", f);
    fclose(f);
    struct topo *t = NULL;
    struct err e = {0};
    if (topo_load_file(&t, path, &e) < 0)
        FAIL("%s", e.text);
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
    return t;
}

/* The number of slices; -EINVAL if no trial fits, with the error in `why`. */
static struct err why;
static int places(int gpus_there, struct node_slice_opts w)
{
    AUTO(topo) struct topo *t = node(gpus_there);
    struct node_slice *s = NULL;
    int n = -1;
    int rc = node_slice_make(&s, &n, t, &w, &why);
    if (rc < 0)
        return rc;
    node_slice_free(s, n);
    return n;
}

#define NEED(...) ((struct node_slice_opts){.need = {.ranks = 1, ##__VA_ARGS__}})

TEST(as_many_trials_as_cores_hold)
{
    CHECK_INT(places(0, NEED()), 8);
}
TEST(as_many_trials_of_several_ranks_as_cores_hold)
{
    CHECK_INT(places(0, (struct node_slice_opts){.need = {.ranks = 3}}), 2);
}
TEST(at_least_one_trial)
{
    CHECK_INT(places(0, (struct node_slice_opts){.need = {.ranks = 64}}), 1);
}
TEST(one_gpu_per_rank_on_a_node_with_gpus)
{
    CHECK_INT(places(4, NEED()), 4);
}
TEST(as_many_trials_as_gpus_hold)
{
    CHECK_INT(places(4, NEED(.gpus = 2)), 2);
    CHECK_INT(places(8, NEED(.gpus = 3)), 2);
}
TEST(a_trial_that_needs_more_gpus_than_the_node_has_is_an_error)
{
    CHECK_INT(places(4, NEED(.gpus = 5)), -EINVAL);
    CHECK_HAS(why.text, "a trial needs 5 GPUs");
    CHECK_HAS(why.text, "has 4");
    CHECK_INT(places(0, NEED(.gpus = 0.5)), -EINVAL);
}

TEST(fractions_of_a_gpu_do_not_span_two_gpus)
{
    const struct {
        double part;
        int gpus, want;
    } cases[] = {{0.15, 8, 48}, {0.1, 1, 10}, {0.2, 1, 5},   {0.3, 3, 9},    {0.34, 1, 2},
                 {0.5, 8, 16},  {0.51, 8, 8}, {0.07, 2, 28}, {0.01, 1, 100}, {0.25, 4, 16}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_INT(places(cases[i].gpus, NEED(.gpus = cases[i].part)), cases[i].want);
}

TEST(required_resources_are_never_given_twice)
{
    CHECK_INT(places(2, (struct node_slice_opts){.slots = 20, .need = {.ranks = 1, .gpus = 0.5}}),
              4);
    CHECK_INT(places(2, (struct node_slice_opts){.slots = 20, .need = {.ranks = 1, .gpus = 1}}), 2);
    CHECK_INT(places(0, (struct node_slice_opts){.slots = 20, .need = {.ranks = 1, .cpus = 3}}), 2);
    CHECK_INT(places(0, (struct node_slice_opts){.slots = 20, .need = {.ranks = 2, .cpus = 2}}), 2);
    CHECK_INT(places(0, (struct node_slice_opts){.slots = 20, .need = {.ranks = 1}}), 20);
    CHECK_INT(places(0, (struct node_slice_opts){.need = {.ranks = 2, .cpus = 5}}), -EINVAL);
    CHECK_HAS(why.text, "a trial needs 10 cores");
}

TEST(memory_limits_the_number_of_trials)
{
    const int64_t gib = 1LL << 30; /* the node has 16 */
    CHECK_INT(places(0, NEED(.memory_bytes = 5 * gib)), 3);
    CHECK_INT(places(0, NEED(.memory_bytes = 16 * gib)), 1);
    CHECK_INT(places(0, NEED(.memory_bytes = 1 * gib)), 8);
    CHECK_INT(places(8, NEED(.gpus = 1, .memory_bytes = 3 * gib)), 5);
    CHECK_INT(places(0, NEED(.memory_bytes = 17 * gib)), -EINVAL);
    CHECK_HAS(why.text, "a trial needs 17 GiB of memory");
    CHECK_HAS(why.text, "16 GiB");
    CHECK_INT(places(0, (struct node_slice_opts){.memory_bytes = 4 * gib,
                                                 .need = {.ranks = 1, .memory_bytes = 2 * gib}}),
              2);
}

static struct node_slice *cut(struct topo *t, struct node_slice_opts w)
{
    struct node_slice *s = NULL;
    struct err e = {0};
    int n = 0, places = w.slots;
    if (w.need.ranks == 0)
        w.need.ranks = 1;
    if (node_slice_make(&s, &n, t, &w, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(n, places);
    return s;
}

TEST(each_slot_has_its_own_cores)
{
    AUTO(topo) struct topo *t = node(0);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 4});
    CHECK_STR(s[0].cpus, "0-3");
    CHECK_STR(s[3].cpus, "12-15");
    CHECK(!s[0].gpus && !s[0].shared);
    node_slice_free(s, 4);
    s = cut(t, (struct node_slice_opts){.slots = 3, .need = {.ranks = 2}});
    CHECK_STR(s[0].cpus, "0-3");
    CHECK_STR(s[1].cpus, "4-9");
    CHECK_STR(s[2].cpus, "10-15");
    node_slice_free(s, 3);
}

TEST(more_ranks_than_cores_share_all_cores)
{
    AUTO(topo) struct topo *t = node(0);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 5, .need = {.ranks = 2}});
    CHECK(s[4].shared && !s[4].cpus);
    node_slice_free(s, 5);
    s = cut(t, (struct node_slice_opts){.slots = 5, .need = {.ranks = 2}, .cpus = "0-7"});
    CHECK(s[0].shared);
    CHECK_STR(s[0].cpus, "0-7");
    node_slice_free(s, 5);
}

TEST(a_part_of_the_node_is_divided_in_the_same_way)
{
    AUTO(topo) struct topo *t = node(0);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 2, .cpus = "8-11"});
    CHECK_STR(s[0].cpus, "8-9");
    CHECK_STR(s[1].cpus, "10-11");
    node_slice_free(s, 2);
    struct err e = {0};
    int n = 0;
    CHECK_INT(node_slice_make(&s, &n, t,
                              &(struct node_slice_opts){.cpus = "99", .need = {.ranks = 1}}, &e),
              -EINVAL);
    CHECK_HAS(e.text, "'99'");
    CHECK_INT(node_slice_make(&s, &n, t,
                              &(struct node_slice_opts){.cpus = "x", .need = {.ranks = 1}}, &e),
              -EINVAL);
}

TEST(slots_get_neighbouring_gpus)
{
    AUTO(topo) struct topo *t = node(8);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 4});
    CHECK_STR(s[0].gpus, "GPU-0,GPU-1");
    CHECK_STR(s[3].gpus, "GPU-6,GPU-7");
    CHECK(!s[0].shared);
    node_slice_free(s, 4);
    s = cut(t, (struct node_slice_opts){.slots = 2, .gpus = "1,5"});
    CHECK_STR(s[0].gpus, "GPU-1");
    CHECK_STR(s[1].gpus, "GPU-5");
    node_slice_free(s, 2);
    s = cut(t, (struct node_slice_opts){.slots = 4, .gpus = "1,5"});
    CHECK_STR(s[1].gpus, "GPU-1");
    CHECK_STR(s[2].gpus, "GPU-5");
    CHECK(s[2].shared);
    node_slice_free(s, 4);
}

TEST(a_trial_gets_no_more_gpus_than_it_needs)
{
    AUTO(topo) struct topo *t = node(8);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 2, .need = {.gpus = 3}});
    CHECK_STR(s[0].gpus, "GPU-0,GPU-1,GPU-2");
    CHECK_STR(s[1].gpus, "GPU-4,GPU-5,GPU-6");
    node_slice_free(s, 2);
}

TEST(a_gpu_is_not_divided_into_more_fractions_than_fit)
{
    AUTO(topo) struct topo *t = node(8);
    for (int asked = 1; asked <= 60; asked++) {
        struct node_slice_opts w = {.slots = asked, .need = {.ranks = 1, .gpus = 0.15}};
        struct node_slice *s = NULL;
        int n = 0, of[8] = {0};
        CHECK_INT(node_slice_make(&s, &n, t, &w, NULL), 0);
        CHECK_INT(n, asked < 48 ? asked : 48);
        for (int i = 0; i < n; i++) {
            CHECK_INT(strlen(s[i].gpus), 5);
            CHECK(s[i].shared && ++of[s[i].gpus[4] - '0'] <= 6);
        }
        node_slice_free(s, n);
    }
}

TEST(a_list_of_gpus_may_have_ranges_and_uuids)
{
    AUTO(topo) struct topo *t = node(8);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 1, .gpus = "1-2,GPU-5,7"});
    CHECK_STR(s[0].gpus, "GPU-1,GPU-2,GPU-5,GPU-7");
    CHECK(node_slice_has_gpu(s, "GPU-5") && node_slice_has_gpu(s, "GPU-7") &&
          !node_slice_has_gpu(s, "GPU-"));
    node_slice_free(s, 1);
    s = cut(t, (struct node_slice_opts){.slots = 1, .gpus = ""});
    CHECK_STR(s[0].gpus, "");
    CHECK(!node_slice_has_gpu(s, "") && !node_slice_has_gpu(s, "GPU-0"));
    node_slice_free(s, 1);
    const char *const bad[] = {"9", "1,1", "8-9", "GPU-x", "x", "2-1", "0-3,2"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(places(8, (struct node_slice_opts){.gpus = bad[i], .need = {.ranks = 1}}),
                  -EINVAL);
}

TEST(gpus_that_cuda_does_not_see_are_not_used)
{
    AUTO(topo) struct topo *t = node(8);
    const struct {
        const char *visible, *want;
    } cases[] = {
        {"3,1", "GPU-3,GPU-1"}, {"2,-1,4", "GPU-2"}, {"-1", ""}, {"", ""}, {"GPU-6", "GPU-6"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct node_slice *s =
            cut(t, (struct node_slice_opts){.slots = 1, .visible = cases[i].visible});
        CHECK_STR(s[0].gpus, cases[i].want);
        node_slice_free(s, 1);
    }
}

TEST(mig_instances_count_as_gpus)
{
    divided = 1;
    CHECK_INT(places(2, NEED(.gpus = 1)), 3);
    CHECK_INT(places(2, NEED(.gpus = 0.5)), 6);
    AUTO(topo) struct topo *t = node(2);
    struct node_slice *s = cut(t, (struct node_slice_opts){.slots = 3, .need = {.gpus = 1}});
    CHECK_STR(s[0].gpus, "GPU-0");
    CHECK_STR(s[1].gpus, "MIG-a");
    CHECK_STR(s[2].gpus, "MIG-b");
    node_slice_free(s, 3);
    s = cut(t, (struct node_slice_opts){.slots = 1, .gpus = "MIG-b", .need = {.gpus = 1}});
    CHECK_STR(s[0].gpus, "MIG-b");
    node_slice_free(s, 1);
}
