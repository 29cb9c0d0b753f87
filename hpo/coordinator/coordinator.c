#include "hpo/coordinator/coordinator.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "hpo/coordinator/commit_batch.h"
#include "hpo/coordinator/local_worker.h"
#include "hpo/coordinator/message_dedup.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/transport/transport_server.h"

enum {
    TICK_MS = 1000,
    ASKS_MS = 250,     /* between looks for what users ask: they wait for an answer */
    GATHER_MS = 4,     /* that a report may wait for the commit */
    STOPPED_MS = 5000, /* without a tick: we were stopped, or the machine slept */
    RELEASE_MS = 10000 /* for the local worker to end when it has nothing left to do */
};

struct coordinator {
    const struct coordinator_opts *config;
    const struct coordinator_events *ev;
    void *arg;
    uv_loop_t loop;
    bool loop_open;
    struct transport_server *hub;
    char *endpoint, *lock, *left, *log;
    char *tcp; /* for workers of other machines; NULL: none */
    uint64_t ticked_ms;
    struct worker_roster company;
    struct local_worker_opts local_config;
    struct local_worker *local;
    struct remote_workers *fleet; /* NULL: none */
    int awaited;                  /* of the two, once the sweep is over */
    struct scheduler *sched;
    struct scheduler_out out;
    struct message_dedup *taken;
    struct commit_batch *turn;
    uv_timer_t deadline, tick, asks, release, gather;
    uv_signal_t signals[3];
    char *why;        /* the sweep is over; NULL: it is not */
    int signal;       /* that stopped it */
    int64_t ahead_ms; /* of CLOCK_BOOTTIME is the sweep's time */
    struct err error;
};

/* As the wall clock had it when we began, or as the store has it where that is later. Somebody may
 * set the clock: no timeout is over for it, and no lost worker is waited for the longer. */
static int64_t now_ms(const struct coordinator *c)
{
    return clock_ms_of(CLOCK_BOOTTIME) + c->ahead_ms;
}

/* It cannot go on: the scheduler and the store would part. */
static void fail(struct coordinator *c, const struct err *e)
{
    if (c->error.code == 0)
        c->error = *e;
    uv_stop(&c->loop);
}

/* ---- a turn --------------------------------------------------------------------------------- */

static void perform(struct coordinator *c, const struct commit_batch_effect *t)
{
    struct err e = {0};
    struct wire_msg m = {.kind = t->kind, .lease = t->lease, .seq = t->seq};
    int rc = 0;
    if (t->kind == WIRE_RUN)
        rc = run_message_data(&m.data, &c->config->run_message, t->trial, t->params, t->others, &e);
    if (rc < 0 || transport_server_send(c->hub, t->worker, &m, &e) < 0)
        fail(c, &e);
    wire_msg_clear(&m);
}

/* Gives the scheduler an event; what follows is part of this turn. `seq`: of the worker's message.
 *   -EINVAL  the event makes no sense: nothing has happened */
static int give(struct coordinator *c, const struct scheduler_event *ev, int64_t seq, struct err *e)
{
    if (c->error.code)
        return 0;
    int rc = scheduler_handle(c->sched, ev, now_ms(c), &c->out, e);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < c->out.record_count; i++) {
        const struct scheduler_record *r = &c->out.records[i];
        int64_t msg = ev->lease && r->lease == ev->lease ? seq : 0;
        struct err why = {0};
        if (event_store_append(c->config->dir->store, r, msg, &why) < 0) {
            fail(c, &why);
            return 0;
        }
        commit_batch_record(c->turn, r);
        if (r->kind == SCHEDULER_REC_LEASED)
            message_dedup_lease(c->taken, r->lease);
    }
    for (size_t i = 0; i < c->out.action_count; i++) {
        const struct scheduler_action *a = &c->out.actions[i];
        if (a->kind == SCHEDULER_ACT_END) {
            free(c->why);
            c->why = xstrdup(a->why ? a->why : "");
        } else {
            commit_batch_add_action(c->turn, a);
        }
    }
    return 0;
}

static void on_deadline(uv_timer_t *t);
static void on_release_late(uv_timer_t *t);

