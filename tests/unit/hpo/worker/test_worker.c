/* test_worker - a worker in a process of its own, whose coordinator is this test: what it sends,
 * and how it ends. */
#include "hpo/worker/worker.h"

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/transport/transport_server.h"
#include "tests/unit/test.h"

enum { LIMIT_MS = 30000, PATIENCE_MS = 20000, INSTANCE = 71 };

struct sweep {
    uv_loop_t loop;
    uv_timer_t limit, poll;
    char dir[64], endpoint[96], leftovers[96];
    struct transport_server *server;
    pid_t worker;
    bool ended;
    int status;          /* its exit status: 0, or the error without its sign */
    struct strbuf heard; /* "KIND LEASE SEQ|" per message */
    int slots;           /* as sent last */
    int64_t instance;    /* of its last hello */
    bool ack;            /* every numbered message is acknowledged */
    json_t *results[8];  /* data of WIRE_DONE, per lease; NULL: none */
    int tests;           /* results of self-tests */
    char test_error[300];
};

static void send_message(struct sweep *t, enum wire_kind kind, int64_t lease, int64_t seq,
                         json_t *data)
{
    struct err e = {0};
    struct wire_msg m = {.kind = kind, .lease = lease, .seq = seq, .data = data};
    if (kind == WIRE_REQUIREMENTS)
        m.instance = INSTANCE;
    if (transport_server_send(t->server, "w1", &m, &e) < 0)
        FAIL("%s", e.text);
    wire_msg_clear(&m);
}

static void on_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct sweep *t = arg;
    strbuf_printf(&t->heard, "%s %lld %lld|", wire_kind_name(m->kind), (long long)m->lease,
                  (long long)m->seq);
    if (m->seq)
        CHECK_INT(m->instance, INSTANCE);
    if (m->kind == WIRE_HELLO)
        t->instance = m->instance;
    if (m->kind == WIRE_SLOTS)
        t->slots = (int)json_integer_value(json_object_get(m->data, "slots"));
    if (m->kind == WIRE_TESTED) {
        const char *why = json_string_value(json_object_get(m->data, "why"));
        snprintf(t->test_error, sizeof t->test_error, "%s", why ? why : "");
        t->tests++;
    }
    if (m->kind == WIRE_DONE) {
        CHECK(m->lease < 8);
        json_decref(t->results[m->lease]);
        t->results[m->lease] = json_incref(m->data);
    }
    if (m->seq && t->ack)
        send_message(t, WIRE_ACK, m->lease, m->seq, NULL);
}

static void on_batch_end(void *arg)
{
}

static const struct transport_server_events events = {on_message, on_batch_end};

static void on_limit(uv_timer_t *t)
{
    FAIL("%s", "the awaited event did not come");
}

static void on_poll(uv_timer_t *timer)
{
    struct sweep *t = timer->data;
    int status;
    if (!t->ended && waitpid(t->worker, &status, WNOHANG) == t->worker) {
        t->ended = true;
        t->status = WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
    }
}

/* The process of the worker. `opts` lacks what this test decides for all. */
__attribute__((noreturn)) static void run_worker(const struct sweep *t, struct worker_opts opts)
{
    struct err e = {0};
    struct guardian *g = NULL;
    opts.client.endpoint = t->endpoint;
    opts.client.id = "w1";
    opts.leftovers = t->leftovers;
    opts.slice.gpus = "";
    if (opts.patience_ms == 0)
        opts.patience_ms = PATIENCE_MS;
    if (opts.slice.slots == 0)
        opts.slice.slots = 1;
    int rc = guardian_start(&g, &e);
    if (rc == 0)
        rc = worker_run(&opts, g, &e);
    if (rc < 0)
        fprintf(stderr, "# worker: %s\n", e.text);
    guardian_stop(g);
    exit(-rc);
}

static void open_server(struct sweep *t)
{
    struct err e = {0};
    if (transport_server_open(&t->server, &t->loop, t->endpoint, &events, t, &e) < 0)
        FAIL("%s", e.text);
}

/* The worker forks before this process has a thread. */
static void sweep_open(struct sweep *t, struct worker_opts opts)
{
    *t = (struct sweep){.ack = true, .slots = -1};
    strcpy(t->dir, "/tmp/test_worker.XXXXXX");
    CHECK(mkdtemp(t->dir));
    snprintf(t->endpoint, sizeof t->endpoint, "ipc://%s/sock", t->dir);
    snprintf(t->leftovers, sizeof t->leftovers, "%s/leftovers", t->dir);
    t->worker = fork();
    if (t->worker == 0)
        run_worker(t, opts);
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    uv_timer_init(&t->loop, &t->poll);
    t->poll.data = t;
    uv_timer_start(&t->poll, on_poll, 5, 5);
    open_server(t);
}

#define UNTIL(t, condition)                                 \
    do {                                                    \
        uv_timer_start(&(t)->limit, on_limit, LIMIT_MS, 0); \
        while (!(condition))                                \
            uv_run(&(t)->loop, UV_RUN_ONCE);                \
        uv_timer_stop(&(t)->limit);                         \
    } while (0)

