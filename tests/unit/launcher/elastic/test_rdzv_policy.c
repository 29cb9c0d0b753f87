#include "launcher/elastic/rdzv_policy.h"
#include "tests/unit/test.h"

static struct rdzv_policy_node node(int id, const char *name)
{
    struct rdzv_policy_node n = {.id = id, .ranks = 2, .port = 5000 + id};
    snprintf(n.name, sizeof n.name, "%s", name);
    snprintf(n.address, sizeof n.address, "10.0.0.%d", id);
    return n;
}

static size_t join(struct rdzv_policy *r, int id, const char *name, int64_t now_ms)
{
    struct rdzv_policy_node n = node(id, name);
    return rdzv_policy_join(r, &n, now_ms);
}

static struct rdzv_policy *new_round(int least, int most)
{
    const struct rdzv_policy_opts want = {least, most, 30000, 600000};
    return rdzv_policy_new(&want, 1000);
}

/* The action for the node in the result of the last call; NULL: none. */
static const struct rdzv_policy_action *told(const struct rdzv_policy *r, size_t count, int id)
{
    for (size_t i = 0; i < count; i++)
        if (rdzv_policy_action(r, i)->id == id)
            return rdzv_policy_action(r, i);
    return NULL;
}

TEST(all_start_when_the_last_one_has_come)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(3, 3);
    CHECK_INT(join(r, 1, "c", 1000), 0);
    CHECK_INT(join(r, 2, "b", 1000), 0);
    size_t n = join(r, 3, "a", 1000);
    CHECK_INT(n, 3);
    for (int id = 1; id <= 3; id++) { /* by name: a is node 0 */
        const struct rdzv_policy_action *a = told(r, n, id);
        CHECK(a && a->reply == RDZV_POLICY_ASSIGN);
        CHECK_INT(a->node, 3 - id);
        CHECK_INT(a->first_rank, 2 * (3 - id));
        CHECK_INT(a->world_size, 6);
        CHECK_INT(a->nodes, 3);
        CHECK_STR(a->address, "10.0.0.3");
        CHECK_INT(a->port, 5003);
    }
    CHECK_INT(rdzv_policy_deadline(r), INT64_MAX);
}

TEST(the_host_is_node_0_and_nodes_may_have_different_numbers_of_ranks)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 2);
    struct rdzv_policy_node host = node(1, "z"), other = node(2, "a");
    host.host = true;
    other.ranks = 5;
    CHECK_INT(rdzv_policy_join(r, &other, 0), 0);
    CHECK_INT(rdzv_policy_join(r, &host, 0), 2);
    CHECK_INT(told(r, 2, 1)->node, 0);
    CHECK_INT(told(r, 2, 2)->node, 1);
    CHECK_INT(told(r, 2, 2)->first_rank, 2);
    CHECK_INT(told(r, 2, 1)->world_size, 7);
}

TEST(after_the_last_call_those_start_that_have_come)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 4);
    CHECK_INT(join(r, 1, "a", 5000), 0);
    CHECK_INT(rdzv_policy_deadline(r), 605000);
    CHECK_INT(join(r, 2, "b", 10000), 0);
    CHECK_INT(rdzv_policy_deadline(r), 40000);
    CHECK_INT(join(r, 3, "c", 39999), 0); /* the deadline stays */
    CHECK_INT(rdzv_policy_timeout(r, 39999), 0);
    CHECK_INT(rdzv_policy_timeout(r, 40000), 3);
    CHECK_INT(rdzv_policy_action(r, 0)->nodes, 3);
}

TEST(a_node_that_leaves_before_the_start_is_not_waited_with)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 3);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    CHECK_INT(rdzv_policy_left(r, 2, "the connection was closed", 10), 0);
    CHECK_INT(rdzv_policy_timeout(r, 30000), 0); /* there are not enough any more */
    CHECK_INT(join(r, 3, "c", 40000), 0);
    CHECK_INT(rdzv_policy_timeout(r, 69999), 0);
    CHECK_INT(rdzv_policy_timeout(r, 70000), 2);
}

TEST(too_few_nodes_are_told_who_came)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(3, 3);
    join(r, 1, "a", 1000);
    join(r, 2, "b", 1000);
    CHECK_INT(rdzv_policy_timeout(r, 601000), 2);
    CHECK_INT(rdzv_policy_action(r, 1)->reply, RDZV_POLICY_REJECT);
    CHECK_STR(rdzv_policy_action(r, 1)->why, "2 of 3 nodes joined in 600 s: a b");
    CHECK_INT(rdzv_policy_deadline(r), INT64_MAX);
}

TEST(it_is_over_when_all_have_ended_well)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 2);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    CHECK_INT(rdzv_policy_ended(r, 1, true, "", 0), 0);
    CHECK_INT(rdzv_policy_ended(r, 1, true, "", 0), 0); /* said twice */
    CHECK_INT(rdzv_policy_ended(r, 2, true, "", 0), 2);
    CHECK_INT(rdzv_policy_action(r, 0)->reply, RDZV_POLICY_JOB_DONE);
    CHECK_INT(join(r, 3, "c", 0), 1);
    CHECK_INT(rdzv_policy_action(r, 0)->reply, RDZV_POLICY_REJECT);
}