/* The sweep is over: workers may go. */
static void release(struct coordinator *c)
{
    if (uv_is_active((uv_handle_t *)&c->release))
        return;
    uv_timer_start(&c->release, on_release_late, RELEASE_MS, 0);
    transport_server_broadcast(c->hub, WIRE_DRAIN);
    c->awaited = 1 + (c->fleet != NULL);
    local_worker_release(c->local);
    if (c->fleet)
        remote_workers_release(c->fleet);
}

static void set_deadline(struct coordinator *c)
{
    int64_t due = scheduler_deadline(c->sched), now = now_ms(c);
    uv_timer_stop(&c->deadline);
    if (due != INT64_MAX)
        uv_timer_start(&c->deadline, on_deadline, due > now ? (uint64_t)(due - now) : 0, 0);
}

/* Stores what this turn has brought so far, then acts. */
static void commit(struct coordinator *c)
{
    struct err e = {0};
    uv_timer_stop(&c->gather);
    if (c->error.code == 0 && event_store_commit(c->config->dir->store, &e) < 0)
        fail(c, &e);
    const struct commit_batch_effect *d;
    for (size_t i = 0; c->error.code == 0 && (d = commit_batch_effect_at(c->turn, i)); i++)
        perform(c, d);
    const struct commit_batch_record *f;
    for (size_t i = 0; c->error.code == 0 && (f = commit_batch_record_at(c->turn, i)); i++)
        c->ev->stored(c->arg, c->sched, f->kind, f->trial);
    commit_batch_clear(c->turn);
    if (c->error.code)
        return;
    c->ev->changed(c->arg, c->sched);
    set_deadline(c);
    if (c->why)
        release(c);
}

/* What was decided before does not wait for the suggestion. */
static void think_ahead(struct coordinator *c)
{
    struct err e = {0};
    if (!scheduler_wants_prefetch(c->sched))
        return;
    commit(c);
    if (give(c, &(struct scheduler_event){.kind = SCHEDULER_EV_PREFETCH}, 0, &e) < 0)
        fail(c, &e);
}

/* As give(), with what is due before it. */
static int take(struct coordinator *c, const struct scheduler_event *ev, int64_t seq, struct err *e)
{
    if (ev->kind != SCHEDULER_EV_DRAIN)
        think_ahead(c);
    return give(c, ev, seq, e);
}

static void step(struct coordinator *c, const struct scheduler_event *ev, int64_t seq)
{
    struct err e = {0};
    if (take(c, ev, seq, &e) < 0)
        log_warn("worker %s: %s", ev->worker ? ev->worker : "-", e.text);
}

/* The end of a turn. */
static void finish_turn(struct coordinator *c)
{
    think_ahead(c);
    commit(c);
}

/* Those that we have started. */
static void kill_workers(struct coordinator *c)
{
    local_worker_kill(c->local);
    if (c->fleet)
        remote_workers_kill(c->fleet);
}

static void on_deadline(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    finish_turn(c);
}

static void on_gathered(uv_timer_t *t)
{
    finish_turn(t->data);
}

static void on_release_late(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    log_warn("a worker that was started here does not end: it is killed");
    kill_workers(c);
}

/* ---- workers speak -------------------------------------------------------------------------- */

/* A report or an end. */
static void take_numbered(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    enum message_dedup_verdict verdict = message_dedup_check(c->taken, m->lease, m->seq);
    if (verdict == MESSAGE_DEDUP_GAP) {
        commit_batch_request_reconnect(c->turn, worker); /* on a new connection it says all again */
        return;
    }
    if (verdict == MESSAGE_DEDUP_NEW)
        step(c,
             &(struct scheduler_event){.kind = m->kind == WIRE_DONE ? SCHEDULER_EV_DONE
                                                                    : SCHEDULER_EV_REPORT,
                                       .worker = worker,
                                       .lease = m->lease,
                                       .data = m->data},
             m->seq);
    commit_batch_ack(c->turn, worker, m->lease, m->seq);
}

