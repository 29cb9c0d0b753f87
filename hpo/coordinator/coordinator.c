#include "hpo/coordinator/coordinator.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/stop_signals.h"
#include "hpo/coordinator/commit_batch.h"
#include "hpo/coordinator/local_worker.h"
#include "hpo/coordinator/message_dedup.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/transport/transport_server.h"

enum {
    TICK_MS = 1000,
    COMMANDS_MS = 250, /* between two polls of the command mailbox: users await the answer */
    GATHER_MS = 4,     /* that a report may wait for the commit */
    PAUSE_MS = 5000,   /* without a tick: this process was stopped, or the machine slept */
    RELEASE_MS = 10000 /* for the workers started here to exit when the sweep is over */
};

struct coordinator {
    const struct coordinator_opts *opts;
    const struct coordinator_events *ev;
    void *arg;
    uv_loop_t loop;
    bool loop_open;
    struct transport_server *server;
    char *endpoint, *lock, *leftovers, *log;
    char *tcp_endpoint; /* for workers of other machines; NULL: none */
    uint64_t ticked_ms;
    struct worker_roster roster;
    struct local_worker_opts local_opts;
    struct local_worker *local;
    struct remote_workers *remote; /* NULL: none */
    int releasing;                 /* of the two, once the sweep is over */
    struct scheduler *sched;
    struct scheduler_out out;
    struct message_dedup *dedup;
    struct commit_batch *batch;
    uv_timer_t deadline, tick, commands, release, gather;
    struct stop_signals signals;
    char *end_reason;  /* NULL: the sweep is not over */
    int signal;        /* that stopped it; 0: none */
    int64_t offset_ms; /* from CLOCK_BOOTTIME to the sweep's time */
    struct err error;  /* it cannot continue */
};

/* The wall clock's time at the start, or the store's last time if that is later, and counted on
 * from there. So setting the clock neither ends a timeout early nor delays the loss of a worker. */
static int64_t now_ms(const struct coordinator *c)
{
    return clock_ms_of(CLOCK_BOOTTIME) + c->offset_ms;
}

/* Stops here: otherwise the scheduler and the store would diverge. */
static void fail(void *arg, const struct err *e)
{
    struct coordinator *c = arg;
    if (c->error.code == 0)
        c->error = *e;
    uv_stop(&c->loop);
}

/* ---- a commit batch ------------------------------------------------------------------------- */

static void perform(struct coordinator *c, const struct commit_batch_effect *effect)
{
    struct err e = {0};
    struct wire_msg m = {.kind = effect->kind, .lease = effect->lease, .seq = effect->seq};
    int rc = 0;
    if (effect->kind == WIRE_RUN)
        rc = run_message_data(&m.data, &c->opts->run_message, effect->trial, effect->params,
                              effect->peers, &e);
    if (rc < 0 || transport_server_send(c->server, effect->worker, &m, &e) < 0)
        fail(c, &e);
    wire_msg_clear(&m);
}

/* For readers, which have no scheduler: the sweep is over for the reason `text`; "": it is not. */
static void store_ended(struct coordinator *c, const char *text)
{
    struct err e = {0};
    if (event_store_put(c->opts->dir->store, SWEEP_DIR_META_ENDED, text, &e) < 0)
        fail(c, &e);
}

/* Passes an event to the scheduler; its records and actions join this batch. `seq`: of the worker's
 * message.
 *   -EINVAL  the event has no meaning: nothing has changed */
static int handle_event(struct coordinator *c, const struct scheduler_event *ev, int64_t seq,
                        struct err *e)
{
    if (c->error.code)
        return 0;
    int rc = scheduler_handle(c->sched, ev, now_ms(c), &c->out, e);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < c->out.record_count; i++) {
        const struct scheduler_record *r = &c->out.records[i];
        int64_t msg = ev->lease && r->lease == ev->lease ? seq : 0;
        struct err failed = {0};
        if (event_store_append(c->opts->dir->store, r, msg, &failed) < 0) {
            fail(c, &failed);
            return 0;
        }
        commit_batch_record(c->batch, r);
        if (r->kind == SCHEDULER_REC_LEASED)
            message_dedup_lease(c->dedup, r->lease);
    }
    for (size_t i = 0; i < c->out.action_count; i++) {
        const struct scheduler_action *a = &c->out.actions[i];
        if (a->kind == SCHEDULER_ACT_END) {
            free(c->end_reason);
            c->end_reason = xstrdup(a->reason ? a->reason : "");
            if (scheduler_is_done(c->sched))
                store_ended(c, c->end_reason);
        } else {
            commit_batch_add_action(c->batch, a);
        }
    }
    return 0;
}

