/* test_coordinator - a coordinator in a process of its own, whose worker is this test: what it
 * leases, stores and acknowledges, and how a sweep ends. */
#include "hpo/coordinator/coordinator.h"

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_reader.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/transport/transport_client.h"
#include "tests/unit/test.h"

enum { LIMIT_MS = 30000 };

static const char two_trials[] = "method: grid\n"
                                 "command: ['true']\n"
                                 "metric: {name: loss}\n"
                                 "parameters: {lr: {values: [1, 2]}}\n";

struct sweep {
    uv_loop_t loop;
    uv_timer_t limit, poll;
    char root[64];
    char *endpoint;
    struct transport_client *client;
    pid_t coordinator;
    bool ended;
    int status;         /* its exit status: what coordinator_run() returned */
    struct strbuf sent; /* by the coordinator: "KIND LEASE SEQ|" per message */
    int64_t lease;      /* of the last WIRE_RUN */
    int64_t instance;   /* of the last WIRE_REQUIREMENTS */
    int64_t served;     /* the instance that a hello names; 0: none */
    int slots;          /* of this worker */
    int64_t running;    /* the lease that a hello names; 0: none */
    bool drained;       /* WIRE_DRAIN arrived */
    const char *awaited;
};

/* ---- the coordinator ------------------------------------------------------------------------ */

static void on_stored(void *arg, const struct scheduler *s, enum scheduler_record_kind kind,
                      int trial)
{
}

static void on_changed(void *arg, const struct scheduler *s)
{
}

static void on_interrupted(void *arg, bool again)
{
}

static void on_notice(void *arg, const char *text)
{
}

static const struct coordinator_events coordinator_events = {on_stored, on_changed, on_interrupted,
                                                             on_notice};

static int open_dir(struct sweep_dir **out, const struct sweep *t, const char *file, struct err *e)
{
    const struct sweep_dir_opts opts = {.root = t->root, .name = "s", .file = file};
    return sweep_dir_open(out, &opts, e);
}

/* Writes what it was over for to ROOT/why. */
static int coordinate(const struct sweep *t, const char *file, struct err *e)
{
    AUTO(spec) struct spec *spec = NULL;
    AUTO(sweep_dir) struct sweep_dir *dir = NULL;
    AUTO(coordinator) struct coordinator *c = NULL;
    int rc = stored_sweep_spec(&spec, file, "s.yaml", e);
    if (rc == 0)
        rc = open_dir(&dir, t, file, e);
    if (rc < 0)
        return rc;
    stored_sweep_apply(spec, dir);
    const struct coordinator_opts opts = {
        .spec = spec, .dir = dir, .run_message = {spec, "s", dir->path, "/tmp"}};
    rc = coordinator_open(&c, &opts, e);
    if (rc == 0)
        rc = coordinator_run(c, &coordinator_events, NULL, e);
    if (rc == 0) {
        AUTO(free) char *path = xasprintf("%s/why", t->root);
        AUTO(file) FILE *f = fopen(path, "we");
        CHECK(f && fprintf(f, "%s", coordinator_end_reason(c)) > 0);
    }
    return rc;
}

/* ---- the worker ----------------------------------------------------------------------------- */

static void send_message(struct sweep *t, enum wire_kind kind, int64_t lease, int64_t seq,
                         json_t *data)
{
    struct wire_msg m = {.kind = kind, .lease = lease, .seq = seq, .data = data};
    m.instance = seq ? t->instance : kind == WIRE_HELLO ? t->served : 0;
    transport_client_send(t->client, &m);
    wire_msg_clear(&m);
}

static void on_opened(void *arg)
{
    struct sweep *t = arg;
    json_t *data = json_pack("{s:s,s:i,s:[],s:i,s:i,s:i}", "node", "n", "slots", t->slots,
                             "running", "cpus", 1, "gpus", 0, "ping_ms", 5000);
    if (t->running)
        json_array_append_new(json_object_get(data, "running"), json_integer(t->running));
    send_message(t, WIRE_HELLO, 0, 0, data);
}

static void on_message(void *arg, const struct wire_msg *m)
{
    struct sweep *t = arg;
    strbuf_printf(&t->sent, "%s %lld %lld|", wire_kind_name(m->kind), (long long)m->lease,
                  (long long)m->seq);
    if (m->kind == WIRE_REQUIREMENTS)
        t->instance = m->instance;
    if (m->kind == WIRE_RUN)
        t->lease = m->lease;
    t->drained |= m->kind == WIRE_DRAIN;
}

