/* test_tree_sim - jobs over virtual nodes: launcher, agents and PMIx servers with the real tree,
 * tree_members and exchange, in a virtual network.
 *
 * Each job runs from the hello of its agents to their exit. The first test runs each small job
 * twice, the second time with a fault at a random moment of the first: a node, several nodes or the
 * launcher die, or a rank fails. The second test runs 16,384 nodes with 8 ranks each. A failing
 * seed is printed; SIM_SEED=N runs that one, SIM_SEEDS=N runs N seeds from SIM_SEED.
 * TREE_SIM_TABLE=1 prints the tables of docs/measurements/scale.md. */
#include <sys/resource.h>
#include <time.h>

#include "tests/sim/tree_job.h"

enum { SEEDS = 10000 };

/* ---- a job ---------------------------------------------------------------------------------- */

static void inject(void)
{
    int count = job.fault == NODES_DIE ? 2 + (int)below(3) : job.fault == NODE_DIES;
    for (int i = 0; i < count; i++) {
        int node = (int)below((uint64_t)job.tree.nodes);
        if (srv.dead[node] || job.left[node])
            continue;
        job.killed[job.killed_count++] = node;
        kill_node(node);
    }
    if (job.fault == LAUNCHER_DIES)
        kill_launcher();
    job.was_early = job.state <= RUNNING && job.killed_count > 0;
}

static void handle(const struct event *ev)
{
    if (!network_receive(ev))
        return;
    if (ev->to != TREE_LAUNCHER) {
        agent_receive(ev->to, ev);
        server_run(ev->to);
    } else if (!job.dead) {
        launcher_receive(ev);
    }
}

static void check_no_rank_waits(void)
{
    for (int i = 0; i < srv.ranks; i++)
        if (!srv.of[i].over)
            FAIL("rank %d on node %d hangs in operation %d of %d, which is %d", i,
                 srv.rank_nodes[i], srv.of[i].next, srv.op_count, srv.ops[srv.of[i].next].what);
}

/* Runs until nothing happens. Injects the fault before the event with this number. */
static void job_run(long long fault_at)
{
    for (int i = 0; i < job.tree.nodes; i++)
        timer(i, 1 + (int64_t)below((uint64_t)(net.costs.jitter_ns + 1) * 4), FIRST_HELLO);
    timer(TREE_LAUNCHER, START_LIMIT_MS * ms, START_LIMIT);
    while (net.count > 0) {
        if (job.events++ == fault_at && job.fault != RANK_FAILS)
            inject();
        struct event ev = pop();
        handle(&ev);
        bytes_drop(ev.frame.bytes);
        if (net.count == 0 && job.state == RUNNING && !job.dead) {
            check_no_rank_waits();
            end_job();
        }
    }
}

/* ---- what must be true at the end ----------------------------------------------------------- */

static bool was_killed(int node)
{
    for (int i = 0; i < job.killed_count; i++)
        if (job.killed[i] == node)
            return true;
    return false;
}

static void check_normal_end(void)
{
    CHECK_INT(job.exited, srv.ranks);
    CHECK_INT(job.first_node, -1);
    CHECK_INT(job.first_rank, -1);
    for (int op = 0; op < srv.op_count; op++)
        CHECK(srv.ops[op].what != FENCE || (srv.ops[op].ended && srv.ops[op].status == 0));
    CHECK_INT(srv.failed, 0);
    for (int i = 0; i < srv.ranks; i++) {
        int prints = 0;
        for (int op = 0; op < srv.op_count; op++)
            prints += srv.ops[op].what == PRINT && takes_part(&srv.ops[op], i);
        CHECK_INT(job.printed[i], prints);
    }
}

static void check_end_of_job(void)
{
    for (int i = 0; i < job.tree.nodes; i++)
        if (!srv.dead[i] && !job.left[i])
            FAIL("agent %d is left over", i);
    if (job.dead)
        return;
    CHECK_INT(job.state, RELEASING);
    if (!job.killed_count && !job.rank_failed)
        check_normal_end();
    if (job.was_early && job.fault != RANK_FAILS && !was_killed(job.first_node))
        FAIL("node %d is named, which did not die", job.first_node);
    if (job.fault == RANK_FAILS && job.rank_failed)
        CHECK_INT(job.first_rank, srv.fails_rank);
}

/* ---- random small jobs ---------------------------------------------------------------------- */

static int between(int low, int high)
{
    return low + (int)below((uint64_t)(high - low + 1));
}