static bool heard(const struct sweep *t, const char *text)
{
    return strstr(strbuf_str(&t->heard), text) != NULL;
}

/* Awaits the worker's end. */
static void sweep_close(struct sweep *t, int status)
{
    char command[96];
    UNTIL(t, t->ended);
    CHECK_INT(t->status, status);
    transport_server_close(t->server);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_close((uv_handle_t *)&t->poll, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    strbuf_free(&t->heard);
    for (int i = 0; i < 8; i++)
        json_decref(t->results[i]);
    snprintf(command, sizeof command, "rm -r %s", t->dir);
    CHECK_INT(system(command), 0);
}

static void send_requirements(struct sweep *t, const struct resources *need)
{
    send_message(t, WIRE_REQUIREMENTS, 0, 0, resources_json(need));
}

/* The worker has connected and offers its slot. */
static void until_serving(struct sweep *t)
{
    UNTIL(t, heard(t, "hello"));
    send_requirements(t, &(struct resources){.nodes = 1, .ranks = 1});
    UNTIL(t, t->slots == 1);
}

static void send_run(struct sweep *t, int64_t lease, const char *script)
{
    AUTO(free) char *dir = xasprintf("%s/trials/%06d", t->dir, (int)lease);
    send_message(t, WIRE_RUN, lease, 0,
                 json_pack("{s:i,s:s,s:s,s:s,s:[s,s,s],s:[],s:{},s:i}", "trial", (int)lease,
                           "sweep", "s", "dir", dir, "wdir", t->dir, "argv", "sh", "-c", script,
                           "env", "params", "grace_ms", 500));
}

static const char sleeps[] = "echo '{\"step\": 1}'; exec sleep 1000";

TEST(a_worker_runs_trials_until_the_coordinator_drains_it)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_run(&t, 1, "echo '{\"step\": 1}'");
    UNTIL(&t, heard(&t, "report 1 1|done 1 2|"));
    CHECK_INT(json_integer_value(json_object_get(t.results[1], "status")), 0);
    send_run(&t, 2, sleeps);
    UNTIL(&t, heard(&t, "report 2 1|"));
    send_run(&t, 2, "exit 9"); /* ignored: the lease is known */
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    UNTIL(&t, heard(&t, "done 2 2|"));
    CHECK(json_is_true(json_object_get(t.results[2], "preempted")));
    UNTIL(&t, heard(&t, "bye"));
    sweep_close(&t, 0);
}

TEST(a_self_test_checks_the_disk_and_the_start_of_processes)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_run(&t, 1, "echo '{\"step\": 1}'");
    UNTIL(&t, heard(&t, "done 1 2|"));
    send_message(&t, WIRE_TEST, 0, 0, NULL);
    UNTIL(&t, t.tests == 1);
    CHECK_STR(t.test_error, "");
    AUTO(free) char *left = xasprintf("test $(ls %s/trials) = 000001", t.dir);
    CHECK_INT(system(left), 0);
    AUTO(free) char *squat = xasprintf("rm -r %s/trials && touch %s/trials", t.dir, t.dir);
    CHECK_INT(system(squat), 0);
    send_message(&t, WIRE_TEST, 0, 0, NULL);
    UNTIL(&t, t.tests == 2);
    CHECK_HAS(t.test_error, "Not a directory");
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    UNTIL(&t, heard(&t, "bye"));
    sweep_close(&t, 0);
}

TEST(a_trial_waits_for_a_slot_and_one_that_is_killed_ends)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_run(&t, 1, sleeps);
    send_run(&t, 2, "echo '{\"step\": 2}'");
    UNTIL(&t, heard(&t, "report 1 1|"));
    send_message(&t, WIRE_KILL, 1, 0, NULL);
    UNTIL(&t, heard(&t, "done 1 2|"));
    CHECK(json_is_true(json_object_get(t.results[1], "stopped")));
    UNTIL(&t, heard(&t, "done 2 2|"));
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    sweep_close(&t, 0);
}

TEST(a_reservation_gets_the_slot_and_its_end_is_reported_as_slots)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_message(&t, WIRE_RESERVE, 5, 0, NULL);
    UNTIL(&t, heard(&t, "reserved 5 0|"));
    send_run(&t, 6, "echo '{\"step\": 1}'"); /* waits for the slot */
    t.slots = -1;
    send_message(&t, WIRE_STOP, 5, 0, NULL);
    UNTIL(&t, t.slots == 1);
    UNTIL(&t, heard(&t, "done 6 2|"));
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    sweep_close(&t, 0);
}

TEST(a_signal_stops_trials_which_are_requeued)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_run(&t, 1, sleeps);
    UNTIL(&t, heard(&t, "report 1 1|"));
    CHECK_INT(kill(t.worker, SIGTERM), 0);
    UNTIL(&t, heard(&t, "leaving 0 0|done 1 2|"));
    CHECK(json_is_true(json_object_get(t.results[1], "preempted")));
    sweep_close(&t, 0);
}

