/* exchange: fences, requests and names among the instances of a few nodes, which are connected by
 * queues. test_tree_sim has random jobs; here are single cases and what neighbours must not send.
 */
#include "launcher/tree/exchange.h"

#include "tests/unit/test.h"

enum { NODES = 7, RANKS = 10, QUEUE = 4096 };

/* Nodes 0 and 1 below the launcher, 2 and 3 below 0, 4 and 5 below 1, 6 below 2. Node 5 has no
 * rank. */
static const struct tree tree = {.nodes = NODES, .radix = 2};
static const int rank_nodes[RANKS] = {6, 0, 1, 2, 3, 4, 6, 0, 2, 4};

static struct letter {
    int from, to;
    char *bytes;
    size_t len;
} queue[QUEUE];

static int head, tail;
static struct exchange *at[NODES + 1]; /* [0] is the launcher */
static struct strbuf got[NODES];       /* what the servers were given, as text */
static int64_t now_ms;
static bool dead[NODES];
static uint64_t last_id[NODES];
static enum exchange_kind last_kind[NODES];

static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    int from = *(int *)arg;
    CHECK(from == TREE_LAUNCHER ? tree_parent(&tree, to) == from
                                : to == tree_parent(&tree, from) || tree_parent(&tree, to) == from);
    CHECK(tail < QUEUE);
    queue[tail++] = (struct letter){from, to, memcpy(malloc(len), bytes, len), len};
}

static const char *const names[EXCHANGE_TYPES] = {"fence",     "done",   "get",   "got", "publish",
                                                  "unpublish", "lookup", "found", "lost"};

static void on_deliver(void *arg, const struct exchange_message *m)
{
    int node = *(int *)arg;
    CHECK(node >= 0);
    last_kind[node] = m->kind;
    strbuf_printf(&got[node], "%s", names[m->type]);
    if (m->type == EXCHANGE_GET)
        strbuf_printf(&got[node], " of %d for %d", m->rank, m->node);
    if (m->type == EXCHANGE_FENCE_DONE)
        last_id[node] = m->id;
    else
        strbuf_printf(&got[node], " #%llu", (unsigned long long)m->id);
    strbuf_printf(&got[node], " %d", m->status);
    for (size_t i = 0; i < m->len; i++) /* data of a fence: sorted, as they come in any order */
        if (m->type != EXCHANGE_FENCE_DONE)
            strbuf_printf(&got[node], "%s%c", i ? "" : " ", m->data[i]);
    for (int c = 0; c < 128 && m->type == EXCHANGE_FENCE_DONE; c++)
        for (size_t i = 0; i < m->len; i++)
            if (m->data[i] == c)
                strbuf_putc(&got[node], (char)c);
    strbuf_puts(&got[node], "; ");
}

static void start(void)
{
    static int numbers[NODES + 1];
    static const struct exchange_events ev = {.send = on_send, .deliver = on_deliver};
    for (int i = TREE_LAUNCHER; i < NODES; i++) {
        numbers[i + 1] = i;
        at[i + 1] = exchange_new(&tree, i, rank_nodes, RANKS, &ev, &numbers[i + 1]);
    }
}

static void end(void)
{
    for (int i = 0; i <= NODES; i++)
        exchange_free(at[i]);
    for (int i = 0; i < NODES; i++)
        strbuf_free(&got[i]);
}

/* Delivers one message. Returns false if there is none. */
static bool turn(void)
{
    if (head == tail)
        return false;
    struct letter l = queue[head++];
    struct err e = {0};
    if (l.to < 0 || !dead[l.to])
        if (exchange_receive(at[l.to + 1], l.from, l.bytes, l.len, now_ms, &e) < 0)
            FAIL("%d refuses what %d sends: %s", l.to, l.from, e.text);
    free(l.bytes);
    return true;
}

static void run(void)
{
    while (turn())
        ;
}

static void check_got(int node, const char *want)
{
    CHECK_STR(strbuf_str(&got[node]), want);
    strbuf_reset(&got[node]);
}

