#include "hpo/coordinator/coordinator_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/stop_signals.h"
#include "common/strbuf.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/store/command_mailbox.h"

enum {
    TICK_MS = 1000,
    COMMANDS_MS = 250, /* between two polls of the command mailbox: users await the answer */
    AWAIT_MS = 5000,   /* for the workers of an earlier coordinator, until the user is told */
    PAUSE_MS = 5000,   /* without a tick: this process was stopped, or the machine slept */
    RELEASE_MS = 10000 /* for all workers to leave when the sweep is over */
};

/* The wall clock's time at the start, or the store's last time if that is later, and counted on
 * from there. So setting the clock neither ends a timeout early nor delays the loss of a worker. */
static int64_t now_ms(const struct coordinator *c)
{
    return clock_ms_of(CLOCK_BOOTTIME) + c->offset_ms;
}

/* Stops here: otherwise the scheduler and the store would diverge. */
void coordinator_fail(void *arg, const struct err *e)
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
        coordinator_fail(c, &e);
    wire_msg_clear(&m);
}

/* Tells the user that a worker cannot run trials, or can again. */
static void show_health(struct coordinator *c, const char *worker)
{
    const struct peer *p = peer_table_find(transport_server_peers(c->server), worker);
    AUTO(json) json_t *fault = scheduler_worker_fault(c->sched, worker);
    AUTO(strbuf) struct strbuf b = {0};
    c->roster.changed = true;
    progress_text_fault(&b, worker, p ? p->node : "?", fault, now_ms(c));
    if (b.len > 0)
        c->ev->notice(c->arg, strbuf_str(&b));
}

/* For readers, which have no scheduler: the sweep is over for the reason `ended`, or is left for
 * the reason `left`; the other one is "". */
static int store_end(struct coordinator *c, const char *ended, const char *left, struct err *e)
{
    int rc = event_store_put(c->opts->dir->store, SWEEP_DIR_META_ENDED, ended, e);
    return rc < 0 ? rc : event_store_put(c->opts->dir->store, SWEEP_DIR_META_LEFT, left, e);
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
            coordinator_fail(c, &failed);
            return 0;
        }
        commit_batch_record(&c->batch, r);
        if (r->kind == SCHEDULER_REC_LEASED)
            message_dedup_lease(&c->dedup, r->lease);
    }
    for (size_t i = 0; i < c->out.action_count; i++) {
        const struct scheduler_action *a = &c->out.actions[i];
        if (a->kind == SCHEDULER_ACT_END) {
            free(c->end_reason);
            c->end_reason = xstrdup(a->reason ? a->reason : "");
            bool lacks = scheduler_lacks_workers(c->sched);
            const char *left = lacks ? stop_reason_text(STOP_REASON_NO_WORKER) : "";
            struct err failed = {0};
            if (!c->signal && store_end(c, lacks ? "" : c->end_reason, left, &failed) < 0)
                coordinator_fail(c, &failed);
        } else if (a->kind == SCHEDULER_ACT_HEALTH) {
            show_health(c, a->worker);
        } else if (a->kind == SCHEDULER_ACT_NOTICE) {
            c->ev->notice(c->arg, a->reason);
        } else {
            commit_batch_add_action(&c->batch, a);
        }
    }
    return 0;
}

static void on_deadline(uv_timer_t *t);
static void on_release_late(uv_timer_t *t);

/* The sweep is over: workers are told to end. */
static void release(struct coordinator *c)
{
    c->phase = COORDINATOR_RELEASES;
    uv_timer_start(&c->release, on_release_late, RELEASE_MS, 0);
    transport_server_broadcast(c->server, WIRE_DRAIN);
    c->releasing = 1 + (c->remote != NULL);
    local_worker_release(c->local);
    if (c->remote)
        remote_workers_release(c->remote);
}

void coordinator_stop_if_alone(struct coordinator *c)
{
    bool alone =
        c->phase == COORDINATOR_LATE || worker_roster_count(transport_server_peers(c->server)) == 0;
    if (c->phase != COORDINATOR_SERVES && c->releasing == 0 && alone)
        uv_stop(&c->loop);
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
        coordinator_fail(c, &e);
    const struct commit_batch *b = &c->batch;
    for (size_t i = 0; c->error.code == 0 && i < b->effect_count; i++)
        perform(c, &b->effects[i]);
    c->totals.commits += b->record_count > 0;
    for (size_t i = 0; c->error.code == 0 && i < b->record_count; i++)
        c->ev->stored(c->arg, c->sched, b->records[i].kind, b->records[i].trial);
    commit_batch_clear(&c->batch);
    if (c->error.code)
        return;
    c->ev->changed(c->arg, c->sched);
    set_deadline(c);
    if (c->end_reason && c->phase == COORDINATOR_SERVES)
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
        coordinator_fail(c, &e);
}

