/* pmix_server_exchange: PMIx servers of several nodes. Each node is a process with a PMIx server,
 * an exchange and ranks; this process is the launcher. The ranks are clients of the real libpmix.
 */
#include <errno.h>
#include <pmix.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "launcher/node/topo.h"
#include "launcher/pmi/pmix_server.h"
#include "tests/unit/launcher/pmi/kit_pmix_rank.h"
#include "tests/unit/test.h"

enum { NODES_MAX = 3, RANKS_MAX = 8, MESSAGE_BYTES = 65536, LIMIT_MS = 60000 };

struct job {
    int nodes, ranks;
    int rank_nodes[RANKS_MAX];
    int (*body)(void);
    bool bound;  /* all ranks are bound to CPU 0 */
    bool aborts; /* all ranks call PMIx_Abort, and nothing else that needs the launcher */
};

static const struct job *the_job; /* of this process and the ranks that it forks */

/* ---- a node --------------------------------------------------------------------------------- */

struct node {
    uv_loop_t loop;
    struct exchange *exchange;
    struct pmix_server_job *pmix;
    uv_poll_t launcher;
    uv_timer_t timer;
    int fd;
    struct kit_rank ranks[RANKS_MAX];
    int ranks_left, failed;
    bool aborted, answered; /* a rank has aborted; the launcher has answered a request */
};

static struct job_map *make_map(const struct job *job, int node)
{
    struct job_map *m = xzalloc(sizeof *m);
    m->job_id = xstrdup("job-1");
    m->node_count = job->nodes;
    for (int i = 0; i < job->nodes; i++)
        strv_push(&m->nodes, xasprintf("n%d", i));
    m->ranks = job->ranks;
    m->node = node;
    m->rank_nodes = xcalloc(RANKS_MAX, sizeof(int));
    m->local = xcalloc(RANKS_MAX, sizeof(int));
    for (int i = 0; i < job->ranks; i++) {
        m->rank_nodes[i] = job->rank_nodes[i];
        if (job->rank_nodes[i] != node)
            continue;
        m->local[m->local_count++] = i;
        strv_push(&m->cpus, xstrdup(job->bound ? "0" : ""));
    }
    return m;
}

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    ((struct node *)arg)->aborted |= ev == RANK_ABORTED;
}

static void on_exchange(void *arg, const struct exchange_message *m)
{
    (void)exchange_submit(((struct node *)arg)->exchange, m, 0, NULL);
}

static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    CHECK_INT(to, TREE_LAUNCHER);
    CHECK_INT(send(((struct node *)arg)->fd, bytes, len, MSG_NOSIGNAL), (long)len);
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    pmix_server_deliver(((struct node *)arg)->pmix, m);
}

static void on_message(uv_poll_t *p, int status, int events)
{
    struct node *n = p->data;
    static char bytes[MESSAGE_BYTES];
    ssize_t len = recv(n->fd, bytes, sizeof bytes, 0);
    struct err e = {0};
    if (len <= 0)
        _exit(3); /* the launcher has ended */
    if (exchange_receive(n->exchange, TREE_LAUNCHER, bytes, (size_t)len, clock_ms(), &e) < 0)
        FAIL("%s", e.text);
    n->answered = true;
}

static void on_timer(uv_timer_t *t)
{
    struct node *n = t->data;
    for (int i = 0, status; i < the_job->ranks; i++)
        if (n->ranks[i].pid > 0 && waitpid(n->ranks[i].pid, &status, WNOHANG) > 0) {
            n->ranks[i].pid = 0;
            n->failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
            CHECK_INT(n->aborted, the_job->aborts);
            CHECK(n->answered || !the_job->aborts);
            n->ranks_left--;
        }
    if (n->ranks_left > 0)
        return;
    uv_close((uv_handle_t *)&n->launcher, NULL);
    uv_close((uv_handle_t *)&n->timer, NULL);
}