static void on_deadline(uv_timer_t *t);
static void on_release_late(uv_timer_t *t);

/* The sweep is over: workers are told to end. */
static void release(struct coordinator *c)
{
    uv_timer_start(&c->release, on_release_late, RELEASE_MS, 0);
    transport_server_broadcast(c->server, WIRE_DRAIN);
    c->releasing = 1 + (c->remote != NULL);
    local_worker_release(c->local);
    if (c->remote)
        remote_workers_release(c->remote);
}

static void set_deadline(struct coordinator *c)
{
    int64_t due = scheduler_deadline(c->sched), now = now_ms(c);
    uv_timer_stop(&c->deadline);
    if (due != INT64_MAX)
        uv_timer_start(&c->deadline, on_deadline, due > now ? (uint64_t)(due - now) : 0, 0);
}

/* Commits the batch, then performs its effects. */
static void commit(struct coordinator *c)
{
    struct err e = {0};
    uv_timer_stop(&c->gather);
    if (c->error.code == 0 && event_store_commit(c->opts->dir->store, &e) < 0)
        fail(c, &e);
    const struct commit_batch_effect *effect;
    for (size_t i = 0; c->error.code == 0 && (effect = commit_batch_effect_at(c->batch, i)); i++)
        perform(c, effect);
    const struct commit_batch_record *r;
    for (size_t i = 0; c->error.code == 0 && (r = commit_batch_record_at(c->batch, i)); i++)
        c->ev->stored(c->arg, c->sched, r->kind, r->trial);
    commit_batch_clear(c->batch);
    if (c->error.code)
        return;
    c->ev->changed(c->arg, c->sched);
    set_deadline(c);
    if (c->end_reason && !uv_is_active((uv_handle_t *)&c->release))
        release(c);
}

/* Computes a suggestion in advance if the scheduler wants one. What was decided before does not
 * wait for it. */
static void prefetch(struct coordinator *c)
{
    struct err e = {0};
    if (!scheduler_wants_prefetch(c->sched))
        return;
    commit(c);
    if (handle_event(c, &(struct scheduler_event){.kind = SCHEDULER_EV_PREFETCH}, 0, &e) < 0)
        fail(c, &e);
}

/* Handles an event like handle_event(), after a prefetch that is due. */
static int apply_event(struct coordinator *c, const struct scheduler_event *ev, int64_t seq,
                       struct err *e)
{
    if (ev->kind != SCHEDULER_EV_DRAIN)
        prefetch(c);
    return handle_event(c, ev, seq, e);
}

static void step(struct coordinator *c, const struct scheduler_event *ev, int64_t seq)
{
    struct err e = {0};
    if (apply_event(c, ev, seq, &e) < 0)
        log_warn("worker %s: %s", ev->worker ? ev->worker : "-", e.text);
}

static void finish_batch(struct coordinator *c)
{
    prefetch(c);
    commit(c);
}

/* Kills the workers that this coordinator has started. */
static void kill_workers(struct coordinator *c)
{
    local_worker_kill(c->local);
    if (c->remote)
        remote_workers_kill(c->remote);
}

static void on_deadline(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    finish_batch(c);
}

static void on_gathered(uv_timer_t *t)
{
    finish_batch(t->data);
}

static void on_release_late(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    log_warn("killing a worker that was started here: it did not exit within %d s",
             RELEASE_MS / 1000);
    kill_workers(c);
}

/* ---- messages of workers -------------------------------------------------------------------- */

/* A report, or the end of a lease. */
static void on_numbered(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    enum message_dedup_verdict verdict = message_dedup_check(c->dedup, m->lease, m->seq);
    if (verdict == MESSAGE_DEDUP_GAP) {
        commit_batch_request_reconnect(c->batch, worker); /* it sends all again then */
        return;
    }
    enum scheduler_event_kind kind = m->kind == WIRE_DONE ? SCHEDULER_EV_DONE : SCHEDULER_EV_REPORT;
    if (verdict == MESSAGE_DEDUP_NEW)
        step(c, &(struct scheduler_event){kind, worker, m->lease, m->data}, m->seq);
    commit_batch_ack(c->batch, worker, m->lease, m->seq);
}