static void fence_named(int node, const int32_t *ranks, size_t count, const char *data,
                        const char *name)
{
    struct exchange_message m = {.type = EXCHANGE_FENCE,
                                 .kind = EXCHANGE_GROUP,
                                 .rank = -1,
                                 .ranks = ranks,
                                 .rank_count = count,
                                 .keys = &name,
                                 .key_count = name != NULL,
                                 .data = data,
                                 .len = strlen(data)};
    (void)exchange_submit(at[node + 1], &m, 0, NULL);
}

static void fence(int node, const int32_t *ranks, size_t count, const char *data)
{
    fence_named(node, ranks, count, data, NULL);
}

/* Node `node` and all below it die: their parent sees it. */
static void kill_node(int node)
{
    for (int i = 0; i < NODES; i++)
        dead[i] |= tree_is_below(&tree, node, i);
    exchange_lose(at[tree_parent(&tree, node) + 1], node);
}

static const int with_ranks[] = {0, 1, 2, 3, 4, 6};

TEST(a_fence_of_all_gives_all_the_data_of_all_once)
{
    start();
    for (size_t i = 0; i < COUNT_OF(with_ranks); i++) {
        run();
        check_got(0, "");
        fence(with_ranks[i], NULL, 0, &"f\0e\0d\0c\0b\0a"[2 * i]);
    }
    run();
    for (size_t i = 0; i < COUNT_OF(with_ranks); i++)
        check_got(with_ranks[i], "done 0abcdef; ");
    check_got(5, "");
    CHECK(last_id[0] > 0 && last_id[6] == last_id[0]);
    end();
}

TEST(a_list_of_all_ranks_is_the_fence_of_all)
{
    static const int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    start();
    for (size_t i = 0; i < COUNT_OF(with_ranks); i++)
        fence(with_ranks[i], i % 2 ? all : NULL, i % 2 ? RANKS : 0, "x");
    run();
    check_got(3, "done 0xxxxxx; ");
    end();
}

TEST(a_fence_ends_at_the_lowest_instance_above_its_participants)
{
    static const int32_t at_6[] = {0, 6}, at_2_and_3[] = {3, 4}, at_0_and_6[] = {0, 1};
    start();
    fence(6, at_6, 2, "x");
    CHECK_INT(tail, 0); /* without a message */
    check_got(6, "done 0x; ");
    uint64_t first = last_id[6];
    fence(2, at_2_and_3, 2, "a");
    fence(3, at_2_and_3, 2, "b");
    run();
    CHECK_INT(tail, 4); /* to node 0 and back */
    check_got(2, "done 0ab; ");
    check_got(3, "done 0ab; ");
    check_got(0, "");
    fence(0, at_0_and_6, 2, "a");
    fence(6, at_0_and_6, 2, "b");
    run();
    CHECK_INT(tail, 8); /* node 2 only passes on */
    check_got(0, "done 0ab; ");
    check_got(6, "done 0ab; ");
    check_got(2, "");
    CHECK(first != last_id[2] && last_id[2] != last_id[0] && first != last_id[0]);
    end();
}

TEST(fences_of_the_same_participants_count_in_order_and_others_are_independent)
{
    static const int32_t few[] = {1, 2}, others[] = {1, 5};
    start();
    fence(0, few, 2, "a");
    fence(0, few, 2, "b");
    fence_named(0, few, 2, "n", "name");
    fence(0, others, 2, "o");
    fence(4, others, 2, "p");
    run();
    check_got(0, "done 0op; ");
    fence_named(1, few, 2, "m", "name");
    run();
    check_got(0, "done 0mn; ");
    fence(1, few, 2, "c");
    run();
    check_got(0, "done 0ac; ");
    check_got(1, "done 0mn; done 0ac; ");
    fence(1, few, 2, "d");
    run();
    check_got(0, "done 0bd; ");
    check_got(1, "done 0bd; ");
    end();
}