TEST(a_failure_ends_the_attempt_on_all_nodes_also_where_it_ended_well)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(3, 3);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    join(r, 3, "c", 0);
    rdzv_policy_ended(r, 1, true, "", 0);
    size_t n = rdzv_policy_ended(r, 2, false, "rank 3 exited with status 7", 0);
    CHECK_INT(n, 3); /* the one that failed, too: it knows that the others know */
    for (int id = 1; id <= 3; id++) {
        const struct rdzv_policy_action *a = told(r, n, id);
        CHECK(a && a->reply == RDZV_POLICY_STOP && a->failure);
        CHECK_STR(a->why, "b: rank 3 exited with status 7");
    }
    CHECK_INT(join(r, 2, "b", 10), 0);
    CHECK_INT(join(r, 1, "a", 10), 0);
    CHECK_INT(join(r, 3, "c", 10), 3);
    CHECK_INT(rdzv_policy_action(r, 0)->reply, RDZV_POLICY_ASSIGN);
}

TEST(a_lost_node_ends_the_attempt_and_the_rest_goes_on_where_it_suffices)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 3);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    join(r, 3, "c", 0);
    CHECK_INT(rdzv_policy_left(r, 3, "silent for 15 s", 50000), 2);
    CHECK_STR(rdzv_policy_action(r, 0)->why, "c: silent for 15 s");
    join(r, 1, "a", 51000);
    CHECK_INT(join(r, 2, "b", 52000), 0);
    CHECK_INT(rdzv_policy_timeout(r, 82000), 2);
    CHECK_INT(rdzv_policy_action(r, 0)->nodes, 2);
}

TEST(a_node_that_comes_later_is_taken_in_where_there_is_room)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(1, 2);
    join(r, 1, "a", 0);
    CHECK_INT(rdzv_policy_timeout(r, 30000), 1);
    size_t n = join(r, 2, "b", 60000);
    CHECK_INT(n, 1);
    CHECK_INT(rdzv_policy_action(r, 0)->reply, RDZV_POLICY_STOP);
    CHECK(!rdzv_policy_action(r, 0)->failure);
    CHECK_STR(rdzv_policy_action(r, 0)->why, "b joined");
    CHECK_INT(join(r, 1, "a", 61000), 2);
}

TEST(a_node_too_many_waits_for_a_place)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 2);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    CHECK_INT(join(r, 3, "c", 0), 0);
    rdzv_policy_left(r, 1, "gone", 0);
    CHECK_INT(join(r, 2, "b", 0), 2);
    CHECK(told(r, 2, 3) && told(r, 2, 2));
}

/* Any order of calls: no crash, no place without enough nodes, one world for all. */
TEST(whatever_nodes_say_an_attempt_is_one_world)
{
    for (unsigned seed = 1; seed <= 2000; seed++) {
        unsigned state = seed;
        AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 3);
        int64_t now = 1000;
        for (int k = 0; k < 200; k++) {
            state = state * 1103515245u + 12345u;
            int id = 1 + (int)(state >> 16) % 4, what = (int)(state >> 20) % 5;
            char name[2] = {(char)('a' + id), 0};
            now += (state >> 8) % 20000;
            size_t n = what <= 1   ? join(r, id, name, now)
                       : what == 2 ? rdzv_policy_ended(r, id, state & 1u, "x", now)
                       : what == 3 ? rdzv_policy_left(r, id, "y", now)
                                   : rdzv_policy_timeout(r, now);
            int places = 0, world = 0;
            unsigned seen = 0;
            for (size_t i = 0; i < n; i++) {
                const struct rdzv_policy_action *a = rdzv_policy_action(r, i);
                if (a->reply != RDZV_POLICY_ASSIGN)
                    continue;
                places++;
                world = a->world_size;
                seen |= 1u << a->node;
                if (a->nodes < 2 || a->nodes > 3 || a->first_rank != 2 * a->node)
                    FAIL("seed %u, step %d: node %d of %d, rank %d", seed, k, a->node, a->nodes,
                         a->first_rank);
            }
            if (places && (world != 2 * places || seen != (1u << places) - 1))
                FAIL("seed %u, step %d: %d places in a world of %d", seed, k, places, world);
        }
    }
}

TEST(after_a_final_failure_nobody_joins)
{
    AUTO(rdzv_policy) struct rdzv_policy *r = new_round(2, 3);
    join(r, 1, "a", 0);
    join(r, 2, "b", 0);
    rdzv_policy_timeout(r, 30000);
    join(r, 3, "c", 30001); /* all stop and join again; c waits */
    CHECK_INT(rdzv_policy_finish(r), 1);
    CHECK_INT(told(r, 1, 3)->reply, RDZV_POLICY_REJECT);
    CHECK_INT(join(r, 1, "a", 31000), 1);
    CHECK_STR(told(r, 1, 1)->why, "the job has ended");
    CHECK_INT(rdzv_policy_deadline(r), INT64_MAX);
}