static void on_hello(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    struct err e = {0};
    local_worker_hello(c->local, worker);
    /* A list of thousands takes long to write, and their connections are renewed frequently. */
    c->roster.changed |= !peer_table_find(transport_server_peers(c->server), worker)->renewed;
    struct wire_msg answer = {.kind = WIRE_DRAIN};
    if (!c->end_reason) {
        step(c, &(struct scheduler_event){SCHEDULER_EV_HELLO, worker, 0, m->data}, 0);
        answer = (struct wire_msg){.kind = WIRE_REQUIREMENTS,
                                   .data = resources_json(&c->opts->spec->need)};
        json_object_set_new(answer.data, "sweep", json_string(c->opts->dir->name));
    }
    if (transport_server_send(c->server, worker, &answer, &e) < 0)
        fail(c, &e);
    wire_msg_clear(&answer);
}

static void on_slots(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *reason = json_string_value(json_object_get(m->data, "why"));
    if (reason)
        log_warn("worker %s: %s", worker, reason);
    c->roster.changed = true;
    step(c, &(struct scheduler_event){SCHEDULER_EV_SLOTS, worker, 0, m->data}, 0);
}

/* If the trial already runs, this worker has missed the WIRE_JOIN_TICKET, which only the trial's
 * launcher can send again. */
static void on_reserved(struct coordinator *c, const char *worker, const struct wire_msg *m)
{
    const char *runner = scheduler_runner(c->sched, worker, m->lease);
    if (runner)
        commit_batch_request_reconnect(c->batch, runner);
    step(c, &(struct scheduler_event){SCHEDULER_EV_RESERVED, worker, m->lease, m->data}, 0);
}

/* Requeues the trials of a worker that is lost or has ended. */
static void lose(struct coordinator *c, const char *worker)
{
    transport_server_mark_lost(c->server, worker);
    c->roster.changed = true;
    step(c, &(struct scheduler_event){SCHEDULER_EV_LOST, worker, 0, NULL}, 0);
}

static void on_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct coordinator *c = arg;
    if (m->kind == WIRE_HELLO)
        on_hello(c, worker, m);
    else if (m->kind == WIRE_SLOTS)
        on_slots(c, worker, m);
    else if (m->kind == WIRE_LEAVING)
        step(c, &(struct scheduler_event){SCHEDULER_EV_LEAVING, worker, 0, NULL}, 0);
    else if (m->kind == WIRE_BYE)
        lose(c, worker);
    else if (m->kind == WIRE_RESERVED)
        on_reserved(c, worker, m);
    else if (m->kind == WIRE_REVOKE)
        step(c, &(struct scheduler_event){SCHEDULER_EV_REVOKED, worker, m->lease, NULL}, 0);
    else if (m->kind == WIRE_JOIN_TICKET)
        worker_roster_forward_ticket(c->server, scheduler_gang_members(c->sched, worker, m->lease),
                                     m, c->opts->spec->need.ranks);
    else
        on_numbered(c, worker, m);
}

/* Acknowledgements wait for further messages, and for the end of the lease that often follows a
 * report: the cost of a commit is the disk's latency, not the size of the commit. */
static void on_batch_end(void *arg)
{
    struct coordinator *c = arg;
    if (!commit_batch_can_wait(c->batch) || c->end_reason || c->error.code)
        finish_batch(c);
    else if (!uv_is_active((uv_handle_t *)&c->gather))
        uv_timer_start(&c->gather, on_gathered, GATHER_MS, 0);
}

static const struct transport_server_events server_events = {.message = on_message,
                                                             .batch_end = on_batch_end};

/* ---- time, commands and signals ------------------------------------------------------------- */

static void on_tick(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    uint64_t now = uv_now(&c->loop);
    if (now - c->ticked_ms >= PAUSE_MS)
        transport_server_reset_deadlines(c->server); /* messages that arrived are not read yet */
    c->ticked_ms = now;
    size_t from = 0;
    for (const char *id;
         (id = transport_server_silent(c->server, c->opts->spec->lost_after_ms, &from));) {
        log_warn("worker %s is silent: it counts as lost", id);
        lose(c, id);
    }
    worker_roster_tick(&c->roster, transport_server_peers(c->server), c->opts->dir, now);
    finish_batch(c);
}