static void serve(struct node *n, const struct job_map *map)
{
    static const struct exchange_events from_exchange = {on_send, on_deliver};
    const struct rank_events from_pmix = {on_rank_event, map->node_count > 1 ? on_exchange : NULL};
    const struct tree tree = {.nodes = map->node_count, .radix = TREE_RADIX};
    struct topo *topo;
    struct pmix_server *server;
    struct err e = {0};
    uv_loop_init(&n->loop);
    uv_timer_init(&n->loop, &n->timer);
    n->launcher.data = n->timer.data = n;
    n->exchange = exchange_new(&tree, map->node, map->rank_nodes, map->ranks, &from_exchange, n);
    if (topo_load(&topo, &e) < 0 || pmix_server_open(&server, &n->loop, topo_hwloc(topo), &e) < 0 ||
        pmix_server_join(&n->pmix, server, map, NULL, &from_pmix, n, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(send(n->fd, "", 1, 0), 1); /* registered */
    CHECK_INT(recv(n->fd, &(char){0}, 1, 0), 1);
    for (int i = 0; i < map->local_count; i++)
        kit_send_env(n->ranks[map->local[i]], pmix_server_env(n->pmix), map->local[i]);
    uv_poll_init(&n->loop, &n->launcher, n->fd);
    uv_poll_start(&n->launcher, UV_READABLE, on_message);
    uv_timer_start(&n->timer, on_timer, 0, 2);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    pmix_server_leave(n->pmix);
    pmix_server_close(server);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    exchange_free(n->exchange);
    topo_free(topo);
}

/* Returns 0 if all ranks have returned 0. */
static int run_node(const struct job *job, int node, int fd)
{
    static struct node n;
    AUTO(job_map) struct job_map *map = make_map(job, node);
    the_job = job;
    n.fd = fd;
    n.ranks_left = map->local_count;
    for (int i = 0; i < map->local_count; i++)
        n.ranks[map->local[i]] = kit_fork_rank(job->body);
    serve(&n, map);
    return n.failed;
}

/* ---- the launcher --------------------------------------------------------------------------- */

struct launcher {
    struct exchange *exchange;
    struct pollfd nodes[NODES_MAX]; /* fd < 0: has ended */
    pid_t pids[NODES_MAX];
    int loses; /* this node is killed when the first message arrives; -1: none */
    int failed;
};

static void on_launcher_send(void *arg, int to, const char *bytes, size_t len)
{
    struct launcher *l = arg;
    (void)send(l->nodes[to].fd, bytes, len, MSG_NOSIGNAL); /* a node may have ended */
}

static void end_node(struct launcher *l, int node)
{
    int status;
    close(l->nodes[node].fd);
    l->nodes[node].fd = -1;
    CHECK_INT(waitpid(l->pids[node], &status, 0), l->pids[node]);
    if (node == l->loses)
        exchange_lose(l->exchange, node);
    else
        l->failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void on_node(struct launcher *l, int node)
{
    static char bytes[MESSAGE_BYTES];
    ssize_t len = recv(l->nodes[node].fd, bytes, sizeof bytes, 0);
    struct err e = {0};
    if (len <= 0)
        end_node(l, node);
    else if (exchange_receive(l->exchange, node, bytes, (size_t)len, clock_ms(), &e) < 0)
        FAIL("%s", e.text);
    if (len > 0 && l->loses >= 0 && l->pids[l->loses] > 0 && l->nodes[l->loses].fd >= 0)
        kill(l->pids[l->loses], SIGKILL);
}

static void start_nodes(struct launcher *l, const struct job *job)
{
    for (int i = 0; i < job->nodes; i++) {
        int ends[2];
        CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        l->pids[i] = fork();
        CHECK(l->pids[i] >= 0);
        if (l->pids[i] == 0) {
            for (int k = 0; k < i; k++)
                close(l->nodes[k].fd);
            close(ends[0]);
            _exit(run_node(job, i, ends[1]));
        }
        close(ends[1]);
        l->nodes[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    }
    for (int i = 0; i < job->nodes; i++)
        CHECK_INT(recv(l->nodes[i].fd, &(char){0}, 1, 0), 1);
    for (int i = 0; i < job->nodes; i++)
        CHECK_INT(send(l->nodes[i].fd, "", 1, 0), 1);
}

/* Runs the job. `loses`: this node is killed during the job; -1: none. Returns true if all ranks of
 * the other nodes have returned 0. */
static bool run_job(const struct job *job, int loses)
{
    static const struct exchange_events ev = {.send = on_launcher_send};
    const struct tree tree = {.nodes = job->nodes, .radix = TREE_RADIX};
    struct launcher l = {.loses = loses};
    l.exchange = exchange_new(&tree, TREE_LAUNCHER, job->rank_nodes, job->ranks, &ev, &l);
    start_nodes(&l, job);
    int64_t end_ms = clock_ms() + LIMIT_MS;
    for (int left = job->nodes; left > 0;) {
        CHECK(clock_ms() < end_ms); /* no hang */
        poll(l.nodes, (nfds_t)job->nodes, 20);
        left = 0;
        for (int i = 0; i < job->nodes; i++) {
            if (l.nodes[i].fd >= 0 && l.nodes[i].revents)
                on_node(&l, i);
            left += l.nodes[i].fd >= 0;
        }
        exchange_expire(l.exchange, clock_ms());
    }
    exchange_free(l.exchange);
    return !l.failed;
}

static const struct job uneven = {.nodes = 3, .ranks = 6, .rank_nodes = {0, 1, 0, 2, 2, 0}};

/* ---- ranks: they return 0, or the line of what has failed ----------------------------------- */

#define EXPECT(x)                                                                    \
    do {                                                                             \
        if (!(x)) {                                                                  \
            fprintf(stderr, "# rank %d: %s, line %d\n", (int)me.rank, #x, __LINE__); \
            return 1;                                                                \
        }                                                                            \
    } while (0)

static pmix_proc_t me;

static bool put(const char *key, int value)
{
    pmix_value_t v = {.type = PMIX_INT, .data.integer = value};
    return PMIx_Put(PMIX_GLOBAL, key, &v) == PMIX_SUCCESS && PMIx_Commit() == PMIX_SUCCESS;
}

/* Returns the value of a rank, or -1. */
static int get(int rank, const char *key)
{
    pmix_proc_t p;
    pmix_value_t *v = NULL;
    PMIX_LOAD_PROCID(&p, me.nspace, (pmix_rank_t)rank);
    if (PMIx_Get(&p, key, NULL, 0, &v) != PMIX_SUCCESS || v->type != PMIX_INT)
        return -1;
    return v->data.integer;
}

static pmix_status_t fence(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    return PMIx_Fence(NULL, 0, &info, 1);
}

static int exchange_values(bool collect)
{
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    for (int again = 0; again < 3; again++) {
        AUTO(free) char *key = xasprintf("key-%d", again);
        EXPECT(put(key, 100 * again + (int)me.rank));
        EXPECT(fence(collect) == PMIX_SUCCESS);
        for (int i = 0; i < uneven.ranks; i++)
            EXPECT(get(i, key) == 100 * again + i);
    }
    EXPECT(fence(false) == PMIX_SUCCESS); /* until then, other nodes ask for this rank's values */
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

static int fences_with_data(void)
{
    return exchange_values(true);
}

static int fences_without_data(void)
{
    return exchange_values(false);
}

TEST(a_fence_with_data_gives_each_rank_the_values_of_all)
{
    struct job job = uneven;
    job.body = fences_with_data;
    CHECK(run_job(&job, -1));
}

TEST(after_a_fence_without_data_ranks_get_values_from_other_nodes)
{
    struct job job = uneven;
    job.body = fences_without_data;
    CHECK(run_job(&job, -1));
}

static int abort_at_once(void)
{
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    EXPECT(PMIx_Abort(7, "test", NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(a_rank_that_aborts_exits_when_the_launcher_has_answered)
{
    CHECK(run_job(
        &(struct job){
            .nodes = 2, .ranks = 2, .rank_nodes = {0, 1}, .body = abort_at_once, .aborts = true},
        -1));
}

static pmix_status_t publish(const char *key, int value)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, key, &value, PMIX_INT);
    return PMIx_Publish(&info, 1);
}

static pmix_status_t lookup(const char *key, bool wait, int limit_s, int *value)
{
    pmix_pdata_t data;
    pmix_info_t info[2];
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, key);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &wait, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &limit_s, PMIX_INT);
    pmix_status_t rc = PMIx_Lookup(&data, 1, info, 2);
    *value = data.value.data.integer;
    return rc;
}

static volatile int got; /* -1: not yet */

static void on_got(pmix_status_t status, pmix_value_t *v, void *arg)
{
    got = status == PMIX_SUCCESS ? v->data.integer : -2;
}

/* Rank 0 asks for a value of rank 4 before rank 4 has put it. */
static int gets_early(void)
{
    int value;
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    if (me.rank == 0) {
        pmix_proc_t p;
        PMIX_LOAD_PROCID(&p, me.nspace, 4);
        got = -1;
        EXPECT(PMIx_Get_nb(&p, "late", NULL, 0, on_got, NULL) == PMIX_SUCCESS);
        EXPECT(publish("asked", 1) == PMIX_SUCCESS);
        while (got == -1)
            usleep(1000);
        EXPECT(got == 7);
    } else if (me.rank == 4) {
        EXPECT(lookup("asked", true, 0, &value) == PMIX_SUCCESS);
        EXPECT(put("late", 7));
    }
    EXPECT(fence(false) == PMIX_SUCCESS);
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(a_value_that_is_asked_for_before_it_is_put_arrives)
{
    struct job job = uneven;
    job.body = gets_early;
    CHECK(run_job(&job, -1));
}

static int uses_names(void)
{
    int value = 0;
    char *keys[] = {(char *)"sea", NULL};
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    if (me.rank == 3) {
        EXPECT(lookup("sea", false, 0, &value) == PMIX_ERR_NOT_FOUND);
        EXPECT(lookup("sky", true, 1, &value) == PMIX_ERR_TIMEOUT);
    }
    EXPECT(fence(false) == PMIX_SUCCESS);
    if (me.rank == 1) {
        EXPECT(publish("sea", 5) == PMIX_SUCCESS);
        EXPECT(publish("sea", 6) == PMIX_ERR_DUPLICATE_KEY);
    }
    EXPECT(lookup("sea", true, 0, &value) == PMIX_SUCCESS && value == 5);
    EXPECT(fence(false) == PMIX_SUCCESS);
    if (me.rank == 1)
        EXPECT(PMIx_Unpublish(keys, NULL, 0) == PMIX_SUCCESS);
    if (me.rank == 1)
        EXPECT(PMIx_Unpublish(keys, NULL, 0) == PMIX_ERR_NOT_FOUND);
    EXPECT(fence(false) == PMIX_SUCCESS);
    EXPECT(lookup("sea", false, 0, &value) == PMIX_ERR_NOT_FOUND);
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(names_are_visible_on_all_nodes)
{
    struct job job = uneven;
    job.body = uses_names;
    CHECK(run_job(&job, -1));
}

TEST(names_work_on_one_node_without_an_exchange)
{
    struct job job = {.nodes = 1, .ranks = 4, .body = uses_names};
    CHECK(run_job(&job, -1));
}

/* Ranks 1, 3 and 4 connect; the others do not take part. */
static int connects(void)
{
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    pmix_proc_t procs[3];
    static const int ranks[] = {4, 1, 3};
    for (int i = 0; i < 3; i++)
        PMIX_LOAD_PROCID(&procs[i], me.nspace, (pmix_rank_t)ranks[i]);
    for (int again = 0; again < 2 && (me.rank == 1 || me.rank >= 3) && me.rank < 5; again++) {
        EXPECT(PMIx_Connect(procs, 3, NULL, 0) == PMIX_SUCCESS);
        EXPECT(PMIx_Disconnect(procs, 3, NULL, 0) == PMIX_SUCCESS);
    }
    EXPECT(fence(false) == PMIX_SUCCESS);
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(ranks_of_several_nodes_connect_and_disconnect)
{
    struct job job = uneven;
    job.body = connects;
    CHECK(run_job(&job, -1));
}

/* Creates a group and returns its context id, or 0. */
static size_t construct(const char *name, const int *ranks, int n)
{
    pmix_proc_t procs[RANKS_MAX];
    pmix_info_t info, *out = NULL;
    size_t out_n = 0, id = 0;
    bool yes = true;
    for (int i = 0; i < n; i++)
        PMIX_LOAD_PROCID(&procs[i], me.nspace, (pmix_rank_t)ranks[i]);
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    if (PMIx_Group_construct(name, procs, (size_t)n, &info, 1, &out, &out_n) != PMIX_SUCCESS)
        return 0;
    for (size_t i = 0; i < out_n; i++)
        if (PMIX_CHECK_KEY(&out[i], PMIX_GROUP_CONTEXT_ID))
            id = out[i].value.data.size;
    return id;
}

static int makes_groups(void)
{
    static const int all[] = {0, 1, 2, 3, 4, 5}, some[] = {1, 3, 5}, near[] = {3, 4};
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    size_t a = construct("a", all, 6), b = 0, c = 0;
    EXPECT(a > 0 && a != SIZE_MAX);
    EXPECT(put("a", (int)a));
    if (me.rank % 2 == 1) {
        b = construct("b", some, 3);
        EXPECT(b > 0 && b != a);
    }
    if (me.rank == 3 || me.rank == 4) {
        c = construct("c", near, 2);
        EXPECT(c > 0 && c != a && c != b);
    }
    EXPECT(put("b", (int)b) && put("c", (int)c));
    EXPECT(fence(true) == PMIX_SUCCESS);
    for (int i = 0; i < 6; i++)
        EXPECT(get(i, "a") == (int)a);
    EXPECT(get(1, "b") == get(3, "b") && get(3, "b") == get(5, "b"));
    EXPECT(get(3, "c") == get(4, "c"));
    EXPECT(PMIx_Group_destruct("a", NULL, 0) == PMIX_SUCCESS);
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(groups_have_context_ids_that_all_members_know_and_no_other_group_has)
{
    struct job job = uneven;
    job.body = makes_groups;
    CHECK(run_job(&job, -1));
}

TEST(ranks_of_one_node_connect_and_make_groups_without_an_exchange)
{
    struct job job = {.nodes = 1, .ranks = 6, .body = connects};
    CHECK(run_job(&job, -1));
    job.body = makes_groups;
    CHECK(run_job(&job, -1));
}

/* ---- the job's data ------------------------------------------------------------------------- */

static pmix_value_t *job_value(int rank, const char *key)
{
    pmix_proc_t p;
    pmix_value_t *v = NULL;
    PMIX_LOAD_PROCID(&p, me.nspace, rank < 0 ? PMIX_RANK_WILDCARD : (pmix_rank_t)rank);
    return PMIx_Get(&p, key, NULL, 0, &v) == PMIX_SUCCESS ? v : NULL;
}

static int number(int rank, const char *key)
{
    const pmix_value_t *v = job_value(rank, key);
    return !v                       ? -1
           : v->type == PMIX_UINT16 ? v->data.uint16
           : v->type == PMIX_UINT32 ? (int)v->data.uint32
                                    : -2;
}

static bool text_is(int rank, const char *key, const char *text)
{
    const pmix_value_t *v = job_value(rank, key);
    return v && v->type == PMIX_STRING && strcmp(v->data.string, text) == 0;
}

static int knows_the_job(void)
{
    static const int nodes[] = {0, 1, 0, 2, 2, 0}, on_node[] = {0, 0, 1, 0, 1, 2};
    static const char *const names[] = {"n0", "n1", "n2"};
    static const char *const peers[] = {"0,2,5", "1", "3,4"};
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    EXPECT(number(-1, PMIX_JOB_SIZE) == 6);
    EXPECT(number(-1, PMIX_NUM_NODES) == 3);
    EXPECT(number(-1, PMIX_LOCAL_SIZE) == (int)(strlen(peers[nodes[me.rank]]) + 1) / 2);
    EXPECT(text_is(-1, PMIX_LOCAL_PEERS, peers[nodes[me.rank]]));
    for (int i = 0; i < 6; i++) {
        /* libpmix 4.2 answers only for the rank's own node */
        EXPECT(nodes[i] != nodes[me.rank] || number(i, PMIX_NODEID) == nodes[i]);
        EXPECT(number(i, PMIX_LOCAL_RANK) == on_node[i]);
        EXPECT(number(i, PMIX_NODE_RANK) == on_node[i]);
        EXPECT(text_is(i, PMIX_HOSTNAME, names[nodes[i]]));
    }
    const pmix_value_t *where = job_value((int)me.rank, PMIX_LOCALITY_STRING);
    EXPECT(!getenv("BOUND") ||
           (where && strstr(where->data.string, "NM0:") && strstr(where->data.string, ":CR0:HT0")));
    EXPECT(fence(false) == PMIX_SUCCESS);
    EXPECT(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS);
    return 0;
}

TEST(ranks_know_where_all_ranks_are)
{
    struct job job = uneven;
    job.body = knows_the_job;
    CHECK(run_job(&job, -1));
}

TEST(bound_ranks_know_that_too_and_their_locality)
{
    struct job job = uneven;
    job.body = knows_the_job;
    job.bound = true;
    setenv("BOUND", "1", 1);
    CHECK(run_job(&job, -1));
}

/* ---- failures ------------------------------------------------------------------------------- */

static int fence_fails(void)
{
    EXPECT(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS);
    if (me.rank == 1)
        pause(); /* its node is killed, and this process then is in nobody's way */
    EXPECT(fence(true) != PMIX_SUCCESS);
    return 0;
}

TEST(if_a_node_is_lost_fences_fail_and_the_other_servers_go_on)
{
    struct job job = uneven;
    job.body = fence_fails;
    CHECK(run_job(&job, 1));
}