/* Places ranks on nodes: uneven, and in blocks or at random. */
static int *random_places(int nodes, int *ranks)
{
    int *places = xcalloc((size_t)nodes * 4 + 1, sizeof *places), count = 0;
    bool empty = below(8) == 0;
    for (int i = 0; i < nodes; i++)
        for (int n = between(empty ? 0 : 1, 4); n > 0; n--)
            places[count++] = i;
    if (count == 0)
        places[count++] = between(0, nodes - 1);
    for (int i = count - 1; i > 0 && nodes % 2; i--) {
        int j = between(0, i), place = places[i];
        places[i] = places[j];
        places[j] = place;
    }
    *ranks = count;
    return places;
}

/* Chooses the participants: those of an earlier operation, of a node and its neighbour, or any. */
static void random_participants(struct op *o, int op)
{
    const struct op *earlier = op > 0 ? &srv.ops[below((uint64_t)op)] : NULL;
    int how = between(0, 3), first = between(0, job.tree.nodes - 1), percent = between(1, 100);
    o->ranks = xcalloc((size_t)srv.ranks, sizeof *o->ranks);
    for (int i = 0; i < srv.ranks; i++) {
        bool in = how == 0 && earlier ? takes_part(earlier, i)
                  : how == 1          ? srv.rank_nodes[i] == first
                  : how == 2          ? tree_is_below(&job.tree, first, srv.rank_nodes[i])
                                      : between(1, 100) <= percent;
        if (in)
            o->ranks[o->count++] = i;
    }
    if (o->count == 0)
        o->ranks[o->count++] = between(0, srv.ranks - 1);
    if (o->count < srv.ranks)
        return;
    free(o->ranks);
    o->ranks = NULL;
}

static void one_participant(struct op *o, int rank)
{
    if (srv.ranks == 1)
        return;
    o->ranks = xcalloc(1, sizeof *o->ranks);
    o->ranks[0] = rank;
    o->count = 1;
}

static void random_op(int op)
{
    static const char *const names[] = {NULL, "g", "h"};
    struct op *o = &srv.ops[op];
    int what = op == 0 ? 0 : between(0, 9);
    *o = (struct op){.what = what < 5   ? FENCE
                             : what < 7 ? GET
                                        : PUBLISH + (what - 7),
                     .size = sizeof(struct record) + below(60)};
    if (o->what == FENCE && op > 0) {
        o->kind = (enum exchange_kind)below(3);
        o->name = names[below(3)];
        o->nowait = below(3) == 0;
    }
    if (o->what == FENCE && op > 0)
        random_participants(o, op);
    else if (o->what != FENCE && o->what != PRINT)
        one_participant(o, between(0, srv.ranks - 1));
    if (o->what == GET)
        o->target = between(0, srv.ranks - 1);
    if (o->what == LOOKUP) {
        o->target = between(0, OPS_MAX - 1);
        o->wait_ms = between(0, 2) * between(0, 20);
    }
}

/* Makes a job from a seed: twice the same, up to the fault. */
static void random_job(uint64_t seed)
{
    struct rng r;
    rng_seed(&r, seed, 1);
    struct costs c = {.latency_ns = 20000 + (int64_t)rng_below(&r, 200000),
                      .jitter_ns = (int64_t)rng_below(&r, 2000000),
                      .message_ns = (int64_t)rng_below(&r, 5000),
                      .bytes_per_ns = 1};
    struct tree t = {.nodes = 1 + (int)rng_below(&r, 1 + rng_below(&r, 40)),
                     .radix = 1 + (int)rng_below(&r, 5)};
    if (t.radix == 1 && t.nodes > 8)
        t.radix = 2;
    job_open(seed, &t, &c);
    int ranks, *places = random_places(t.nodes, &ranks);
    job_ranks(places, ranks);
    srv.op_count = between(2, 12);
    for (int i = 0; i < srv.op_count; i++)
        random_op(i);
}

static long long kinds[FAULTS], total_events, total_answers, total_failed;