TEST(a_server_that_fails_makes_the_fence_fail_and_the_next_one_starts_fresh)
{
    static const int32_t few[] = {1, 2, 5};
    start();
    (void)exchange_submit(at[1],
                          &(struct exchange_message){.type = EXCHANGE_FENCE,
                                                     .kind = EXCHANGE_GROUP,
                                                     .ranks = few,
                                                     .rank_count = 3,
                                                     .status = EXCHANGE_FAILED},
                          0, NULL);
    run();
    check_got(0, "done 4; ");
    check_got(4, ""); /* it has not come yet */
    fence(0, few, 3, "a");
    fence(4, few, 3, "b");
    check_got(4, "done 4; ");
    fence(4, few, 3, "c");
    fence(1, few, 3, "d");
    fence(1, few, 3, "e");
    run();
    check_got(0, "done 0ace; ");
    check_got(1, "done 4; done 0ace; ");
    check_got(4, "done 0ace; ");
    end();
}

TEST(a_fence_that_fails_does_not_overtake_the_one_before_it)
{
    static const int32_t few[] = {1, 2};
    start();
    fence(0, few, 2, "a");
    (void)exchange_submit(at[1],
                          &(struct exchange_message){.type = EXCHANGE_FENCE,
                                                     .kind = EXCHANGE_GROUP,
                                                     .ranks = few,
                                                     .rank_count = 2,
                                                     .status = EXCHANGE_FAILED},
                          0, NULL);
    run();
    check_got(0, "");
    fence(1, few, 2, "b");
    run();
    check_got(0, "done 0ab; done 4; ");
    check_got(1, "done 0ab; ");
    fence(1, few, 2, "c");
    run();
    check_got(1, "done 4; ");
    end();
}

TEST(fences_with_a_lost_node_fail_now_and_later_and_others_go_on)
{
    static const int32_t with_6[] = {2, 6, 8}, without[] = {2, 8};
    start();
    fence(1, with_6, 3, "a");
    run();
    check_got(1, "");
    kill_node(6);
    run();
    check_got(1, "done 4; ");
    fence(2, with_6, 3, "b");
    check_got(2, "done 4; ");
    fence(2, with_6, 3, "c");
    run();
    check_got(2, "done 4; ");
    fence(1, with_6, 3, "d");
    run();
    check_got(1, "done 4; ");
    fence(1, NULL, 0, "e");
    run();
    check_got(1, "done 4; ");
    fence(1, without, 2, "a");
    fence(2, without, 2, "b");
    run();
    check_got(1, "done 0ab; ");
    check_got(2, "done 0ab; ");
    end();
}

TEST(a_participant_that_only_a_lost_subtree_has_makes_a_fence_fail_at_once)
{
    static const int32_t few[] = {2, 6};
    start();
    kill_node(2);
    run();
    fence(1, few, 2, "a");
    run();
    check_got(1, "done 4; ");
    check_got(0, "");
    end();
}

static void get(int node, int rank, uint64_t id)
{
    (void)exchange_submit(at[node + 1],
                          &(struct exchange_message){.type = EXCHANGE_GET, .rank = rank, .id = id},
                          0, NULL);
}

static void answer(int node, int to, uint64_t id, const char *data)
{
    (void)exchange_submit(at[node + 1],
                          &(struct exchange_message){.type = EXCHANGE_GOT,
                                                     .node = to,
                                                     .rank = -1,
                                                     .id = id,
                                                     .data = data,
                                                     .len = strlen(data)},
                          0, NULL);
}

TEST(a_request_goes_to_the_node_of_the_rank_and_its_answer_back)
{
    start();
    get(6, 5, 7);
    run();
    check_got(4, "get of 5 for 6 #7 0; ");
    answer(4, 6, 7, "data");
    run();
    check_got(6, "got #7 0 data; ");
    get(2, 0, 1); /* to its own child */
    run();
    check_got(6, "get of 0 for 2 #1 0; ");
    answer(6, 2, 1, "x");
    run();
    check_got(2, "got #1 0 x; ");
    get(2, 3, 2); /* to itself */
    check_got(2, "get of 3 for 2 #2 0; ");
    answer(2, 2, 2, "y");
    check_got(2, "got #2 0 y; ");
    answer(2, 2, 2, "again");
    check_got(2, "");
    get(2, RANKS, 3);
    get(2, -1, 4);
    check_got(2, "got #3 1; got #4 1; ");
    end();
}