static void on_rejected(void *arg, const struct err *e)
{
    FAIL("%s", e->text);
}

static const struct transport_client_events client_events = {on_opened, on_message, on_rejected};

static void on_limit(uv_timer_t *t)
{
    const struct sweep *s = t->data;
    FAIL("never true: %s; received: %s", s->awaited, strbuf_str(&s->sent));
}

static void on_poll(uv_timer_t *timer)
{
    struct sweep *t = timer->data;
    int status;
    if (!t->ended && waitpid(t->coordinator, &status, WNOHANG) == t->coordinator) {
        t->ended = true;
        t->status = WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
    }
}

#define UNTIL(t, condition)                                 \
    do {                                                    \
        (t)->awaited = #condition;                          \
        uv_timer_start(&(t)->limit, on_limit, LIMIT_MS, 0); \
        while (!(condition))                                \
            uv_run(&(t)->loop, UV_RUN_ONCE);                \
        uv_timer_stop(&(t)->limit);                         \
    } while (0)

static bool sent(const struct sweep *t, const char *text)
{
    return strstr(strbuf_str(&t->sent), text) != NULL;
}

static void clear_sent(struct sweep *t)
{
    strbuf_free(&t->sent);
    t->sent = (struct strbuf){0};
}

/* Starts a coordinator, which forks before this process has a thread. */
static void start_coordinator(struct sweep *t, const char *file)
{
    struct err e = {0};
    t->ended = false;
    t->coordinator = fork();
    if (t->coordinator == 0) {
        int rc = coordinate(t, file, &e);
        if (rc < 0)
            fprintf(stderr, "# coordinator: %s\n", e.text);
        exit(rc < 0 ? -rc : rc);
    }
}

/* The endpoint is known when the coordinator has written it. To be freed. */
static char *read_endpoint(const struct sweep *t)
{
    AUTO(free) char *path = xasprintf("%s/s/endpoint", t->root);
    AUTO(file) FILE *f = fopen(path, "re");
    char text[256];
    if (!f || fscanf(f, "%255s", text) != 1)
        return NULL;
    return xstrdup(text);
}

static void open_client(struct sweep *t)
{
    struct err e = {0};
    const struct transport_client_opts opts = {t->endpoint, "w1", NULL, 5000, 3600000};
    if (transport_client_open(&t->client, &t->loop, &opts, &client_events, t, &e) < 0)
        FAIL("%s", e.text);
}

/* `served`: as t->served. */
static void sweep_open_after(struct sweep *t, const char *file, int64_t served)
{
    *t = (struct sweep){.slots = 1, .served = served};
    strcpy(t->root, "/tmp/test_coord.XXXXXX");
    CHECK(mkdtemp(t->root));
    start_coordinator(t, file);
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    uv_timer_init(&t->loop, &t->poll);
    t->poll.data = t->limit.data = t;
    uv_timer_start(&t->poll, on_poll, 5, 5);
    UNTIL(t, (t->endpoint = read_endpoint(t)) || t->ended);
    open_client(t);
    UNTIL(t, sent(t, "requirements 0 0|") || sent(t, "foreign 0 0|"));
}

static void sweep_open(struct sweep *t, const char *file)
{
    sweep_open_after(t, file, 0);
    CHECK(t->instance > 0);
}