static void run_seed(uint64_t seed)
{
    random_job(seed);
    job_run(-1);
    check_end_of_job();
    long long events = job.events;
    job_close();
    random_job(seed);
    struct rng r;
    rng_seed(&r, seed, 2);
    job.fault = (enum fault)(1 + rng_below(&r, FAULTS - 1));
    job.carries_on = rng_below(&r, 2);
    if (job.fault == RANK_FAILS) {
        srv.fails_rank = (int)rng_below(&r, (uint64_t)srv.ranks);
        srv.fails_op = (int)rng_below(&r, (uint64_t)srv.op_count);
    }
    job_run((long long)rng_below(&r, (uint64_t)events));
    check_end_of_job();
    kinds[job.fault]++;
    total_events += events + job.events;
    total_answers += srv.answers;
    total_failed += srv.failed;
    job_close();
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool passed;

static void say_seed(void)
{
    if (!passed)
        fprintf(stderr,
                "# SIM_SEED=%llu: %d nodes, radix %d, fault %d (node %d), launcher's state %d, "
                "first failure: node %d, rank %d\n",
                (unsigned long long)job.seed, job.tree.nodes, job.tree.radix, job.fault,
                job.killed[0], job.state, job.first_node, job.first_rank);
}

/* Runs a quarter of the seeds: one test for each, since a test has a time limit. */
static void run_quarter(uint64_t quarter)
{
    uint64_t first = env_number("SIM_SEED", 1);
    uint64_t count = env_number("SIM_SEEDS", getenv("SIM_SEED") ? 1 : SEEDS);
    atexit(say_seed);
    for (uint64_t i = quarter; i < count; i += 4)
        run_seed(first + i);
    passed = true;
    printf("# %lld events; with faults %lld answers, %lld of them EXCHANGE_FAILED\n", total_events,
           total_answers, total_failed);
    for (int i = 1; i < FAULTS && count >= 1000; i++)
        CHECK(kinds[i] > 0 && total_failed > 0);
}

TEST(random_jobs_keep_their_promises_whatever_dies_at_any_moment)
{
    run_quarter(0);
}

TEST(random_jobs_keep_their_promises_with_a_second_quarter_of_the_seeds)
{
    run_quarter(1);
}

TEST(random_jobs_keep_their_promises_with_a_third_quarter_of_the_seeds)
{
    run_quarter(2);
}

TEST(random_jobs_keep_their_promises_with_the_last_quarter_of_the_seeds)
{
    run_quarter(3);
}

/* ---- large jobs ----------------------------------------------------------------------------- */

/* What docs/measurements/scale.md says of a hop and of the nodes. */
static const struct costs assumed = {.latency_ns = 50000, .message_ns = 5000, .bytes_per_ns = 1};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LARGE = 2048 }; /* a sanitizer takes several times as long */
#else
enum { LARGE = 16384 };
#endif

enum { RANKS_PER_NODE = 8, DATA = 200, TOPO_BYTES = 90000, TOPO_NS = 110000 };

/* The length of `job` for so many nodes: the map as runs ("123*8 "), the names of the nodes
 * ("node123"), and the environment. */
static size_t job_bytes(int nodes)
{
    size_t bytes = 4000;
    for (int i = 0; i < nodes; i++)
        bytes += 2 * (size_t)snprintf(NULL, 0, "%d", i) + 8;
    return bytes;
}

static void large_job(int nodes, int radix)
{
    job_open(1, &(struct tree){.nodes = nodes, .radix = radix}, &assumed);
    int *places = xcalloc((size_t)nodes * RANKS_PER_NODE, sizeof *places);
    for (int i = 0; i < nodes * RANKS_PER_NODE; i++)
        places[i] = i / RANKS_PER_NODE;
    job_ranks(places, nodes * RANKS_PER_NODE);
    job.job_bytes = job_bytes(nodes);
    job.spec_bytes = RANKS_PER_NODE * 300;
    job.topo_bytes = TOPO_BYTES;
    job.topo_ns = TOPO_NS;
    srv.ops[srv.op_count++] = (struct op){.what = FENCE, .kind = EXCHANGE_MODEX, .size = DATA};
}

/* A fence of a group: one rank per node. */
static struct op group_of_first_ranks(void)
{
    struct op o = {.what = FENCE, .kind = EXCHANGE_GROUP, .name = "g", .size = 16};
    o.ranks = xcalloc((size_t)job.tree.nodes, sizeof *o.ranks);
    for (; o.count < job.tree.nodes; o.count++)
        o.ranks[o.count] = o.count * RANKS_PER_NODE;
    return o;
}