TEST(requests_to_lost_nodes_are_answered_once)
{
    start();
    get(3, 6, 1);
    get(3, 2, 2);
    run();
    check_got(6, "get of 6 for 3 #1 0; ");
    check_got(1, "get of 2 for 3 #2 0; ");
    answer(6, 3, 1, "late"); /* on its way when the node dies */
    kill_node(2);
    run();
    check_got(3, "got #1 4; ");
    get(3, 8, 3);
    check_got(3, "got #3 4; ");
    answer(1, 3, 2, "x");
    run();
    check_got(3, "got #2 0 x; ");
    end();
}

static void name(int node, enum exchange_type type, int rank, uint64_t id, const char *keys,
                 int64_t wait_ms, const char *data)
{
    const char *list[] = {keys, keys + strlen(keys) + 1};
    (void)exchange_submit(
        at[node + 1],
        &(struct exchange_message){.type = type,
                                   .rank = rank,
                                   .id = id,
                                   .keys = list,
                                   .key_count = (keys[0] != 0) + (size_t)(keys[0] && *list[1]),
                                   .once = data && data[0] == '!',
                                   .wait_ms = wait_ms,
                                   .data = data,
                                   .len = data ? strlen(data) : 0},
        0, NULL);
    run();
}

TEST(names_are_published_looked_up_and_removed)
{
    start();
    name(6, EXCHANGE_PUBLISH, 0, 1, "a\0", 0, "A");
    check_got(6, "found #1 0; ");
    name(1, EXCHANGE_PUBLISH, 2, 1, "a\0", 0, "B");
    check_got(1, "found #1 2; ");
    name(1, EXCHANGE_LOOKUP, 2, 2, "b\0a", 0, NULL);
    check_got(1, "found #2 0 A; ");
    name(1, EXCHANGE_LOOKUP, 2, 3, "b\0", 0, NULL);
    check_got(1, "found #3 1; ");
    name(1, EXCHANGE_LOOKUP, 2, 4, "b\0a", -1, NULL);
    check_got(1, "");
    name(3, EXCHANGE_PUBLISH, 4, 9, "b\0", 0, "!once");
    check_got(3, "found #9 0; ");
    check_got(1, "found #4 0 !onceA; ");
    name(1, EXCHANGE_LOOKUP, 2, 5, "b\0", 0, NULL);
    check_got(1, "found #5 1; ");
    name(1, EXCHANGE_UNPUBLISH, 2, 8, "a\0", 0, NULL); /* not the owner */
    check_got(1, "found #8 1; ");
    name(1, EXCHANGE_LOOKUP, 2, 6, "a\0", 0, NULL);
    check_got(1, "found #6 0 A; ");
    name(6, EXCHANGE_UNPUBLISH, 0, 9, "\0", 0, NULL);
    check_got(6, "found #9 0; ");
    name(1, EXCHANGE_LOOKUP, 2, 7, "a\0", 0, NULL);
    check_got(1, "found #7 1; ");
    name(6, EXCHANGE_UNPUBLISH, 0, 10, "a\0", 0, NULL);
    check_got(6, "found #10 1; ");
    end();
}

/* A name of PMI-1. */
static void pmi1_name(enum exchange_type type, const char *data)
{
    const char *key = "a";
    (void)exchange_submit(at[7],
                          &(struct exchange_message){.type = type,
                                                     .kind = EXCHANGE_PMI1,
                                                     .rank = 0,
                                                     .id = 1,
                                                     .keys = &key,
                                                     .key_count = 1,
                                                     .data = data,
                                                     .len = data ? strlen(data) : 0},
                          0, NULL);
    run();
}

TEST(names_of_different_kinds_do_not_meet_and_answers_have_the_kind_of_their_request)
{
    start();
    name(6, EXCHANGE_PUBLISH, 0, 1, "a\0", 0, "A");
    check_got(6, "found #1 0; ");
    CHECK_INT(last_kind[6], EXCHANGE_MODEX);
    pmi1_name(EXCHANGE_LOOKUP, NULL);
    check_got(6, "found #1 1; ");
    CHECK_INT(last_kind[6], EXCHANGE_PMI1);
    pmi1_name(EXCHANGE_PUBLISH, "B");
    check_got(6, "found #1 0; ");
    pmi1_name(EXCHANGE_LOOKUP, NULL);
    check_got(6, "found #1 0 B; ");
    pmi1_name(EXCHANGE_UNPUBLISH, NULL);
    check_got(6, "found #1 0; ");
    CHECK_INT(last_kind[6], EXCHANGE_PMI1);
    name(1, EXCHANGE_LOOKUP, 2, 2, "a\0", 0, NULL);
    check_got(1, "found #2 0 A; ");
    end();
}

