#include "hpo/worker/worker.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/plural.h"
#include "common/stop_signals.h"
#include "common/wait_line.h"
#include "hpo/worker/foreign_gpu_processes.h"
#include "hpo/worker/lease.h"
#include "hpo/worker/leftovers.h"
#include "hpo/worker/run_result.h"
#include "hpo/worker/sched_batch.h"
#include "hpo/worker/self_test.h"
#include "hpo/worker/slots.h"
#include "hpo/worker/worker_state.h"
#include "launcher/engine/engine.h"

enum {
    TICK_MS = 250,
    RENEW_MS = 60000,   /* a used connection is renewed after one to two times this */
    GPU_SCAN_MS = 5000, /* between two scans for foreign GPU processes */
    REASON_MAX = 900,   /* bytes of the reason in WIRE_SLOTS */
    PAUSE_MS = 2000     /* without a tick: this process was stopped, or the machine slept */
};

struct worker {
    const struct worker_opts *opts;
    uv_loop_t loop;
    struct transport_client *client;
    struct launch_context *launcher;
    struct lease_context context;
    struct lease_list leases;
    struct self_test *test;
    enum worker_state state;
    enum worker_slots_state slots_state;
    struct resources need;               /* of a trial, since the slots are configured */
    struct slots *slots;                 /* NULL: unconfigured */
    struct foreign_gpu_processes *scans; /* NULL: no GPUs */
    uv_timer_t tick;
    struct stop_signals signals;
    struct trial_paths *paths; /* NULL until the first trial arrives */
    int64_t ticked_ms, pinged_ms;
    int64_t idle_since_ms; /* when the last lease ended */
    int64_t kill_ms;       /* when what still runs is killed; 0: no limit */
    struct wait_line wait; /* for the first answer of a coordinator */
    bool foreign;          /* the sweep of the leases is gone */
    struct err error;      /* the result; the first counts */
};

/* Between two pings: a worker with little patience asks more often. */
static int ping_ms(const struct worker *w)
{
    int sixth = w->opts->patience_ms / 6;
    return sixth < WIRE_PING_MAX_MS ? sixth : WIRE_PING_MAX_MS;
}

static int64_t now_ms(const struct worker *w)
{
    return (int64_t)uv_now(&w->loop);
}

/* Takes `data`; NULL: the kind of message has none. */
static void send_data(struct worker *w, enum wire_kind kind, json_t *data)
{
    int64_t instance = kind == WIRE_HELLO ? w->context.instance : 0;
    transport_client_send(w->client,
                          &(struct wire_msg){.kind = kind, .instance = instance, .data = data});
    json_decref(data);
}

static void send_kind(struct worker *w, enum wire_kind kind)
{
    send_data(w, kind, NULL);
}

static void ping(struct worker *w)
{
    send_kind(w, WIRE_PING);
    w->pinged_ms = now_ms(w);
}

static void notify(const struct worker *w, struct worker_notice n)
{
    if (w->opts->notice)
        w->opts->notice(w->opts->arg, &n);
}

/* ---- states --------------------------------------------------------------------------------- */

static void enter(struct worker *w, enum worker_state from);

/* Returns false if the event has no meaning in the present state. */
static bool apply(struct worker *w, enum worker_event ev)
{
    enum worker_state from = w->state;
    int next = states_step(&worker_states, from, ev, "worker");
    if (next < 0)
        return false;
    w->state = (enum worker_state)next;
    enter(w, from);
    return true;
}

static bool apply_slots(struct worker *w, enum worker_slots_event ev)
{
    int next = states_step(&worker_slots_states, w->slots_state, ev, "worker's slots");
    if (next >= 0)
        w->slots_state = (enum worker_slots_state)next;
    return next >= 0;
}

/* The worker ends with its last lease, and not in a self-test. */
static void check_done(struct worker *w)
{
    if (self_test_is_running(w->test))
        return;
    if (w->leases.count == 0)
        (void)apply(w, WORKER_EV_ALL_RELEASED);
    else if (lease_list_all_done(&w->leases))
        (void)apply(w, WORKER_EV_ALL_DONE);
}

/* The coordinator may already have sent a lease: the worker waits for the answer to a ping. */
static void enter_leaving_idle(struct worker *w)
{
    transport_client_pin(w->client);
    send_kind(w, WIRE_LEAVING);
    ping(w);
}