TEST(a_worker_that_lets_trials_finish_accepts_no_others)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){.finish = true});
    until_serving(&t);
    AUTO(free) char *go = xasprintf("%s/go", t.dir);
    AUTO(free)
    char *script = xasprintf("echo '{\"step\": 1}'; while ! test -e %s; do sleep 0.01; done", go);
    send_run(&t, 1, script);
    UNTIL(&t, heard(&t, "report 1 1|"));
    CHECK_INT(kill(t.worker, SIGTERM), 0);
    UNTIL(&t, heard(&t, "leaving"));
    send_run(&t, 2, "echo never");
    UNTIL(&t, heard(&t, "done 2 1|"));
    CHECK(json_is_true(json_object_get(t.results[2], "not_started")));
    FILE *f = fopen(go, "we");
    CHECK(f && fclose(f) == 0);
    UNTIL(&t, heard(&t, "done 1 2|"));
    CHECK(!json_object_get(t.results[1], "preempted"));
    sweep_close(&t, 0);
}

TEST(a_worker_leaves_when_it_was_idle_for_too_long)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){.idle_ms = 300});
    until_serving(&t);
    UNTIL(&t, heard(&t, "leaving 0 0|"));
    UNTIL(&t, heard(&t, "bye 0 0|"));
    sweep_close(&t, 0);
}

TEST(a_worker_on_whose_node_no_trial_fits_leaves_with_the_error)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    UNTIL(&t, heard(&t, "hello"));
    send_requirements(&t, &(struct resources){.nodes = 1, .ranks = 1, .memory_bytes = INT64_MAX});
    UNTIL(&t, heard(&t, "leaving"));
    CHECK_INT(t.slots, -1);
    sweep_close(&t, EINVAL);
}

TEST(a_worker_whose_coordinator_is_silent_stops_and_leaves_its_messages_in_a_file)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){.patience_ms = 1500});
    t.ack = false;
    until_serving(&t);
    send_run(&t, 1, sleeps);
    UNTIL(&t, heard(&t, "report 1 1|"));
    transport_server_close(TAKE(t.server));
    UNTIL(&t, t.ended);
    AUTO(file) FILE *f = fopen(t.leftovers, "re");
    char line[4096];
    CHECK(f && fgets(line, sizeof line, f));
    CHECK_HAS(line, "\"kind\":\"report\",\"conn\":1,\"instance\":71,\"lease\":1,\"seq\":1");
    CHECK(fgets(line, sizeof line, f));
    CHECK_HAS(line, "\"kind\":\"done\",\"conn\":1,\"instance\":71,\"lease\":1,\"seq\":2");
    CHECK(!fgets(line, sizeof line, f));
    sweep_close(&t, ETIMEDOUT);
}

TEST(messages_are_sent_again_on_the_next_connection)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    t.ack = false;
    until_serving(&t);
    send_run(&t, 1, "echo '{\"step\": 1}'");
    UNTIL(&t, heard(&t, "done 1 2|"));
    transport_server_close(TAKE(t.server));
    strbuf_free(&t.heard);
    t.heard = (struct strbuf){0};
    t.ack = true;
    open_server(&t);
    UNTIL(&t, heard(&t, "hello 0 0|report 1 1|done 1 2|"));
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    sweep_close(&t, 0);
}

/* ---- another sweep of the same name --------------------------------------------------------- */

TEST(a_worker_tells_a_later_coordinator_which_sweep_it_serves)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    t.instance = -1;
    until_serving(&t);
    CHECK_INT(t.instance, 0);
    transport_server_close(t.server);
    open_server(&t);
    UNTIL(&t, t.instance == INSTANCE);
    send_message(&t, WIRE_DRAIN, 0, 0, NULL);
    sweep_close(&t, 0);
}

TEST(a_worker_of_another_sweep_kills_its_trials_and_leaves_no_results)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    AUTO(free)
    char *script = xasprintf("trap 'echo kept > %s/kept; exit' TERM\n"
                             "echo '{\"step\": 1}'\n"
                             "while :; do sleep 0.1; done",
                             t.dir);
    t.ack = false; /* so the worker keeps the report */
    send_run(&t, 1, script);
    UNTIL(&t, heard(&t, "report 1 1|"));
    send_message(&t, WIRE_FOREIGN, 0, 0, NULL);
    UNTIL(&t, t.ended);
    CHECK(!heard(&t, "done"));
    CHECK(!heard(&t, "leaving"));
    CHECK(access(t.leftovers, F_OK) < 0);
    AUTO(free) char *kept = xasprintf("%s/kept", t.dir);
    CHECK(access(kept, F_OK) < 0);
    sweep_close(&t, ESTALE);
}

TEST(a_worker_that_stops_does_not_begin_anew_with_another_sweep)
{
    struct sweep t;
    sweep_open(&t, (struct worker_opts){0});
    until_serving(&t);
    send_run(&t, 1, "trap '' TERM; echo '{\"step\": 1}'; while :; do sleep 0.1; done");
    UNTIL(&t, heard(&t, "report 1 1|"));
    CHECK_INT(kill(t.worker, SIGTERM), 0);
    UNTIL(&t, heard(&t, "leaving"));
    send_message(&t, WIRE_FOREIGN, 0, 0, NULL);
    sweep_close(&t, 0);
}