/* Handles an event like handle_event(), after a prefetch that is due. */
static int apply_event(struct coordinator *c, const struct scheduler_event *ev, int64_t seq,
                       struct err *e)
{
    if (ev->kind != SCHEDULER_EV_DRAIN)
        prefetch(c);
    return handle_event(c, ev, seq, e);
}

void coordinator_step(struct coordinator *c, const struct scheduler_event *ev, int64_t seq)
{
    struct err e = {0};
    if (apply_event(c, ev, seq, &e) < 0)
        log_warn("worker %s: %s", ev->worker ? ev->worker : "-", e.text);
}

void coordinator_finish_batch(struct coordinator *c)
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
    coordinator_step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    coordinator_finish_batch(c);
}

void coordinator_on_gathered(uv_timer_t *t)
{
    coordinator_finish_batch(t->data);
}

static void on_release_late(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    c->phase = COORDINATOR_LATE;
    coordinator_stop_if_alone(c);
    if (c->releasing == 0)
        return;
    log_warn("killing a worker that was started here: it did not exit within %d s",
             RELEASE_MS / 1000);
    kill_workers(c);
}

static const struct transport_server_events server_events = {.message = coordinator_on_message,
                                                             .batch_end = coordinator_on_batch_end};

/* ---- time, commands and signals ------------------------------------------------------------- */

/* Says once what this coordinator waits for, if an earlier one has left workers. */
static void show_awaited(struct coordinator *c, uint64_t now)
{
    AUTO(free) char *process = local_worker_take_notice(c->local);
    if (process)
        c->ev->notice(c->arg, process);
    if (c->await_shown || now - c->started_ms < AWAIT_MS)
        return;
    c->await_shown = true;
    AUTO(json) json_t *workers = scheduler_awaited(c->sched);
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_awaited(&b, workers, now_ms(c));
    if (b.len > 0)
        c->ev->notice(c->arg, strbuf_str(&b));
}

/* Tells the scheduler if workers that this coordinator has started have not connected yet. */
static void expect_workers(struct coordinator *c)
{
    bool expected =
        local_worker_is_awaited(c->local) ||
        (c->remote && remote_workers_are_awaited(c->remote, transport_server_peers(c->server)));
    if (scheduler_expect_workers(c->sched, expected))
        coordinator_step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
}

static void on_tick(uv_timer_t *t)
{
    struct coordinator *c = t->data;
    uint64_t now = uv_now(&c->loop);
    struct err lost = {0};
    if (sweep_dir_beat(c->opts->dir, &lost) < 0) {
        coordinator_fail(c, &lost);
        return;
    }
    /* Neither a drain nor the end waits for a worker that has missed three pings. */
    bool ends = c->signal || c->phase != COORDINATOR_SERVES;
    int64_t lost_after = ends ? 0 : c->opts->spec->lost_after_ms;
    if (now - c->ticked_ms >= PAUSE_MS)
        transport_server_reset_deadlines(c->server); /* messages that arrived are not read yet */
    c->ticked_ms = now;
    size_t from = 0;
    for (const char *id; (id = transport_server_silent(c->server, lost_after, &from));) {
        log_warn("worker %s is silent: it counts as lost", id);
        coordinator_lose(c, id);
    }
    expect_workers(c);
    show_awaited(c, now);
    worker_roster_tick(&c->roster, transport_server_peers(c->server), c->opts->dir, now);
    coordinator_finish_batch(c);
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
        if (sweep_dir_check_command(c->opts->dir, ev.data, &e) == 0)
            (void)apply_event(c, &ev, 0, &e); /* the reply carries the error */
        else
            log_warn("%s", e.text);
        command_mailbox_set_reply(d, i, &e, c->sched, &c->out);
    }
    return d;
}

static void finish_commands(struct coordinator *c, struct command_mailbox *d)
{
    coordinator_finish_batch(c);
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

/* `reason`: why readers say that the sweep is stopped. */
static void interrupt(struct coordinator *c, int number, bool again, const char *reason)
{
    struct err e = {0};
    if (!c->signal && !c->end_reason && store_end(c, "", reason, &e) < 0)
        coordinator_fail(c, &e);
    c->ev->interrupted(c->arg, again);
    c->signal = number;
    if (again) {
        kill_workers(c);
        coordinator_finish_batch(c);                       /* also commits the waiting reports */
        transport_server_broadcast(c->server, WIRE_DRAIN); /* the workers stop their trials */
        uv_stop(&c->loop);
        return;
    }
    coordinator_step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_DRAIN}, 0);
    coordinator_finish_batch(c);
}

static void on_stop_request(void *arg, int number, bool again)
{
    AUTO(free) char *reason = xasprintf("SIG%s stopped its coordinator", sigabbrev_np(number));
    interrupt(arg, number, again, reason);
}