static void take_hello(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    struct err e = {0};
    local_worker_hello(c->local, worker);
    /* A list of thousands takes long to write, and their connections are renewed all the time. */
    c->company.changed |= !peer_table_find(transport_server_peers(c->hub), worker)->renewed;
    struct wire_msg answer = {.kind = WIRE_DRAIN};
    if (!c->why) {
        step(c, &(struct scheduler_event){SCHEDULER_EV_HELLO, worker, 0, m->data}, 0);
        answer = (struct wire_msg){.kind = WIRE_REQUIREMENTS,
                                   .data = resources_json(&c->config->spec->need)};
    }
    if (transport_server_send(c->hub, worker, &answer, &e) < 0)
        fail(c, &e);
    wire_msg_clear(&answer);
}

static void take_places(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *why = json_string_value(json_object_get(m->data, "why"));
    if (why)
        log_warn("worker %s: %s", worker, why);
    c->company.changed = true;
    step(c, &(struct scheduler_event){SCHEDULER_EV_SLOTS, worker, 0, m->data}, 0);
}

/* One that says it of a trial that already runs was not there for the WIRE_JOIN_TICKET, which only
 * the trial's launcher knows. */
static void take_held(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *runner = scheduler_runner(c->sched, worker, m->lease);
    if (runner)
        commit_batch_request_reconnect(c->turn, runner);
    step(c, &(struct scheduler_event){SCHEDULER_EV_RESERVED, worker, m->lease, m->data}, 0);
}

/* What it ran, if anything, goes back to the queue. */
static void lose(struct coordinator *c, const char *worker)
{
    transport_server_mark_lost(c->hub, worker);
    c->company.changed = true;
    step(c, &(struct scheduler_event){SCHEDULER_EV_LOST, worker, 0, NULL}, 0);
}

static void on_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct coordinator *c = arg;
    if (m->kind == WIRE_HELLO)
        take_hello(c, worker, m);
    else if (m->kind == WIRE_SLOTS)
        take_places(c, worker, m);
    else if (m->kind == WIRE_LEAVING)
        step(c, &(struct scheduler_event){SCHEDULER_EV_LEAVING, worker, 0, NULL}, 0);
    else if (m->kind == WIRE_BYE)
        lose(c, worker);
    else if (m->kind == WIRE_RESERVED)
        take_held(c, worker, m);
    else if (m->kind == WIRE_REVOKE)
        step(c, &(struct scheduler_event){SCHEDULER_EV_REVOKED, worker, m->lease, NULL}, 0);
    else if (m->kind == WIRE_JOIN_TICKET)
        worker_roster_forward_ticket(c->hub, scheduler_gang_members(c->sched, worker, m->lease), m,
                                     c->config->spec->need.ranks);
    else
        take_numbered(c, worker, m);
}

/* Reports that nothing follows from wait for others, and for the end that often comes with them:
 * what a commit costs is the disk's answer, not its size. */
static void on_batch_end(void *arg)
{
    struct coordinator *c = arg;
    if (!commit_batch_can_wait(c->turn) || c->why || c->error.code)
        finish_turn(c);
    else if (!uv_is_active((uv_handle_t *)&c->gather))
        uv_timer_start(&c->gather, on_gathered, GATHER_MS, 0);
}

static const struct transport_server_events hub_events = {.message = on_message,
                                                          .batch_end = on_batch_end};

/* ---- time, signals, the local worker -------------------------------------------------------- */

static void on_tick(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    uint64_t now = uv_now(&c->loop);
    if (now - c->ticked_ms >= STOPPED_MS)
        transport_server_reset_deadlines(c->hub); /* what workers said meanwhile is not read yet */
    c->ticked_ms = now;
    size_t from = 0;
    for (const char *id;
         (id = transport_server_silent(c->hub, c->config->spec->lost_after_ms, &from));) {
        log_warn("worker %s is silent and counts as lost", id);
        lose(c, id);
    }
    worker_roster_tick(&c->company, transport_server_peers(c->hub), c->config->dir, now);
    finish_turn(c);
}

/* What users ask, as part of this turn; NULL: nothing. */
static struct command_mailbox *take_asks(struct coordinator *c)
{
    struct command_mailbox *d =
        c->why ? NULL : command_mailbox_open(c->config->dir->path); /* at the end: the next's */
    for (size_t i = 0; d && i < command_mailbox_count(d); i++) {
        struct err e = {0};
        const struct scheduler_event ev = {.kind = SCHEDULER_EV_COMMAND,
                                           .data = (json_t *)command_mailbox_submit(d, i)};
        (void)take(c, &ev, 0, &e); /* who asked is told */
        command_mailbox_set_reply(d, i, &e, c->sched, &c->out);
    }
    return d;
}

