#include "hpo/worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/own_process.h"
#include "common/sched_batch.h"
#include "hpo/transport/transport_client.h"
#include "hpo/worker/foreign_gpu_processes.h"
#include "hpo/worker/run_result.h"
#include "hpo/worker/slots.h"
#include "hpo/worker/trial_run.h"
#include "launcher/node/cgroup_delegate.h"

enum {
    TICK_MS = 250,
    RENEW_MS = 60000, /* of a connection that is in use: after this to twice this (link.h) */
    GPUS_MS = 5000,   /* between two looks at who uses the GPUs */
    WHY_MAX = 900,    /* bytes of what is told with places */
    STOPPED_MS = 2000 /* without a tick: we were stopped, or the machine slept */
};

struct worker {
    const struct worker_config *config;
    uv_loop_t loop;
    struct transport_client *link;
    struct launch_context *launcher;
    struct trial_run_host host;
    struct resources need;       /* of a trial, with `places` */
    char *prefix;                /* where drover lies; NULL: unknown */
    char *cgroups;               /* where trials get control groups; NULL: nowhere */
    struct places *places;       /* NULL until the coordinator has said what a trial needs */
    struct strangers *strangers; /* NULL: no GPUs */
    bool accepting;              /* `places` may be given away: who uses the GPUs is known */
    struct trial_run **leases;   /* in the order in which they came */
    size_t lease_count;
    uv_timer_t tick;
    uv_signal_t signals[3];
    struct trial_paths *site; /* NULL until the first trial comes */
    int64_t ticked_ms, pinged_ms;
    int64_t idle_ms; /* since when it holds no lease */
    int64_t kill_ms; /* when what still runs is killed; 0: not */
    bool ending;     /* takes nothing new and ends with its last lease */
    bool stopping;   /* what ran was told to stop */
    bool leaving;    /* ends once the coordinator has answered: nothing is under way to us then */
    bool coordinator_lost; /* nobody acknowledges any more */
    struct err error;
};

/* Between two pings; an impatient worker asks more often. */
static int ping_ms(const struct worker *w)
{
    int sixth = w->config->patience_ms / 6;
    return sixth < WIRE_PING_MAX_MS ? sixth : WIRE_PING_MAX_MS;
}

/* ---- leases --------------------------------------------------------------------------------- */

static struct trial_run *find(const struct worker *w, int64_t id)
{
    for (size_t i = 0; i < w->lease_count; i++)
        if (trial_run_id(w->leases[i]) == id)
            return w->leases[i];
    return NULL;
}

static void forget(struct worker *w, struct trial_run *l)
{
    size_t i = 0;
    while (w->leases[i] != l)
        i++;
    memmove(&w->leases[i], &w->leases[i + 1], (--w->lease_count - i) * sizeof *w->leases);
    trial_run_free(l);
    w->idle_ms = (int64_t)uv_now(&w->loop);
}

static void stop_if_done(struct worker *w)
{
    if (!w->ending || w->leaving)
        return;
    for (size_t i = 0; i < w->lease_count; i++)
        if (!w->coordinator_lost || !trial_run_is_done(w->leases[i]))
            return;
    uv_stop(&w->loop);
}

/* The first that waits for a place; NULL: none. */
static struct trial_run *next_waiting(const struct worker *w)
{
    for (size_t i = 0; i < w->lease_count; i++)
        if (!trial_run_is_started(w->leases[i]))
            return w->leases[i];
    return NULL;
}

/* Gives the free places to those that wait. */
static void fill_places(struct worker *w)
{
    struct trial_run *l;
    while (w->accepting && !w->ending && (l = next_waiting(w))) {
        const struct node_slice *place = slots_acquire(w->places, l);
        if (!place)
            return;
        trial_run_start(l, place);
    }
}

static void on_say(void *arg, const struct wire_msg *m)
{
    struct worker *w = arg;
    transport_client_send(w->link, m);
}