TEST(a_lookup_waits_until_its_time_is_over)
{
    start();
    CHECK(exchange_expire(at[0], 0) == INT64_MAX);
    now_ms = 1000;
    name(1, EXCHANGE_LOOKUP, 2, 1, "a\0", 500, NULL);
    name(2, EXCHANGE_LOOKUP, 3, 1, "a\0", -1, NULL);
    name(6, EXCHANGE_LOOKUP, 6, 1, "a\0", 9000, NULL);
    CHECK_INT(exchange_expire(at[0], 1499), 1500);
    CHECK_INT(exchange_expire(at[0], 1500), 10000);
    run();
    check_got(1, "found #1 3; ");
    kill_node(6);
    CHECK_INT(exchange_expire(at[0], 1500), 10000); /* the launcher does not know yet */
    run();
    CHECK(exchange_expire(at[0], 1500) == INT64_MAX);
    name(1, EXCHANGE_PUBLISH, 2, 2, "a\0", 0, "A");
    check_got(2, "found #1 0 A; ");
    end();
}

static void check_refused(int node, int from, struct exchange_message m)
{
    AUTO(strbuf) struct strbuf b = {0};
    struct err e = {0};
    exchange_message_encode(&b, &m);
    CHECK_INT(exchange_receive(at[node + 1], from, b.data, b.len, 0, &e), -EBADMSG);
    CHECK(e.text[0]);
    CHECK_INT(head, tail);
}

#define REFUSED(node, from, ...) check_refused(node, from, (struct exchange_message){__VA_ARGS__})

TEST(what_a_neighbour_must_not_send_is_refused)
{
    static const int32_t below_2[] = {0, 3}, far[] = {2}, none[] = {77}, two[] = {1, 2};
    enum { UP = TREE_LAUNCHER };
    start();
    REFUSED(0, UP, .type = EXCHANGE_FENCE);
    REFUSED(0, 2, .type = EXCHANGE_FENCE_DONE);
    REFUSED(0, UP, .type = EXCHANGE_FENCE_DONE);                              /* too early */
    REFUSED(0, 2, .type = EXCHANGE_FENCE, .ranks = none, .rank_count = 1);    /* no such rank */
    REFUSED(0, 2, .type = EXCHANGE_FENCE, .ranks = two, .rank_count = 2);     /* not below 2 */
    REFUSED(0, 2, .type = EXCHANGE_FENCE, .ranks = far, .rank_count = 1);     /* not below 0 */
    REFUSED(0, 2, .type = EXCHANGE_FENCE, .ranks = below_2, .rank_count = 2); /* ends below */
    REFUSED(0, UP, .type = EXCHANGE_FENCE_DONE, .ranks = far, .rank_count = 1);
    REFUSED(0, UP, .type = EXCHANGE_FENCE_DONE, .ranks = below_2, .rank_count = 2, .status = 4);
    REFUSED(0, 2, .type = EXCHANGE_GET, .node = 3, .rank = 2); /* 3 is not below 2 */
    REFUSED(0, 2, .type = EXCHANGE_GET, .node = 2, .rank = RANKS);
    REFUSED(0, 2, .type = EXCHANGE_GET, .node = 2, .rank = -1);
    REFUSED(0, UP, .type = EXCHANGE_GET, .node = 1, .rank = 2); /* not at 0 or below */
    REFUSED(0, UP, .type = EXCHANGE_GET, .node = 0, .rank = 1); /* its own */
    REFUSED(0, UP, .type = EXCHANGE_GOT, .node = 1);
    REFUSED(0, 2, .type = EXCHANGE_GOT, .node = NODES);
    REFUSED(0, 2, .type = EXCHANGE_FOUND, .node = 3);
    REFUSED(0, UP, .type = EXCHANGE_PUBLISH, .node = 1, .rank = 2);
    REFUSED(UP, 0, .type = EXCHANGE_PUBLISH, .node = 0, .rank = 1); /* no key */
    REFUSED(UP, 0, .type = EXCHANGE_LOOKUP, .node = 0, .rank = 1);
    REFUSED(UP, 0, .type = EXCHANGE_UNPUBLISH, .node = 0, .rank = 2); /* another's */
    REFUSED(UP, 0, .type = EXCHANGE_LOST, .node = 1);
    REFUSED(UP, 0, .type = EXCHANGE_LOST, .node = 0);
    REFUSED(2, 0, .type = EXCHANGE_LOST, .node = 0);
    REFUSED(2, 0, .type = EXCHANGE_LOST, .node = 2);
    REFUSED(2, 0, .type = EXCHANGE_LOST, .node = NODES);
    struct err e = {0};
    CHECK_INT(exchange_receive(at[0], 0, "x", 1, 0, &e), -EBADMSG);
    end();
}