/* Awaits the coordinator's end. */
static void sweep_close(struct sweep *t, int status)
{
    char command[96];
    UNTIL(t, t->ended);
    CHECK_INT(t->status, status);
    transport_client_close(t->client);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_close((uv_handle_t *)&t->poll, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    strbuf_free(&t->sent);
    free(t->endpoint);
    snprintf(command, sizeof command, "rm -r %s", t->root);
    CHECK_INT(system(command), 0);
}

static void send_done(struct sweep *t, int64_t lease, int64_t seq)
{
    send_message(
        t, WIRE_DONE, lease, seq,
        json_pack("{s:i,s:i,s:b,s:f}", "status", 0, "signal", 0, "oom", 0, "seconds", 1.0));
}

static void send_report(struct sweep *t, int64_t lease, int64_t seq, double loss)
{
    send_message(t, WIRE_REPORT, lease, seq,
                 json_pack("{s:I,s:f}", "step", (json_int_t)seq, "loss", loss));
}

/* The lease's messages up to `seq` are acknowledged. */
static void until_acknowledged(struct sweep *t, int64_t lease, int64_t seq)
{
    AUTO(free) char *ack = xasprintf("ack %lld %lld|", (long long)lease, (long long)seq);
    UNTIL(t, sent(t, ack));
}

/* Runs one trial, whose lease differs from `before`. Returns the lease. */
static int64_t run_trial(struct sweep *t, int64_t before, double loss)
{
    UNTIL(t, t->lease > before);
    int64_t lease = t->lease;
    send_report(t, lease, 1, loss);
    send_done(t, lease, 2);
    until_acknowledged(t, lease, 2);
    return lease;
}

/* "STATE VALUE, …" of the stored trials. To be freed. */
static char *stored_trials(const struct sweep *t)
{
    AUTO(sweep_reader) struct sweep_reader *r = NULL;
    struct err e = {0};
    if (sweep_reader_open(&r, t->root, "s", &e) < 0)
        FAIL("%s", e.text);
    AUTO(json) json_t *trials = sweep_reader_top(r, NULL, 1000);
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < json_array_size(trials); i++) {
        const json_t *trial = json_array_get(trials, i);
        strbuf_printf(&b, "%s %g, ", json_string_value(json_object_get(trial, "state")),
                      json_number_value(json_object_get(trial, "value")));
    }
    return strbuf_take(&b);
}

/* ---- tests ---------------------------------------------------------------------------------- */

TEST(a_sweep_leases_its_trials_stores_their_ends_and_ends)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    int64_t first = run_trial(&t, 0, 0.5);
    AUTO(free) char *half = stored_trials(&t); /* an acknowledged end is in the store */
    CHECK_HAS(half, "done 0.5, ");
    (void)run_trial(&t, first, 0.25);
    UNTIL(&t, t.drained);
    AUTO(free) char *trials = stored_trials(&t);
    CHECK_STR(trials, "done 0.25, done 0.5, ");
    send_message(&t, WIRE_BYE, 0, 0, NULL);
    UNTIL(&t, t.ended);
    AUTO(free) char *path = xasprintf("%s/why", t.root);
    CHECK_INT(access(path, F_OK), 0);
    sweep_close(&t, 0);
}

TEST(a_message_of_a_lease_that_does_not_exist_is_acknowledged_and_changes_nothing)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    UNTIL(&t, t.lease > 0);
    int64_t lease = t.lease;
    send_report(&t, 1000000, 1, 0.1);
    until_acknowledged(&t, 1000000, 1);
    send_done(&t, INT64_MAX, 1);
    until_acknowledged(&t, INT64_MAX, 1);
    AUTO(free) char *trials = stored_trials(&t);
    CHECK_STR(trials, "leased 0, ");
    CHECK_INT(run_trial(&t, 0, 0.5), lease);
    (void)run_trial(&t, lease, 0.5);
    UNTIL(&t, t.drained);
    sweep_close(&t, 0);
}

TEST(a_message_that_was_stored_is_acknowledged_again_and_a_gap_asks_for_a_new_connection)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    UNTIL(&t, t.lease > 0);
    int64_t lease = t.running = t.lease;
    send_report(&t, lease, 1, 0.5);
    until_acknowledged(&t, lease, 1);
    clear_sent(&t);
    send_report(&t, lease, 1, 0.5);
    until_acknowledged(&t, lease, 1);
    clear_sent(&t);
    send_done(&t, lease, 3);                  /* message 2 is missing */
    UNTIL(&t, sent(&t, "requirements 0 0|")); /* the answer to the hello of a new connection */
    CHECK(!sent(&t, "ack"));
    send_done(&t, lease, 2);
    until_acknowledged(&t, lease, 2);
    (void)run_trial(&t, lease, 0.5);
    UNTIL(&t, t.drained);
    sweep_close(&t, 0);
}

TEST(a_second_coordinator_is_refused)
{
    struct sweep t;
    struct err e = {0};
    sweep_open(&t, two_trials);
    AUTO(sweep_dir) struct sweep_dir *second = NULL;
    CHECK_INT(open_dir(&second, &t, two_trials, &e), -EBUSY);
    AUTO(free) char *pid = xasprintf("%d", (int)t.coordinator);
    CHECK_HAS(e.text, pid);
    UNTIL(&t, t.lease > 0);
    CHECK_INT(kill(t.coordinator, SIGTERM), 0);
    UNTIL(&t, sent(&t, "stop "));
    send_done(&t, t.lease, 1);
    UNTIL(&t, t.drained);
    sweep_close(&t, SIGTERM);
}