static void finish_asks(struct coordinator *c, struct command_mailbox *d)
{
    finish_turn(c);
    if (d && c->error.code == 0)
        command_mailbox_commit(d);
    command_mailbox_close(d);
}

static void on_asks(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    struct command_mailbox *d = take_asks(c);
    if (d)
        finish_asks(c, d);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct coordinator *c = s->data;
    bool again = c->signal != 0;
    c->ev->interrupted(c->arg, again);
    c->signal = number;
    if (again) {
        kill_workers(c);
        finish_turn(c); /* with what is still gathered */
        transport_server_broadcast(
            c->hub, WIRE_DRAIN); /* those of other machines end theirs in good order */
        uv_stop(&c->loop);
        return;
    }
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_DRAIN}, 0);
    finish_turn(c);
}

/* What a worker that ended while no coordinator was there could not say. */
static void take_left(struct coordinator *c, const char *id)
{
    AUTO(file) FILE *f = fopen(c->left, "re");
    if (!f)
        return;
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        struct err e = {0};
        struct wire_msg m;
        if (wire_decode(&m, line, (size_t)n, &e) < 0) {
            log_warn("%s: dropped: %s", c->left, e.text);
            continue;
        }
        if (m.kind == WIRE_REPORT || m.kind == WIRE_DONE)
            take_numbered(c, id, &m);
        wire_msg_clear(&m);
    }
    finish_turn(c);
    if (c->error.code == 0)
        (void)unlink(c->left); /* read again it does no harm */
}

static void on_gone(void *arg, const char *id)
{
    struct coordinator *c = arg;
    take_left(c, id);
    lose(c, id);
    finish_turn(c);
}

static void on_failed(void *arg, const struct err *e)
{
    fail(arg, e);
}

static void on_released(void *arg)
{
    struct coordinator *c = arg;
    if (--c->awaited == 0)
        uv_stop(&c->loop);
}

static const struct local_worker_events local_events = {
    .gone = on_gone, .failed = on_failed, .released = on_released};

/* ---- the workers on other nodes that we start ----------------------------------------------- */

static void on_fleet_gone(void *arg, const char *id)
{
    lose(arg, id);
    finish_turn(arg);
}

/* Others may have joined by themselves. */
static void on_fleet_failed(void *arg, const struct err *e)
{
    struct coordinator *c = arg;
    if (c->config->slots == 0 && worker_roster_count(transport_server_peers(c->hub)) == 0)
        fail(c, e);
}

static const struct remote_workers_events fleet_events = {
    .gone = on_fleet_gone, .failed = on_fleet_failed, .released = on_released};

/* ---- life ----------------------------------------------------------------------------------- */

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    struct coordinator *c = arg;
    if (r->lease > 0)
        message_dedup_replay(c->taken, r->lease, msg);
    int64_t now = now_ms(c);
    if (r->at_ms > now)
        c->ahead_ms += r->at_ms - now;
    return scheduler_replay(c->sched, r, e);
}

static int replay(struct coordinator *c, struct err *e)
{
    c->ahead_ms = clock_ms_of(CLOCK_REALTIME) - clock_ms_of(CLOCK_BOOTTIME);
    int rc = scheduler_new(&c->sched, c->config->spec, e);
    if (rc == 0)
        rc = event_store_replay(c->config->dir->store, replay_one, c, e);
    if (rc < 0)
        return err_wrap(e, "sweep '%s'", c->config->dir->name);
    scheduler_replayed(c->sched, now_ms(c));
    return 0;
}