static void print_memory(const char *what)
{
    struct rusage u;
    struct timespec cpu;
    getrusage(RUSAGE_SELF, &u);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("# %s: %.1f s, %ld MB\n", what, (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9,
           u.ru_maxrss / 1024);
    CHECK_TIME(cpu.tv_sec < 60);
}

static void add_operations(void)
{
    srv.ops[srv.op_count++] = (struct op){.what = GET, .distance = RANKS_PER_NODE};
    srv.ops[srv.op_count++] = group_of_first_ranks();
    srv.ops[srv.op_count++] = (struct op){.what = PRINT, .size = 100};
    srv.ops[srv.op_count++] =
        (struct op){.what = FENCE, .kind = EXCHANGE_CONNECT, .size = sizeof(struct record)};
}

TEST(sixteen_thousand_nodes_run_a_whole_job)
{
    large_job(LARGE, TREE_RADIX);
    add_operations();
    job_run(-1);
    check_end_of_job();
    printf("# %d nodes, %d ranks: %lld events, %lld answers\n", LARGE, srv.ranks, job.events,
           srv.answers);
    job_close();
    print_memory("many nodes, 8 ranks each");
}

TEST(one_of_sixteen_thousand_nodes_dies_and_the_job_ends_with_its_name)
{
    large_job(LARGE, TREE_RADIX);
    add_operations();
    job.fault = NODE_DIES;
    job.carries_on = true;
    job_run(LARGE * 25);
    check_end_of_job();
    CHECK(job.was_early);
    printf("# node %d dies; %lld answers, %lld of them EXCHANGE_FAILED\n", job.first_node,
           srv.answers, srv.failed);
    job_close();
    print_memory("many nodes, of which one dies");
}

/* ---- the tables ----------------------------------------------------------------------------- */

static struct counts difference(struct counts a, struct counts b)
{
    return (struct counts){a.sent - b.sent, a.received - b.received, a.sent_bytes - b.sent_bytes,
                           a.received_bytes - b.received_bytes};
}

/* Prints the messages and bytes of a phase: mean and maximum of the agents, and the launcher's. */
static void print_phase(const struct counts *before, const struct counts *after)
{
    long long messages = 0, messages_max = 0, bytes_max = 0;
    for (int i = 1; i <= job.tree.nodes; i++) {
        struct counts d = difference(after[i], before[i]);
        messages += d.sent + d.received;
        messages_max = d.sent + d.received > messages_max ? d.sent + d.received : messages_max;
        bytes_max = d.sent_bytes + d.received_bytes > bytes_max ? d.sent_bytes + d.received_bytes
                                                                : bytes_max;
    }
    struct counts d = difference(after[0], before[0]);
    printf(" %.1f | %lld | %lld | %.1f | %.1f | %.1f |", (double)messages / job.tree.nodes,
           messages_max, d.sent + d.received, (double)d.received_bytes / 1e6,
           (double)d.sent_bytes / 1e6, (double)bytes_max / 1e6);
}

static void print_rows(int nodes, int radix, bool direct)
{
    static const int distances[] = {8, -8, 200, -200, 5120, -5120};
    large_job(nodes, radix);
    for (size_t i = 0; direct && i < COUNT_OF(distances); i++)
        srv.ops[srv.op_count++] =
            (struct op){.what = GET, .distance = distances[i] % (nodes * RANKS_PER_NODE)};
    if (direct)
        srv.ops[0].size = sizeof(struct record);
    job_run(-1);
    check_end_of_job();
    struct counts *zero = xcalloc((size_t)nodes + 1, sizeof *zero);
    int far = kit_tree_depth(&job.tree, nodes - 1);
    printf("| %d | %s | %d | %d | %d |", nodes, radix >= nodes ? "star" : "", radix, far,
           net.launcher_connections_max);
    print_phase(zero, job.at_start);
    printf(" %.3f |", (double)job.started_ns / 1e9);
    print_phase(job.at_start, direct ? net.counted : job.at_exchanged);
    printf(" %.4f | %.4f | %.4f |\n", (double)(job.exchanged_ns - job.started_ns) / 1e9,
           (double)(job.ending_ns - job.started_ns) / 1e9,
           (double)(job.over_ns - job.ending_ns) / 1e9);
    free(zero);
    job_close();
}

TEST(the_tables_of_scale_md_are_printed_on_demand)
{
    static const int sizes[] = {32, 256, 1024, 4096, 16384}, radices[] = {16, 32, 64, 0};
    if (!getenv("TREE_SIM_TABLE"))
        return;
    alarm(0); /* it takes minutes */
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int direct = 0; direct < 2; direct++) {
        printf("| nodes | | radix | depth | connections | start: messages mean | max | launcher | "
               "MB in | "
               "MB out | MB agent | s | then: mean | max | launcher | MB in | MB out | MB agent | "
               "fence s | all s | end s |\n");
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            for (size_t r = 0; r < COUNT_OF(radices); r++)
                if (radices[r] < sizes[i])
                    print_rows(sizes[i], radices[r] ? radices[r] : sizes[i], direct);
    }
}