static void enter_finishing(struct worker *w)
{
    transport_client_pin(w->client);
    lease_list_preempt(&w->leases, true);
    check_done(w);
}

static void enter_stopping(struct worker *w)
{
    transport_client_pin(w->client);
    lease_list_preempt(&w->leases, false);
    check_done(w);
}

static void set_timed_out(struct worker *w)
{
    bool rejected = transport_client_was_rejected(w->client);
    err_set(&w->error, -ETIMEDOUT, "no coordinator was heard at %s for %d s%s",
            w->opts->client.endpoint, w->opts->patience_ms / 1000,
            transport_client_was_ever_open(w->client) ? ""
            : rejected                                ? "; the peer closes the connection"
                                                      : "; it was never reached");
    if (rejected)
        err_hint(&w->error, "copy the worker.key that is in the sweep's directory now");
}

static void enter_done(struct worker *w, enum worker_state from)
{
    if (w->error.code == 0 && from == WORKER_ABANDONED &&
        transport_client_silent_ms(w->client) >= w->opts->patience_ms)
        set_timed_out(w);
    uv_stop(&w->loop);
}

static void enter(struct worker *w, enum worker_state from)
{
    switch (w->state) {
    case WORKER_LEAVING_IDLE:
        enter_leaving_idle(w);
        break;
    case WORKER_FINISHING:
        enter_finishing(w);
        break;
    case WORKER_STOPPING:
    case WORKER_ABANDONED: /* does the same, and check_done() awaits less */
        enter_stopping(w);
        break;
    case WORKER_DONE:
        enter_done(w, from);
        break;
    default:
        break;
    }
}

/* The first error is the worker's result. */
static void fail(struct worker *w, enum worker_event ev, const struct err *e)
{
    if (w->error.code == 0)
        w->error = *e;
    send_kind(w, WIRE_LEAVING);
    (void)apply(w, ev);
}

/* ---- leases --------------------------------------------------------------------------------- */

/* How many trials may run here at once. */
static int usable(const struct worker *w)
{
    return w->slots_state == WORKER_SLOTS_OPEN && w->state == WORKER_SERVING && !w->foreign
               ? slots_usable(w->slots)
               : 0;
}

/* Gives the free slots to leases that wait for one. */
static void fill_slots(struct worker *w)
{
    struct lease *l;
    while (usable(w) > 0 && (l = lease_list_first_waiting(&w->leases))) {
        const struct node_slice *slice = slots_acquire(w->slots, l);
        if (!slice)
            return;
        if (l->run)
            notify(w,
                   (struct worker_notice){WORKER_NOTICE_STARTED, .trial = trial_run_trial(l->run)});
        lease_start(l, slice);
    }
}

static void on_send(void *arg, const struct wire_msg *m)
{
    struct worker *w = arg;
    transport_client_send(w->client, m);
}

/* `reason`: for people; NULL: none. */
static void send_slots(struct worker *w, const char *reason)
{
    send_data(w, WIRE_SLOTS, json_pack("{s:i,s:s*}", "slots", usable(w), "why", reason));
}

static void remove_lease(struct worker *w, struct lease *l)
{
    lease_list_remove(&w->leases, l);
    w->idle_since_ms = now_ms(w);
}

static void on_lease_done(void *arg)
{
    struct lease *l = arg;
    struct worker *w = l->list->context->arg;
    int before = usable(w);
    bool reserved = !l->run;
    bool started = w->slots && slots_release(w->slots, l, now_ms(w));
    if (reserved)
        remove_lease(w, l);
    else if (started)
        notify(w, (struct worker_notice){WORKER_NOTICE_ENDED, .trial = trial_run_trial(l->run),
                                         .result = trial_run_result(l->run)});
    /* WIRE_SLOTS is all that the coordinator hears of a reservation's end. After a trial run, a
     * foreign process may have the slot's GPUs: the coordinator must know before it fills it. */
    if (reserved || usable(w) != before)
        send_slots(w, NULL);
    fill_slots(w);
    if (w->state == WORKER_SERVING && lease_list_all_done(&w->leases) &&
        engine_has_ended(w->launcher->engine)) {
        struct err e = {0};
        err_set(&e, -EPIPE, "the guardian process was killed, and all trials with it");
        fail(w, WORKER_EV_FAILED, &e); /* another worker has a guardian */
    }
    check_done(w);
}