static int open_loop(struct coordinator *c, struct err *e)
{
    static const int numbers[COUNT_OF(c->signals)] = {SIGINT, SIGTERM, SIGHUP};
    int rc = uv_loop_init(&c->loop);
    if (rc < 0)
        return err_set(e, rc, "loop: %s", uv_strerror(rc));
    c->loop_open = true;
    uv_timer_t *const timers[] = {&c->deadline, &c->tick, &c->asks, &c->release, &c->gather};
    for (size_t i = 0; i < COUNT_OF(timers); i++) {
        uv_timer_init(&c->loop, timers[i]);
        timers[i]->data = c;
    }
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uv_signal_init(&c->loop, &c->signals[i]);
        c->signals[i].data = c;
        uv_signal_start(&c->signals[i], on_signal, numbers[i]);
    }
    uv_timer_start(&c->tick, on_tick, TICK_MS, TICK_MS);
    uv_timer_start(&c->asks, on_asks, ASKS_MS, ASKS_MS);
    c->local = local_worker_new(&c->loop, &c->local_config, &local_events, c);
    return 0;
}

int coordinator_open(struct coordinator **out, const struct coordinator_opts *config, struct err *e)
{
    AUTO(coordinator) struct coordinator *c = xzalloc(sizeof *c);
    c->config = config;
    c->taken = message_dedup_new();
    c->turn = commit_batch_new();
    c->lock = sweep_dir_host_file(config->dir, "lock");
    c->left = sweep_dir_host_file(config->dir, "left");
    c->log = sweep_dir_host_file(config->dir, "log");
    int rc = sweep_dir_endpoint(&c->endpoint, config->dir, e);
    c->local_config =
        (struct local_worker_opts){c->endpoint, c->lock, c->left, c->log, config->slots};
    if (rc == 0)
        rc = replay(c, e);
    if (rc == 0)
        rc = open_loop(c, e);
    if (rc == 0)
        rc = transport_server_open(&c->hub, &c->loop, c->endpoint, &hub_events, c, e);
    if (rc == 0)
        rc = listen_endpoint_open(c->hub, config->dir->path, &config->listen, &c->tcp, e);
    if (rc == 0 && config->remote_workers.hosts)
        rc = remote_workers_open(&c->fleet, &c->loop, &config->remote_workers, config->dir->path,
                                 &fleet_events, c, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

static void close_loop(struct coordinator *c)
{
    uv_timer_t *const timers[] = {&c->deadline, &c->tick, &c->asks, &c->release, &c->gather};
    for (size_t i = 0; i < COUNT_OF(timers); i++)
        uv_close((uv_handle_t *)timers[i], NULL);
    for (size_t i = 0; i < COUNT_OF(c->signals); i++)
        uv_close((uv_handle_t *)&c->signals[i], NULL);
    local_worker_free(c->local);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&c->loop); /* nothing is left on it */
}

void coordinator_close(struct coordinator *c)
{
    if (!c)
        return;
    remote_workers_close(c->fleet);
    transport_server_close(c->hub);
    if (c->loop_open)
        close_loop(c);
    scheduler_out_free(&c->out);
    scheduler_free(c->sched);
    free(c->why);
    free(c->endpoint);
    free(c->tcp);
    free(c->lock);
    free(c->left);
    free(c->log);
    message_dedup_free(c->taken);
    commit_batch_free(c->turn);
    free(c);
}

const struct scheduler *coordinator_scheduler(const struct coordinator *c)
{
    return c->sched;
}

const char *coordinator_endpoint(const struct coordinator *c)
{
    return c->tcp;
}

const char *coordinator_why(const struct coordinator *c)
{
    return c->why;
}

int coordinator_run(struct coordinator *c, const struct coordinator_events *ev, void *arg,
                    struct err *e)
{
    c->ev = ev;
    c->arg = arg;
    struct command_mailbox *d = take_asks(c);
    /* A sweep that is over says so now, before a worker is started for nothing. */
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    c->ticked_ms = uv_now(&c->loop);
    c->company = (struct worker_roster){.own = c->config->slots > 0,
                                        .nodes = c->config->spec->need.nodes,
                                        .changed = true,
                                        .lonely_ms = c->ticked_ms};
    if (c->why)
        local_worker_reattach(c->local);
    else if (c->config->slots > 0)
        local_worker_start(c->local);
    if (c->fleet && !c->why)
        remote_workers_start(c->fleet);
    finish_asks(c, d);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    if (c->error.code) {
        if (e)
            *e = c->error;
        return c->error.code;
    }
    return c->signal;
}
