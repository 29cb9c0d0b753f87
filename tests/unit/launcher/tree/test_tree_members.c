/* tree_members: how agents come to their places, and which are lost. */
#include "launcher/tree/tree_members.h"

#include "common/strbuf.h"
#include "tests/unit/kit_tree.h"
#include "tests/unit/test.h"

/* What the launcher was told to do, such as "joined 0, move 2 to a:1, ". */
static struct strbuf told;

static void on_move(void *arg, int node, const char *address)
{
    strbuf_printf(&told, "move %d to %s, ", node, address);
}

static void on_joined(void *arg, int node)
{
    strbuf_printf(&told, "joined %d, ", node);
}

static void on_lost(void *arg, int node)
{
    strbuf_printf(&told, "lost %d, ", node);
}

/* Nodes 0 and 1 below the launcher, 2 and 3 below 0, 4 and 5 below 1, 6 below 2. */
static struct tree_members *seven(void)
{
    static const struct tree_members_events ev = {on_move, on_joined, on_lost};
    return tree_members_new(&(struct tree){.nodes = 7, .radix = 2}, &ev, NULL);
}

static void check_told(const char *want)
{
    CHECK_STR(strbuf_str(&told), want);
    strbuf_reset(&told);
}

TEST(every_state_is_reached_and_only_lost_has_no_way_out)
{
    bool reached[TREE_MEMBER_STATES] = {true};
    for (int s = 0; s < TREE_MEMBER_STATES; s++) {
        int rows = 0;
        for (int ev = 0; ev < TREE_MEMBER_EVENTS; ev++) {
            int next = states_next(&tree_member_states, (enum tree_member_state)s,
                                   (enum tree_member_event)ev);
            if (next >= 0)
                reached[next] = true;
            rows += next >= 0;
        }
        CHECK_INT(rows == 0, s == TREE_MEMBER_LOST);
        CHECK(states_name(&tree_member_states, (enum tree_member_state)s) != NULL);
    }
    for (int s = 0; s < TREE_MEMBER_STATES; s++)
        CHECK(reached[s]);
}

TEST(a_child_of_the_launcher_stays_and_others_move_when_their_parent_listens)
{
    AUTO(tree_members) struct tree_members *m = seven();
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), 0);
    check_told("");
    CHECK_INT(tree_members_state(m, 2), TREE_MEMBER_WAITING);
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), 0);
    check_told("joined 0, ");
    tree_members_listening(m, 0, "a:1", 0);
    check_told("move 2 to a:1, ");
    CHECK_INT(tree_members_hello(m, 3, TREE_LAUNCHER, 0), 0);
    check_told("move 3 to a:1, ");
    CHECK_INT(tree_members_hello(m, 2, 0, 0), 0);
    check_told("joined 2, ");
    int first;
    CHECK_INT(kit_tree_count(m, 7, TREE_MEMBER_JOINED, &first), 2);
    CHECK_INT(kit_tree_count(m, 7, TREE_MEMBER_EXPECTED, &first), 4);
    CHECK_INT(first, 1);
    CHECK_INT(kit_tree_count(m, 7, TREE_MEMBER_MOVING, &first), 1);
    CHECK_INT(first, 3);
}

TEST(a_hello_through_a_node_that_is_not_the_parent_or_a_second_one_is_refused)
{
    AUTO(tree_members) struct tree_members *m = seven();
    CHECK_INT(tree_members_hello(m, 7, TREE_LAUNCHER, 0), -EINVAL);
    CHECK_INT(tree_members_hello(m, -1, TREE_LAUNCHER, 0), -EINVAL);
    CHECK_INT(tree_members_hello(m, 2, 1, 0), -EINVAL);
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), -EEXIST);
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), -EEXIST);
    CHECK_INT(tree_members_hello(m, 2, 0, 0), -EEXIST);
}

TEST(with_a_node_all_below_it_are_lost_once)
{
    AUTO(tree_members) struct tree_members *m = seven();
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), 0);
    tree_members_listening(m, 0, "a:1", 0);
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 2, 0, 0), 0);
    strbuf_reset(&told);
    tree_members_lose(m, 2);
    check_told("lost 2, lost 6, ");
    tree_members_lose(m, 2);
    check_told("");
    tree_members_lose(m, 0);
    check_told("lost 0, lost 3, ");
    CHECK_INT(tree_members_hello(m, 3, TREE_LAUNCHER, 0), -EEXIST);
    tree_members_listening(m, 0, "a:1", 0);
    int first;
    CHECK_INT(kit_tree_count(m, 7, TREE_MEMBER_LOST, &first), 4);
}

TEST(a_node_that_moves_is_lost_with_a_node_above_it)
{
    AUTO(tree_members) struct tree_members *m = seven();
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 3, TREE_LAUNCHER, 0), 0);
    strbuf_reset(&told);
    tree_members_lose(m, 3); /* before it was told to move */
    check_told("lost 3, ");
    tree_members_listening(m, 0, "a:1", 0);
    check_told("move 2 to a:1, ");
    tree_members_lose(m, 0);
    check_told("lost 0, lost 2, lost 6, ");
    CHECK_INT(tree_members_hello(m, 2, 0, 0), -EEXIST);
}

TEST(a_node_that_does_not_arrive_in_time_is_late)
{
    AUTO(tree_members) struct tree_members *m = seven();
    int64_t next_ms;
    CHECK_INT(tree_members_hello(m, 0, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_hello(m, 2, TREE_LAUNCHER, 0), 0);
    CHECK_INT(tree_members_late(m, 1000000, &next_ms), -1); /* it waits for its parent */
    CHECK(next_ms == INT64_MAX);
    tree_members_listening(m, 0, "a:1", 5000);
    CHECK_INT(tree_members_hello(m, 3, TREE_LAUNCHER, 7000), 0);
    CHECK_INT(tree_members_late(m, 5000 + TREE_MEMBERS_MOVE_MS - 1, &next_ms), -1);
    CHECK_INT(next_ms, 5000 + TREE_MEMBERS_MOVE_MS);
    CHECK_INT(tree_members_late(m, next_ms, &next_ms), 2);
    tree_members_lose(m, 2);
    CHECK_INT(tree_members_late(m, 5000 + TREE_MEMBERS_MOVE_MS, &next_ms), -1);
    CHECK_INT(next_ms, 7000 + TREE_MEMBERS_MOVE_MS);
    CHECK_INT(tree_members_hello(m, 3, 0, 8000), 0);
    CHECK_INT(tree_members_late(m, INT64_MAX, &next_ms), -1);
    CHECK(next_ms == INT64_MAX);
    strbuf_reset(&told);
}