static int usable(const struct worker *w)
{
    return w->accepting && !w->ending ? slots_usable(w->places) : 0;
}

/* `why`: for people; NULL: nothing is to be told. */
static void say_places(struct worker *w, const char *why)
{
    struct wire_msg m = {.kind = WIRE_SLOTS,
                         .data = json_pack("{s:i,s:s*}", "slots", usable(w), "why", why)};
    transport_client_send(w->link, &m);
    wire_msg_clear(&m);
}

static void on_over(void *arg, struct trial_run *l)
{
    struct worker *w = arg;
    int before = usable(w);
    bool held = trial_run_is_reservation(l);
    if (w->places)
        slots_release(w->places, l, (int64_t)uv_now(&w->loop));
    if (held)
        forget(w, l);
    /* That its place is free is all that is heard of one that was held. */
    if (held ||
        usable(w) != before) /* a stranger has its GPUs: before the coordinator fills the place */
        say_places(w, NULL);
    fill_places(w);
    stop_if_done(w);
}

/* Takes nothing new. What is said from now on may be the last. */
static void begin_end(struct worker *w)
{
    w->ending = true;
    transport_client_pin(w->link);
}

/* Ends all that runs, as no fault of the trials. */
static void end_all(struct worker *w)
{
    begin_end(w);
    w->stopping = true;
    w->leaving = false;
    for (size_t i = w->lease_count; i-- > 0;)
        trial_run_stop(w->leases[i], true);
    stop_if_done(w);
}