/* Applies the commands of users as part of this batch. NULL: there are none. */
static struct command_mailbox *read_commands(struct coordinator *c)
{
    struct command_mailbox *d =
        c->end_reason
            ? NULL
            : command_mailbox_open(
                  c->opts->dir->path); /* after the end they are for the next coordinator */
    for (size_t i = 0; d && i < command_mailbox_count(d); i++) {
        struct err e = {0};
        const struct scheduler_event ev = {.kind = SCHEDULER_EV_COMMAND,
                                           .data = (json_t *)command_mailbox_get(d, i)};
        (void)apply_event(c, &ev, 0, &e); /* the reply carries the error */
        command_mailbox_set_reply(d, i, &e, c->sched, &c->out);
    }
    return d;
}

static void finish_commands(struct coordinator *c, struct command_mailbox *d)
{
    finish_batch(c);
    if (d && c->error.code == 0)
        command_mailbox_commit(d);
    command_mailbox_close(d);
}

static void on_commands(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    struct command_mailbox *d = read_commands(c);
    if (d)
        finish_commands(c, d);
}

static void on_stop_request(void *arg, int number, bool again)
{
    struct coordinator *c = arg;
    c->ev->interrupted(c->arg, again);
    c->signal = number;
    if (again) {
        kill_workers(c);
        finish_batch(c);                                   /* with reports that wait for a commit */
        transport_server_broadcast(c->server, WIRE_DRAIN); /* they stop their trials */
        uv_stop(&c->loop);
        return;
    }
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_DRAIN}, 0);
    finish_batch(c);
}

/* Reads the leftovers: messages that a worker could not deliver before it exited. */
static void read_leftovers(struct coordinator *c, const char *id)
{
    AUTO(file) FILE *f = fopen(c->leftovers, "re");
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; f && (n = getline(&line, &cap, f)) > 0;) {
        struct err e = {0};
        struct wire_msg m = {0};
        if (wire_decode(&m, line, (size_t)n, &e) < 0)
            log_warn("%s: dropped a message: %s", c->leftovers, e.text);
        else if (m.kind == WIRE_REPORT || m.kind == WIRE_DONE)
            on_numbered(c, id, &m);
        wire_msg_clear(&m);
    }
    if (!f)
        return;
    finish_batch(c);
    if (c->error.code == 0)
        (void)unlink(c->leftovers); /* reading it twice does no harm */
}

static void on_local_exited(void *arg, const char *id)
{
    struct coordinator *c = arg;
    read_leftovers(c, id);
    lose(c, id);
    finish_batch(c);
}

static void on_released(void *arg)
{
    struct coordinator *c = arg;
    if (--c->releasing == 0)
        uv_stop(&c->loop);
}

static const struct local_worker_events local_events = {
    .exited = on_local_exited, .failed = fail, .released = on_released};

/* ---- the workers on other nodes ------------------------------------------------------------- */

static void on_remote_exited(void *arg, const char *id)
{
    lose(arg, id);
    finish_batch(arg);
}

/* The sweep continues with workers that have joined by themselves. */
static void on_remote_failed(void *arg, const struct err *e)
{
    struct coordinator *c = arg;
    if (c->opts->slots == 0 && worker_roster_count(transport_server_peers(c->server)) == 0)
        fail(c, e);
}

static const struct remote_workers_events remote_events = {
    .exited = on_remote_exited, .failed = on_remote_failed, .released = on_released};

/* ---- life ----------------------------------------------------------------------------------- */

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    struct coordinator *c = arg;
    if (r->lease > 0)
        message_dedup_replay(c->dedup, r->lease, msg);
    int64_t now = now_ms(c);
    if (r->at_ms > now)
        c->offset_ms += r->at_ms - now;
    return scheduler_replay(c->sched, r, e);
}

static int replay(struct coordinator *c, struct err *e)
{
    c->offset_ms = clock_ms_of(CLOCK_REALTIME) - clock_ms_of(CLOCK_BOOTTIME);
    int rc = scheduler_new(&c->sched, c->opts->spec, e);
    if (rc == 0)
        rc = event_store_replay(c->opts->dir->store, replay_one, c, e);
    if (rc < 0)
        return err_wrap(e, "sweep '%s'", c->opts->dir->name);
    scheduler_replayed(c->sched, now_ms(c));
    store_ended(c, ""); /* with the first commit */
    return 0;
}

