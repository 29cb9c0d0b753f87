/* active_ring: which node is at fault if links of a ring of five nodes are broken or slow. */
#include "launcher/doctor/active/active_internal.h"

#include "common/mem.h"

#include "tests/unit/test.h"

enum { NODES = 5 };

static struct check_result results[NODES][80];
static struct doctor_node nodes[NODES];
static const int numbers[NODES] = {0, 1, 2, 3, 4};
static struct doctor_report report = {.nodes = nodes, .count = NODES};
static const struct active_opts opts = {0};
static const struct active_measurement m = {
    .report = &report, .opts = &opts, .nodes = numbers, .count = NODES};

/* A link that does not work, or is slow. */
struct fault {
    int from, to;
    const char *error; /* NULL: slow */
};

/* The output of a measurement. The caller drops its reference. */
static json_t *measured(const struct fault *faults, size_t count)
{
    json_t *root = json_pack("{s:[]}", "rows");
    for (int i = 0; i < 2 * NODES; i++) {
        int from = i / 2, to = (from + (i % 2 ? NODES - 1 : 1)) % NODES;
        json_t *row = json_pack("{s:i, s:i, s:s, s:n, s:f}", "from", from, "to", to, "address",
                                "10.0.0.1", "error", "gbps", 1.0 + 0.01 * i);
        for (size_t k = 0; k < count; k++)
            if (faults[k].from == from && faults[k].to == to) {
                json_object_set_new(row, "gbps", json_real(faults[k].error ? 0 : 0.3));
                if (faults[k].error)
                    json_object_set_new(row, "error", json_string(faults[k].error));
            }
        json_array_append_new(json_object_get(root, "rows"), row);
    }
    return root;
}

static const struct check_result *judge(int node, const struct fault *faults, size_t count)
{
    static char *names[] = {"a", "b", "c", "d", "e"};
    AUTO(json) json_t *root = measured(faults, count);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (struct doctor_node){.name = names[i], .results = results[i]};
        check_skip((struct check_result *)active_result(&m, i, "net.back"), "no launcher");
    }
    active_ring_judge(&m, root);
    return active_result(&m, node, "net.back");
}

TEST(a_ring_without_faults_is_ok)
{
    const struct check_result *r = judge(2, NULL, 0);
    CHECK_INT(r->state, CHECK_OK);
    CHECK_STR(r->value, "1.04 GB/s to its neighbours");
}

TEST(a_link_that_is_broken_one_way_is_named_with_both_ends)
{
    static const struct fault f[] = {{1, 2, "Connection refused"}};
    CHECK_INT(judge(1, f, 1)->state, CHECK_FAIL);
    CHECK_STR(judge(1, f, 1)->value, "b to c (10.0.0.1): Connection refused");
    CHECK_INT(judge(2, f, 1)->state, CHECK_OK);
    CHECK_INT(judge(0, f, 1)->state, CHECK_OK);
}

TEST(a_node_whose_links_are_all_broken_is_the_only_one_at_fault)
{
    static const struct fault f[] = {
        {1, 2, "lost"}, {2, 1, "lost"}, {3, 2, "lost"}, {2, 3, "lost"}};
    CHECK_STR(judge(2, f, 4)->value,
              "b to c (10.0.0.1): lost; c to d (10.0.0.1): lost; c to b (10.0.0.1): lost; d to c "
              "(10.0.0.1): lost");
    for (int i = 0; i < NODES; i++)
        CHECK_INT(judge(i, f, 4)->state, i == 2 ? CHECK_FAIL : CHECK_OK);
}

TEST(a_slow_link_is_named_with_the_rate_of_the_others)
{
    static const struct fault f[] = {{4, 0, NULL}};
    CHECK_STR(judge(4, f, 1)->value, "e to a: 0.3 GB/s");
    CHECK_STR(judge(4, f, 1)->want, "a connection with 1.04 GB/s, as the others have");
}

TEST(slow_links_do_not_change_which_node_a_broken_link_is_a_failure_of)
{
    static const struct fault f[] = {{1, 2, "lost"}, {2, 1, "lost"}, {2, 3, NULL}};
    CHECK_STR(judge(1, f, 3)->value, "b to c (10.0.0.1): lost");
    CHECK_STR(judge(2, f, 3)->value, "c to d: 0.3 GB/s; c to b (10.0.0.1): lost");
    CHECK_INT(judge(3, f, 3)->state, CHECK_OK);
}

TEST(a_link_is_slow_if_it_is_slow_in_both_measurements)
{
    static const struct fault first[] = {{4, 0, NULL}, {1, 2, "lost"}};
    static const struct fault second[] = {{4, 0, NULL}, {2, 3, NULL}};
    AUTO(json) json_t *root = measured(first, 2);
    AUTO(json) json_t *again = measured(second, 2);
    AUTO(json) json_t *good = measured(NULL, 0);
    active_ring_merge(root, again);
    CHECK(active_ring_is_slow(root));
    active_ring_merge(root, NULL);
    CHECK(active_ring_is_slow(root));
    active_ring_merge(root, good);
    CHECK(!active_ring_is_slow(root));
    json_t *broken = json_array_get(json_object_get(root, "rows"), 2);
    CHECK_STR(json_string_value(json_object_get(broken, "error")), "lost");
    CHECK_NEAR(json_number_value(json_object_get(broken, "gbps")), 0, 0);
}