TEST(the_next_coordinator_continues_with_the_trials_that_run)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    UNTIL(&t, t.lease > 0);
    int64_t lease = t.lease;
    send_report(&t, lease, 1, 0.5);
    until_acknowledged(&t, lease, 1);
    CHECK_INT(kill(t.coordinator, SIGKILL), 0);
    UNTIL(&t, t.ended);
    transport_client_close(t.client);
    clear_sent(&t);
    start_coordinator(&t, two_trials);
    open_client(&t);
    UNTIL(&t, sent(&t, "requirements 0 0|"));
    UNTIL(&t, t.lease > lease); /* the hello named no running lease: the trial was requeued */
    int64_t second = run_trial(&t, lease, 0.5);
    (void)run_trial(&t, second, 0.25);
    UNTIL(&t, t.drained);
    sweep_close(&t, 0);
}

TEST(a_coordinator_whose_store_cannot_be_written_is_not_opened)
{
    struct sweep t = {.root = "/tmp/test_coord.XXXXXX"};
    struct err e = {0};
    AUTO(spec) struct spec *spec = NULL;
    AUTO(sweep_dir) struct sweep_dir *dir = NULL;
    AUTO(coordinator) struct coordinator *c = NULL;
    CHECK(mkdtemp(t.root));
    CHECK_INT(stored_sweep_spec(&spec, two_trials, "s.yaml", &e), 0);
    CHECK_INT(open_dir(&dir, &t, two_trials, &e), 0);
    AUTO(json) json_t *data = json_pack("{s:o}", "text", json_stringn_nocheck("\xff", 1));
    const struct scheduler_record r = {.trial = -1, .data = data};
    CHECK_INT(event_store_append(dir->store, &r, 0, &e), -EINVAL); /* the store is broken now */
    const struct coordinator_opts opts = {
        .spec = spec, .dir = dir, .run_message = {spec, "s", dir->path, "/tmp"}};
    CHECK_INT(coordinator_open(&c, &opts, &e), -EIO);
    CHECK_HAS(e.text, "an earlier write failed");
    AUTO(free) char *command = xasprintf("rm -r %s", t.root);
    CHECK_INT(system(command), 0);
}

/* ---- another sweep of the same name --------------------------------------------------------- */

TEST(a_worker_of_another_sweep_is_refused_and_may_begin_anew_with_its_id)
{
    struct sweep t;
    sweep_open_after(&t, two_trials, 12345);
    CHECK_STR(strbuf_str(&t.sent), "foreign 0 0|");
    t.served = 0;
    transport_client_close(t.client);
    clear_sent(&t);
    open_client(&t); /* its connections are counted from 1 again */
    UNTIL(&t, sent(&t, "requirements 0 0|"));
    int64_t first = run_trial(&t, 0, 0.5);
    (void)run_trial(&t, first, 0.25);
    UNTIL(&t, t.drained);
    sweep_close(&t, 0);
}

TEST(results_of_another_sweep_are_neither_stored_nor_acknowledged)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    UNTIL(&t, t.lease > 0);
    int64_t own = t.instance;
    t.instance = own ^ 2;
    send_report(&t, t.lease, 1, -9);
    send_done(&t, t.lease, 2);
    t.instance = own;
    int64_t first = run_trial(&t, 0, 0.5);
    (void)run_trial(&t, first, 0.25);
    UNTIL(&t, t.drained);
    AUTO(free) char *trials = stored_trials(&t);
    CHECK_STR(trials, "done 0.25, done 0.5, ");
    sweep_close(&t, 0);
}

TEST(the_next_coordinator_of_a_sweep_is_of_the_same_instance)
{
    struct sweep t;
    sweep_open(&t, two_trials);
    UNTIL(&t, t.lease > 0);
    t.served = t.instance;
    t.lease = t.instance = 0;
    CHECK_INT(kill(t.coordinator, SIGKILL), 0);
    UNTIL(&t, t.ended);
    transport_client_close(t.client); /* no thread may run when the next one is forked */
    clear_sent(&t);
    start_coordinator(&t, two_trials);
    open_client(&t);
    UNTIL(&t, t.instance > 0);
    CHECK(t.instance == t.served);
    int64_t first = run_trial(&t, 0, 0.5);
    (void)run_trial(&t, first, 0.25);
    UNTIL(&t, t.drained);
    sweep_close(&t, 0);
}