static int open_loop(struct coordinator *c, struct err *e)
{
    int rc = uv_loop_init(&c->loop);
    if (rc < 0)
        return err_set(e, rc, "loop: %s", uv_strerror(rc));
    c->loop_open = true;
    uv_timer_t *const timers[] = {&c->deadline, &c->tick, &c->commands, &c->release, &c->gather};
    for (size_t i = 0; i < COUNT_OF(timers); i++) {
        uv_timer_init(&c->loop, timers[i]);
        timers[i]->data = c;
    }
    stop_signals_open(&c->signals, &c->loop, on_stop_request, c);
    uv_timer_start(&c->tick, on_tick, TICK_MS, TICK_MS);
    uv_timer_start(&c->commands, on_commands, COMMANDS_MS, COMMANDS_MS);
    c->local = local_worker_new(&c->loop, &c->local_opts, &local_events, c);
    return 0;
}

int coordinator_open(struct coordinator **out, const struct coordinator_opts *opts, struct err *e)
{
    AUTO(coordinator) struct coordinator *c = xzalloc(sizeof *c);
    c->opts = opts;
    c->dedup = message_dedup_new();
    c->batch = commit_batch_new();
    c->lock = sweep_dir_host_file(opts->dir, "lock");
    c->leftovers = sweep_dir_host_file(opts->dir, "left");
    c->log = sweep_dir_host_file(opts->dir, "log");
    int rc = sweep_dir_endpoint(&c->endpoint, opts->dir, e);
    c->local_opts =
        (struct local_worker_opts){c->endpoint, c->lock, c->leftovers, c->log, opts->slots};
    if (rc == 0)
        rc = replay(c, e);
    if (rc == 0)
        rc = open_loop(c, e);
    if (rc == 0)
        rc = transport_server_open(&c->server, &c->loop, c->endpoint, &server_events, c, e);
    if (rc == 0)
        rc = listen_endpoint_open(c->server, opts->dir->path, &opts->listen, &c->tcp_endpoint, e);
    if (rc == 0 && opts->remote_workers.hosts)
        rc = remote_workers_open(&c->remote, &c->loop, &opts->remote_workers, opts->dir->path,
                                 &remote_events, c, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

static void close_loop(struct coordinator *c)
{
    uv_timer_t *const timers[] = {&c->deadline, &c->tick, &c->commands, &c->release, &c->gather};
    for (size_t i = 0; i < COUNT_OF(timers); i++)
        uv_close((uv_handle_t *)timers[i], NULL);
    stop_signals_close(&c->signals);
    local_worker_free(c->local);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&c->loop); /* no handle is left on it */
}

void coordinator_close(struct coordinator *c)
{
    if (!c)
        return;
    remote_workers_close(c->remote);
    transport_server_close(c->server);
    if (c->loop_open)
        close_loop(c);
    scheduler_out_free(&c->out);
    scheduler_free(c->sched);
    free(c->end_reason);
    free(c->endpoint);
    free(c->tcp_endpoint);
    free(c->lock);
    free(c->leftovers);
    free(c->log);
    message_dedup_free(c->dedup);
    commit_batch_free(c->batch);
    free(c);
}

struct coordinator_view coordinator_view(struct coordinator *c)
{
    return (struct coordinator_view){&c->loop, c->sched, transport_server_peers(c->server),
                                     c->tcp_endpoint};
}

const char *coordinator_end_reason(const struct coordinator *c)
{
    return c->end_reason;
}

int coordinator_run(struct coordinator *c, const struct coordinator_events *ev, void *arg,
                    struct err *e)
{
    c->ev = ev;
    c->arg = arg;
    struct command_mailbox *d = read_commands(c);
    /* If the sweep is over already, no worker is started. */
    step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    c->ticked_ms = uv_now(&c->loop);
    c->roster = (struct worker_roster){.own = c->opts->slots > 0,
                                       .nodes = c->opts->spec->need.nodes,
                                       .changed = true,
                                       .lonely_ms = c->ticked_ms};
    if (c->end_reason)
        local_worker_reattach(c->local);
    else if (c->opts->slots > 0)
        local_worker_start(c->local);
    if (c->remote && !c->end_reason)
        remote_workers_start(c->remote);
    finish_commands(c, d);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    if (c->error.code && e)
        *e = c->error;
    return c->error.code ? c->error.code : c->signal;
}