void coordinator_interrupt(struct coordinator *c, const char *reason)
{
    if (!c->signal && !c->end_reason)
        interrupt(c, SIGTERM, false, reason);
}

static void on_local_exited(void *arg, const char *id)
{
    struct coordinator *c = arg;
    coordinator_read_leftovers(c, id);
    coordinator_lose(c, id);
    coordinator_finish_batch(c);
}

static void on_released(void *arg)
{
    struct coordinator *c = arg;
    c->releasing--;
    coordinator_stop_if_alone(c);
}

/* The sweep continues if there are other workers. */
static void on_local_failed(void *arg, const struct err *e)
{
    struct coordinator *c = arg;
    AUTO(free) char *text = xasprintf("%s; the sweep continues with other workers", e->text);
    c->local_failed = true;
    if (c->remote || worker_roster_count(transport_server_peers(c->server)) > 0)
        c->ev->notice(c->arg, text);
    else
        coordinator_fail(c, e);
}

static const struct local_worker_events local_events = {
    .exited = on_local_exited, .failed = on_local_failed, .released = on_released};

/* ---- the workers on other nodes ------------------------------------------------------------- */

static void on_remote_exited(void *arg, const char *id)
{
    coordinator_lose(arg, id);
    coordinator_finish_batch(arg);
}

/* The sweep continues with workers that have joined by themselves. */
static void on_remote_failed(void *arg, const struct err *e)
{
    struct coordinator *c = arg;
    bool own = c->opts->slots > 0 && !c->local_failed;
    if (!own && worker_roster_count(transport_server_peers(c->server)) == 0)
        coordinator_fail(c, e);
}

static const struct remote_workers_events remote_events = {
    .exited = on_remote_exited, .failed = on_remote_failed, .released = on_released};

/* ---- life ----------------------------------------------------------------------------------- */

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    struct coordinator *c = arg;
    int64_t now = now_ms(c);
    if (sweep_dir_beat(c->opts->dir, e) < 0) /* a long replay */
        return e->code;
    if (r->at_ms > now)
        c->offset_ms += r->at_ms - now;
    int rc = scheduler_replay(c->sched, r, e);
    if (rc == 0 && r->lease > 0) /* now the lease is known to exist */
        message_dedup_replay(&c->dedup, r->lease, msg);
    return rc;
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
    /* The first commit stores it. No loop exists yet that coordinator_fail() could stop. */
    return store_end(c, "", "its coordinator failed or was killed", e);
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
    c->lock = sweep_dir_host_file(opts->dir, "lock");
    c->leftovers = sweep_dir_host_file(opts->dir, "left");
    c->log = sweep_dir_host_file(opts->dir, "log");
    int rc = sweep_dir_endpoint(&c->endpoint, opts->dir, e);
    c->local_opts = (struct local_worker_opts){c->endpoint, c->lock,     c->leftovers,
                                               c->log,      opts->slots, opts->worker_args};
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
    message_dedup_clear(&c->dedup);
    commit_batch_free(&c->batch);
    free(c);
}

struct coordinator_view coordinator_view(struct coordinator *c)
{
    return (struct coordinator_view){&c->loop, c->sched, transport_server_peers(c->server),
                                     &c->totals, c->tcp_endpoint};
}

const char *coordinator_end_reason(const struct coordinator *c)
{
    return c->end_reason;
}

static void set_lacks_workers(struct coordinator *c)
{
    const struct sweep_dir *d = c->opts->dir;
    AUTO(free) char *resume = sweep_dir_command("drover sweep resume", d->root, d->name);
    err_set(&c->error, -ENODEV, "%s", c->end_reason);
    err_hint(&c->error, "correct the cause, then continue: %s", resume);
}

int coordinator_run(struct coordinator *c, const struct coordinator_events *ev, void *arg,
                    struct err *e)
{
    c->ev = ev;
    c->arg = arg;
    struct command_mailbox *d = read_commands(c);
    /* If the sweep is over already, no worker is started. */
    coordinator_step(c, &(struct scheduler_event){.kind = SCHEDULER_EV_TICK}, 0);
    c->started_ms = c->ticked_ms = uv_now(&c->loop);
    c->roster = (struct worker_roster){.own = c->opts->slots > 0,
                                       .nodes = c->opts->spec->need.nodes,
                                       .sched = c->sched,
                                       .changed = true,
                                       .lonely_ms = c->ticked_ms};
    if (c->end_reason)
        local_worker_reattach(c->local);
    else if (c->opts->slots > 0)
        local_worker_start(c->local);
    if (c->remote && !c->end_reason)
        remote_workers_start(c->remote);
    expect_workers(c);
    finish_commands(c, d);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    if (scheduler_lacks_workers(c->sched) && c->error.code == 0 && c->signal == 0)
        set_lacks_workers(c);
    if (c->error.code && e)
        *e = c->error;
    return c->error.code ? c->error.code : c->signal;
}