TEST(a_fence_that_cannot_be_fails_at_once)
{
    static const int32_t none[] = {1, 77}, disordered[] = {7, 1}, twice[] = {1, 1}, far[] = {2};
    start();
    fence(0, none, 2, "a");
    fence(0, disordered, 2, "a");
    fence(0, twice, 2, "a");
    fence(0, far, 1, "a");
    check_got(0, "done 4; done 4; done 4; done 4; ");
    CHECK_INT(tail, 0);
    end();
}

TEST(what_a_lost_child_had_sent_is_ignored)
{
    start();
    get(6, 5, 7);
    kill_node(2);
    run();
    check_got(4, "");
    end();
}

/* ---- a job with one node -------------------------------------------------------------------- */

static struct strbuf alone; /* as text */

static void on_alone(void *arg, const struct exchange_message *m)
{
    CHECK(arg == &alone);
    strbuf_printf(&alone, "%d %d #%d %d %.*s; ", (int)m->type, (int)m->kind, (int)m->id, m->status,
                  (int)m->len, m->len ? m->data : "");
}

#define SUBMIT(x, now_ms, ...) \
    exchange_submit(x, &(struct exchange_message){__VA_ARGS__}, now_ms, &(struct err){0})

static void check_alone(const char *want)
{
    CHECK_STR(strbuf_str(&alone), want);
    strbuf_reset(&alone);
}

TEST(in_a_job_with_one_node_fences_and_names_are_answered_at_once_and_lookups_in_time)
{
    static const int nodes[2] = {0};
    static const char *const keys[] = {"sea"};
    static const struct exchange_events ev = {.deliver = on_alone};
    struct exchange *x = exchange_new(NULL, 0, nodes, 2, &ev, &alone);
    CHECK_INT(SUBMIT(x, 0, .type = EXCHANGE_FENCE, .data = "data", .len = 4), 0);
    CHECK(strstr(strbuf_str(&alone), " 0 data; "));
    strbuf_reset(&alone);
    CHECK_INT(SUBMIT(x, 5, .type = EXCHANGE_LOOKUP, .kind = EXCHANGE_PMI1, .id = 3, .keys = keys,
                     .key_count = 1, .wait_ms = 10),
              0);
    check_alone("");
    CHECK_INT(exchange_expire(x, 5), 15);
    CHECK_INT(SUBMIT(x, 6, .type = EXCHANGE_PUBLISH, .kind = EXCHANGE_PMI1, .id = 4, .keys = keys,
                     .key_count = 1, .data = "port", .len = 4),
              0);
    check_alone("7 5 #4 0 ; 7 5 #3 0 port; ");
    CHECK(exchange_expire(x, 6) == INT64_MAX);
    CHECK_INT(SUBMIT(x, 7, .type = EXCHANGE_PUBLISH, .rank = 2, .keys = keys, .key_count = 1),
              -EBADMSG);
    check_alone("");
    exchange_free(x);
    exchange_free(NULL);
    strbuf_free(&alone);
}