static void on_reserve(struct worker *w, int64_t id)
{
    if (lease_list_find(&w->leases, id))
        return;
    struct lease *l = lease_list_add_reservation(&w->leases, id);
    if (w->state != WORKER_SERVING)
        lease_preempt(l);
    fill_slots(w);
}

static void on_run(struct worker *w, const struct wire_msg *m)
{
    if (lease_list_find(&w->leases, m->lease))
        return;
    struct err e = {0};
    if (!w->paths && trial_paths_new(&w->paths, &w->opts->paths, m->data, &e) == 0 &&
        w->paths->moved)
        log_warn("the sweep's directory is not on this node: the files of trials stay in %s, and "
                 "their checkpoints are useful on this node only",
                 w->paths->sweep);
    w->context.paths = w->paths;
    struct lease *l = lease_list_add_run(&w->leases, m->lease, m->data);
    if (e.code < 0)
        fail(w, WORKER_EV_FAILED, &e);
    if (w->state != WORKER_SERVING)
        lease_preempt(l);
    fill_slots(w);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void on_scan(void *arg, const struct foreign_gpu_process *list, int count, int64_t asked_ms)
{
    struct worker *w = arg;
    bool first = w->slots_state == WORKER_SLOTS_PROBING;
    AUTO(free)
    char *change = count >= 0 ? slots_set_foreign(w->slots, list, count, asked_ms) : NULL;
    if (change)
        log_warn("%s", change);
    (void)apply_slots(w, WORKER_SLOTS_EV_SCANNED);
    if (change || first) {
        AUTO(free) char *shown = change ? run_result_utf8(change, REASON_MAX) : NULL;
        send_slots(w, shown);
    }
    fill_slots(w);
    for (struct lease *l;
         lease_list_demand(&w->leases) > usable(w) && (l = lease_list_first_waiting(&w->leases));)
        lease_preempt(l); /* a foreign process has its slot's GPUs now */
}

static void claim_cgroups(struct worker *w)
{
    struct err e = {0};
    if (lease_context_claim_cgroups(&w->context, &e) == 0)
        return;
    AUTO(free)
    char *reason = xasprintf("the memory of trials is not limited: %s; try: %s", e.text, e.hint);
    log_warn("%s", reason);
    send_slots(w, reason);
}

/* Divides the node into slots by what each trial needs. The requirements follow each hello; only
 * the first have an effect. */
static void on_requirements(struct worker *w, int64_t instance, const json_t *need)
{
    struct node_slice_opts slice = w->opts->slice;
    struct err e = {0};
    w->context.instance = instance;
    if (w->slots_state != WORKER_SLOTS_UNCONFIGURED)
        return;
    slice.need = w->need = resources_of(need);
    if (slots_new(&w->slots, w->launcher->topo, &slice, &e) < 0) {
        (void)apply_slots(w, WORKER_SLOTS_EV_UNFIT);
        fail(w, WORKER_EV_FAILED, &e);
        return;
    }
    notify(w, (struct worker_notice){WORKER_NOTICE_JOINED,
                                     .sweep = json_string_value(json_object_get(need, "sweep")),
                                     .slots = slots_usable(w->slots)});
    claim_cgroups(w);
    bool gpus = slots_have_gpus(w->slots);
    (void)apply_slots(w, gpus ? WORKER_SLOTS_EV_DIVIDED_GPUS : WORKER_SLOTS_EV_DIVIDED);
    if (gpus)
        w->scans = foreign_gpu_processes_open(&w->loop, GPU_SCAN_MS, on_scan, w);
    else
        send_slots(w, NULL);
}

/* ---- the self-test -------------------------------------------------------------------------- */

static void on_tested(void *arg, const char *cause)
{
    struct worker *w = arg;
    AUTO(free) char *why = cause ? run_result_utf8(cause, REASON_MAX) : NULL;
    send_data(w, WIRE_TESTED, json_pack("{s:s*}", "why", why));
    check_done(w);
}

static void on_test(struct worker *w)
{
    if (w->state == WORKER_SERVING && w->slots_state != WORKER_SLOTS_UNCONFIGURED)
        self_test_start(w->test);
}

/* ---- the coordinator ------------------------------------------------------------------------ */

static void on_opened(void *arg)
{
    struct worker *w = arg;
    const struct topo *t = w->launcher->topo;
    json_t *hello =
        json_pack("{s:s,s:i,s:o,s:i,s:i,s:i}", "node", topo_name(t), "slots", usable(w), "running",
                  lease_list_ids(&w->leases), "cpus", hwloc_bitmap_weight(topo_allowed(t)), "gpus",
                  topo_gpu_count(t), "ping_ms", ping_ms(w));
    send_data(w, WIRE_HELLO, hello);
    lease_list_resend(&w->leases);
}

/* Trials of a sweep that is gone could only damage the checkpoints of the new one. */
static void on_foreign(struct worker *w)
{
    w->foreign = true;
    transport_client_leave(w->client);
    lease_list_kill_all(&w->leases);
    if (w->state == WORKER_SERVING) /* one that ends does not begin anew */
        err_set(&w->error, -ESTALE, "the sweep at %s is another one now", w->opts->client.endpoint);
    (void)apply(w, WORKER_EV_REJECTED);
}

static void on_message(void *arg, const struct wire_msg *m)
{
    struct worker *w = arg;
    struct lease *l = m->lease ? lease_list_find(&w->leases, m->lease) : NULL;
    switch (m->kind) {
    case WIRE_REQUIREMENTS:
        on_requirements(w, m->instance, m->data);
        break;
    case WIRE_RUN:
        on_run(w, m);
        break;
    case WIRE_RESERVE:
        on_reserve(w, m->lease);
        break;
    case WIRE_JOIN_TICKET:
        if (l && l->reservation)
            reservation_join(l->reservation, m->data);
        break;
    case WIRE_STOP:
        if (l)
            lease_stop(l);
        break;
    case WIRE_KILL:
        if (l)
            lease_kill(l);
        break;
    case WIRE_ACK:
        if (l && l->run && trial_run_acknowledge(l->run, m->seq))
            remove_lease(w, l);
        check_done(w);
        break;
    case WIRE_TEST:
        on_test(w);
        break;
    case WIRE_DRAIN:
        (void)apply(w, WORKER_EV_DRAIN);
        break;
    case WIRE_PONG:
        (void)apply(w, w->leases.count == 0 ? WORKER_EV_PONG : WORKER_EV_PONG_LEASED);
        break;
    case WIRE_FOREIGN:
        on_foreign(w);
        break;
    default: /* messages of workers */
        break;
    }
}

static void on_rejected(void *arg, const struct err *e)
{
    fail(arg, WORKER_EV_REJECTED, e);
}

/* ---- time and signals ----------------------------------------------------------------------- */

static void check_kill_limit(struct worker *w)
{
    if (!w->kill_ms || now_ms(w) < w->kill_ms)
        return;
    w->kill_ms = 0;
    if (!apply(w, WORKER_EV_KILL_LIMIT))
        return;
    size_t n = w->leases.count;
    log_warn("killing %zu trial%s after %d s", n, plural_s(n), w->opts->grace_ms / 1000);
    lease_list_kill_all(&w->leases);
}

static void check_idle(struct worker *w)
{
    if (!w->opts->idle_ms || w->state != WORKER_SERVING || w->leases.count > 0 ||
        self_test_is_running(w->test) || now_ms(w) - w->idle_since_ms < w->opts->idle_ms)
        return;
    log_info("no trial for %d s: this worker leaves", w->opts->idle_ms / 1000);
    (void)apply(w, WORKER_EV_IDLE);
}

static void check_silence(struct worker *w)
{
    if (!transport_client_was_ever_open(w->client) && wait_line_due(&w->wait, now_ms(w)))
        notify(w, (struct worker_notice){.kind = WORKER_NOTICE_WAITING});
    int64_t silent_ms = transport_client_silent_ms(w->client);
    if (w->opts->is_removed && !w->foreign && silent_ms > ping_ms(w) &&
        w->opts->is_removed(w->opts->arg))
        on_foreign(w);
    if (states_next(&worker_states, w->state, WORKER_EV_SILENT) < 0 ||
        silent_ms < w->opts->patience_ms)
        return;
    size_t n = w->leases.count;
    log_error("no coordinator at %s for %d s: stopping %zu trial%s", w->opts->client.endpoint,
              w->opts->patience_ms / 1000, n, plural_s(n));
    (void)apply(w, WORKER_EV_SILENT);
}

static void on_tick(uv_timer_t *t)
{
    struct worker *w = t->data;
    int64_t now = now_ms(w);
    if (now - w->ticked_ms >= PAUSE_MS)
        transport_client_reset_deadline(w->client); /* messages that arrived are not read yet */
    w->ticked_ms = now;
    if (now - w->pinged_ms >= ping_ms(w))
        ping(w);
    check_kill_limit(w);
    check_idle(w);
    check_silence(w);
}

static void on_stop_request(void *arg, int number, bool again)
{
    struct worker *w = arg;
    enum worker_event ev = w->opts->finish ? WORKER_EV_SIGNAL_FINISH : WORKER_EV_SIGNAL;
    int next = states_next(&worker_states, w->state, ev);
    if (next < 0)
        return;
    if (w->foreign)
        w->error = (struct err){0};
    if (next == WORKER_ABANDONED) {
        lease_list_kill_all(&w->leases);
    } else if (next == WORKER_STOPPING) {
        log_warn("signal %d: trials are stopped and requeued", number);
        if (w->opts->grace_ms)
            w->kill_ms = now_ms(w) + w->opts->grace_ms;
    } else {
        size_t n = w->leases.count;
        log_warn("signal %d: waiting for %zu running trial%s; another signal stops %s", number, n,
                 plural_s(n), n == 1 ? "it" : "them");
    }
    if (w->state == WORKER_SERVING || (w->state == WORKER_LEAVING_IDLE && next == WORKER_STOPPING))
        send_kind(w, WIRE_LEAVING);
    (void)apply(w, ev);
}

/* ---- start and end -------------------------------------------------------------------------- */

static const struct transport_client_events client_events = {
    .opened = on_opened, .message = on_message, .rejected = on_rejected};

static int open_all(struct worker *w, struct guardian *g, struct err *e)
{
    uv_timer_init(&w->loop, &w->tick);
    w->tick.data = w;
    stop_signals_open(&w->signals, &w->loop, on_stop_request, w);
    struct transport_client_opts client = w->opts->client;
    client.renew_ms = RENEW_MS;
    client.beat_ms = ping_ms(w); /* a dead connection is noticed in half of the patience */
    int rc = launch_context_open(&w->launcher, &w->loop, g, e);
    if (rc == 0 && w->opts->check_node) /* before any thread starts */
        rc = w->opts->check_node(w->opts, w->launcher->topo, e);
    w->context = (struct lease_context){
        .loop = &w->loop, .launcher = w->launcher, .need = &w->need, .send = on_send, .arg = w};
    w->leases = (struct lease_list){.context = &w->context, .done = on_lease_done};
    w->test = self_test_new(&w->context, on_tested, w);
    if (rc == 0)
        rc = transport_client_open(&w->client, &w->loop, &client, &client_events, w, e);
    if (rc < 0)
        return rc;
    uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
    w->ticked_ms = w->idle_since_ms = now_ms(w);
    wait_line_begin(&w->wait, w->ticked_ms);
    return 0;
}

static void close_all(struct worker *w)
{
    transport_client_close(w->client);
    lease_list_clear(&w->leases);
    self_test_free(w->test);
    launch_context_close(w->launcher);
    trial_paths_free(w->paths);
    slots_free(w->slots);
    free(w->context.cgroups);
    foreign_gpu_processes_close(w->scans);
    uv_close((uv_handle_t *)&w->tick, NULL);
    stop_signals_close(&w->signals);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&w->loop); /* no handle is left on it */
}

int worker_run(const struct worker_opts *opts, struct guardian *g, struct err *e)
{
    sched_batch_begin(); /* trials keep the usual policy: the guardian has started already */
    (void)signal(SIGXFSZ, SIG_IGN); /* at the limit of a file's size, writes fail instead */
    struct worker *w = xzalloc(sizeof *w);
    w->opts = opts;
    int rc = uv_loop_init(&w->loop);
    if (rc < 0) {
        free(w);
        return err_set(e, rc, "loop: %s", uv_strerror(rc));
    }
    rc = open_all(w, g, e);
    if (rc == 0) {
        notify(w, (struct worker_notice){WORKER_NOTICE_OPENED, .loop = &w->loop});
        uv_run(&w->loop, UV_RUN_DEFAULT);
        notify(w, (struct worker_notice){.kind = WORKER_NOTICE_CLOSING});
        if (opts->leftovers && !w->foreign)
            leftovers_write(opts->leftovers, &w->leases);
        if (w->leases.count == 0)
            send_kind(w, WIRE_BYE);
        if (w->error.code < 0 && e)
            *e = w->error;
        rc = w->error.code;
    }
    close_all(w);
    free(w);
    return rc;
}