/* No trial can run here: those that were given go back. */
static void fail(struct worker *w, const struct err *e)
{
    if (w->error.code == 0)
        w->error = *e;
    transport_client_send(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
    end_all(w);
}

static struct trial_run *add(struct worker *w, int64_t id, json_t *run)
{
    w->leases = xrealloc(w->leases, w->lease_count + 1, sizeof *w->leases);
    return w->leases[w->lease_count++] = trial_run_new(&w->host, id, run);
}

static void hold(struct worker *w, int64_t id)
{
    if (find(w, id))
        return;
    struct trial_run *l = add(w, id, NULL);
    if (w->ending)
        trial_run_stop(l, true);
    fill_places(w);
}

static void run(struct worker *w, const struct wire_msg *m)
{
    if (find(w, m->lease))
        return;
    struct err e = {0};
    if (!w->site && trial_paths_new(&w->site, &w->config->site, m->data, &e) == 0 &&
        trial_paths_dir(w->site))
        log_warn("the sweep's directory is not on this node: what trials write stays in %s, and "
                 "their checkpoints are of use to this node only",
                 trial_paths_dir(w->site));
    w->host.site = w->site;
    struct trial_run *l = add(w, m->lease, m->data);
    if (e.code < 0)
        fail(w, &e);
    else if (w->ending)
        trial_run_stop(l, true);
    fill_places(w);
}

/* ---- places --------------------------------------------------------------------------------- */

/* Leases that have, or want, a place for longer. */
static int unstopped(const struct worker *w)
{
    int n = 0;
    for (size_t i = 0; i < w->lease_count; i++)
        n += !trial_run_is_stopping(w->leases[i]) && !trial_run_is_done(w->leases[i]);
    return n;
}

static void on_strangers(void *arg, const struct foreign_gpu_process *list, int count,
                         int64_t asked_ms)
{
    struct worker *w = arg;
    AUTO(free) char *why = NULL;
    if (count >= 0)
        why = slots_set_foreign(w->places, list, count, asked_ms);
    if (why)
        log_warn("%s", why);
    if (why || !w->accepting) {
        AUTO(free) char *shown = why ? run_result_utf8(why, WHY_MAX) : NULL;
        w->accepting = true;
        say_places(w, shown);
    }
    fill_places(w);
    for (struct trial_run *l; unstopped(w) > usable(w) && (l = next_waiting(w));)
        trial_run_stop(l, true); /* its place is a stranger's now */
}

/* The coordinator that started us may be in our control group. */
static bool may_move(pid_t pid)
{
    AUTO(free) char *exe = xasprintf("/proc/%d/exe", (int)pid);
    char its[4096] = "", ours[4096] = "?";
    if (pid != getppid())
        return foreign_gpu_processes_is_drover(pid);
    return readlink(exe, its, sizeof its - 1) > 0 &&
           readlink("/proc/self/exe", ours, sizeof ours - 1) > 0 && strcmp(its, ours) == 0;
}

/* Limits for trials that ask for some. Where there are none the kernel's count of kills tells what
 * memory was the end of. */
static void claim_cgroups(struct worker *w)
{
    struct err e = {0};
    if (w->need.memory_bytes == 0 && w->need.cpus == 0)
        return;
    int rc = cgroup_delegate_claim(&w->cgroups, "", may_move, &e);
    w->host.cgroups = w->cgroups;
    if (rc == 0 || w->need.memory_bytes == 0)
        return;
    AUTO(free)
    char *why = xasprintf("trials are not held to their memory: %s; try: %s", e.text, e.hint);
    log_warn("%s", why);
    say_places(w, why);
}

/* What each trial needs, and so how many run here at once; later hellos say it themselves. */
static void configure_slots(struct worker *w, const json_t *need)
{
    struct node_slice_opts want = w->config->want;
    struct err e = {0};
    if (w->places)
        return;
    want.need = w->need = resources_of(need);
    if (slots_new(&w->places, launch_context_topo(w->launcher), &want, &e) < 0) {
        fail(w, &e);
        return;
    }
    claim_cgroups(w);
    w->accepting = !slots_have_gpus(w->places);
    if (w->accepting)
        say_places(w, NULL);
    else
        w->strangers = foreign_gpu_processes_open(&w->loop, GPUS_MS, on_strangers, w);
}

/* ---- the coordinator ------------------------------------------------------------------------ */

static json_t *hello_data(const struct worker *w)
{
    const struct topo *t = launch_context_topo(w->launcher);
    json_t *running = json_array();
    for (size_t i = 0; i < w->lease_count; i++)
        json_array_append_new(running, json_integer(trial_run_id(w->leases[i])));
    return json_pack("{s:s,s:i,s:o,s:i,s:i,s:i}", "node", topo_name(t), "slots", usable(w),
                     "running", running, "cpus", hwloc_bitmap_weight(topo_allowed(t)), "gpus",
                     topo_gpu_count(t), "ping_ms", ping_ms(w));
}

static void on_opened(void *arg)
{
    struct worker *w = arg;
    struct wire_msg hello = {.kind = WIRE_HELLO, .data = hello_data(w)};
    transport_client_send(w->link, &hello);
    wire_msg_clear(&hello);
    for (size_t i = 0; i < w->lease_count; i++) {
        outbox_each_sent(trial_run_outbox(w->leases[i]), on_say, w);
        trial_run_resend(w->leases[i]);
    }
}

static void on_heard(void *arg, const struct wire_msg *m)
{
    struct worker *w = arg;
    struct trial_run *l = m->lease ? find(w, m->lease) : NULL;
    switch (m->kind) {
    case WIRE_REQUIREMENTS:
        configure_slots(w, m->data);
        break;
    case WIRE_RUN:
        run(w, m);
        break;
    case WIRE_RESERVE:
        hold(w, m->lease);
        break;
    case WIRE_JOIN_TICKET:
        if (l)
            trial_run_join(l, m->data);
        break;
    case WIRE_STOP:
        if (l)
            trial_run_stop(l, false);
        break;
    case WIRE_KILL:
        if (l && !trial_run_is_reservation(l))
            trial_run_stop(l, false); /* so it is known why it ends */
        if (l)                        /* a place that is held is gone then */
            trial_run_kill(l);
        break;
    case WIRE_ACK:
        if (l && trial_run_acknowledge(l, m->seq))
            forget(w, l);
        stop_if_done(w);
        break;
    case WIRE_DRAIN:
        end_all(w);
        break;
    case WIRE_PONG:
        w->leaving = false;
        stop_if_done(w);
        break;
    default: /* what a worker says */
        break;
    }
}

static void on_refused(void *arg, const struct err *e)
{
    struct worker *w = arg;
    w->coordinator_lost = true;
    fail(w, e);
}

static void ping(struct worker *w)
{
    transport_client_send(w->link, &(struct wire_msg){.kind = WIRE_PING});
    w->pinged_ms = (int64_t)uv_now(&w->loop);
}

static void kill_all(struct worker *w)
{
    for (size_t i = w->lease_count; i-- > 0;)
        trial_run_kill(w->leases[i]);
}

/* Has had nothing to do for too long. */
static void leave_idle(struct worker *w)
{
    log_info("no trial for %d s: this worker leaves", w->config->idle_ms / 1000);
    begin_end(w);
    w->leaving = true;
    transport_client_send(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
    ping(w);
}

static void on_tick(uv_timer_t *t)
{
    struct worker *w = t->data;
    int64_t now = (int64_t)uv_now(&w->loop);
    const struct worker_config *c = w->config;
    if (now - w->ticked_ms >= STOPPED_MS)
        transport_client_reset_deadline(w->link); /* what was said meanwhile is not read yet */
    w->ticked_ms = now;
    if (now - w->pinged_ms >= ping_ms(w))
        ping(w);
    if (w->kill_ms && now >= w->kill_ms) {
        w->kill_ms = 0;
        log_warn("%zu trials did not end in %d s: they are killed", w->lease_count,
                 c->grace_ms / 1000);
        kill_all(w);
    }
    if (c->idle_ms && !w->ending && w->lease_count == 0 && now - w->idle_ms >= c->idle_ms)
        leave_idle(w);
    if (!w->coordinator_lost && transport_client_silent_ms(w->link) >= c->patience_ms) {
        w->coordinator_lost = true;
        log_error("no coordinator at %s for %d s: %zu trials are stopped", c->to.endpoint,
                  c->patience_ms / 1000, w->lease_count);
        end_all(w);
    }
}

/* Takes nothing new; what waits for a place goes back, what runs may come to its end. */
static void finish_all(struct worker *w)
{
    log_warn("%zu trials may come to their end; once more stops them", w->lease_count);
    begin_end(w);
    for (size_t i = w->lease_count; i-- > 0;)
        if (!trial_run_is_started(w->leases[i]))
            trial_run_stop(w->leases[i], true);
    stop_if_done(w);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct worker *w = s->data;
    bool first = !w->ending || w->leaving;
    if (w->stopping) {
        kill_all(w);
        w->coordinator_lost = true; /* waits for no acknowledgement */
        stop_if_done(w);
        return;
    }
    if (first)
        transport_client_send(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
    if (first && w->config->finish) {
        finish_all(w);
        return;
    }
    log_warn("signal %d: trials are stopped and go back to the queue", number);
    if (w->config->grace_ms)
        w->kill_ms = (int64_t)uv_now(&w->loop) + w->config->grace_ms;
    end_all(w);
}

/* ---- what could not be said ----------------------------------------------------------------- */

static void write_line(void *arg, const struct wire_msg *m)
{
    struct wire_msg said = *m;
    said.conn = 1;
    struct err e = {0};
    AUTO(strbuf) struct strbuf b = {0};
    if (wire_encode(&b, &said, &e) < 0)
        log_error("%s", e.text);
    else
        fprintf(arg, "%s\n", strbuf_str(&b));
}

static void write_leftovers(const struct worker *w)
{
    if (!w->config->left || w->lease_count == 0)
        return;
    AUTO(free) char *tmp = xasprintf("%s.tmp", w->config->left);
    AUTO(file) FILE *f = fopen(tmp, "we");
    if (f) {
        for (size_t i = 0; i < w->lease_count; i++)
            outbox_each(trial_run_outbox(w->leases[i]), write_line, f);
    }
    if (!f || fflush(f) != 0 || fsync(fileno(f)) < 0 || rename(tmp, w->config->left) < 0)
        log_error("%s: %s: what trials reported last is lost", tmp, strerror(errno));
}

/* ---- life ----------------------------------------------------------------------------------- */

static const struct transport_client_events link_events = {
    .opened = on_opened, .heard = on_heard, .refused = on_refused};

static int open_all(struct worker *w, struct guardian *g, struct err *e)
{
    static const int numbers[COUNT_OF(w->signals)] = {SIGTERM, SIGINT, SIGHUP};
    uv_timer_init(&w->loop, &w->tick);
    w->tick.data = w;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uv_signal_init(&w->loop, &w->signals[i]);
        w->signals[i].data = w;
    }
    struct transport_client_opts to = w->config->to;
    to.renew_ms = RENEW_MS;
    to.beat_ms = ping_ms(w); /* a dead connection is noticed in half of the patience */
    int rc = launch_context_open(&w->launcher, &w->loop, g, e);
    (void)own_process_dir_above(&w->prefix, 3, NULL); /* else no module of ours is found */
    w->host = (struct trial_run_host){.loop = &w->loop,
                                      .launcher = w->launcher,
                                      .need = &w->need,
                                      .prefix = w->prefix,
                                      .say = on_say,
                                      .over = on_over,
                                      .arg = w};
    if (rc == 0)
        rc = transport_client_open(&w->link, &w->loop, &to, &link_events, w, e);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        uv_signal_start(&w->signals[i], on_signal, numbers[i]);
    uv_timer_start(&w->tick, on_tick, TICK_MS, TICK_MS);
    w->ticked_ms = w->idle_ms = (int64_t)uv_now(&w->loop);
    return 0;
}

static void close_all(struct worker *w)
{
    transport_client_close(w->link);
    while (w->lease_count > 0)
        forget(w, w->leases[0]);
    free(w->leases);
    launch_context_close(w->launcher);
    trial_paths_free(w->site);
    slots_free(w->places);
    free(w->prefix);
    free(w->cgroups);
    foreign_gpu_processes_close(w->strangers);
    uv_close((uv_handle_t *)&w->tick, NULL);
    for (size_t i = 0; i < COUNT_OF(w->signals); i++)
        uv_close((uv_handle_t *)&w->signals[i], NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&w->loop); /* nothing is left on it */
}

static int how_it_ended(const struct worker *w, struct err *e)
{
    if (w->error.code < 0) {
        if (e)
            *e = w->error;
        return w->error.code;
    }
    if (!w->coordinator_lost || transport_client_silent_ms(w->link) < w->config->patience_ms)
        return 0;
    err_set(e, -ETIMEDOUT, "no coordinator was heard at %s for %d s%s", w->config->to.endpoint,
            w->config->patience_ms / 1000,
            transport_client_was_ever_open(w->link)  ? ""
            : transport_client_was_rejected(w->link) ? "; who is there hangs up"
                                                     : "; it was never reached");
    return transport_client_was_rejected(w->link)
               ? err_hint(e, "take the worker.key that lies in the sweep's directory now")
               : -ETIMEDOUT;
}

int worker_run(const struct worker_config *c, struct guardian *g, struct err *e)
{
    sched_batch_begin(); /* the guardian is there: trials have the usual policy */
    struct worker *w = xzalloc(sizeof *w);
    w->config = c;
    int rc = uv_loop_init(&w->loop);
    if (rc < 0) {
        free(w);
        return err_set(e, rc, "loop: %s", uv_strerror(rc));
    }
    rc = open_all(w, g, e);
    if (rc == 0) {
        uv_run(&w->loop, UV_RUN_DEFAULT);
        write_leftovers(w);
        if (w->lease_count == 0)
            transport_client_send(w->link, &(struct wire_msg){.kind = WIRE_BYE});
        rc = how_it_ended(w, e);
    }
    close_all(w);
    free(w);
    return rc;
}
