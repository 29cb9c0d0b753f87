#include "hpo/sweep/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "hpo/sweep/lease.h"
#include "hpo/sweep/link.h"

enum {
    TICK_MS = 250,
    STOPPED_MS = 2000 /* without a tick: we were stopped, or the machine slept */
};

struct place {
    const struct share *share;
    struct lease *lease; /* NULL: free */
};

struct worker {
    const struct worker_config *config;
    uv_loop_t loop;
    struct link *link;
    struct launcher *launcher;
    struct lease_host host;
    struct share *shares;
    struct place *places;
    int place_count;
    struct lease **leases; /* in the order in which they came */
    size_t lease_count;
    uv_timer_t tick;
    uv_signal_t signals[3];
    struct site *site; /* NULL until the first trial comes */
    int64_t ticked_ms, pinged_ms;
    int64_t idle_ms; /* since when it holds no lease */
    int64_t kill_ms; /* when what still runs is killed; 0: not */
    bool ending;     /* takes nothing new and ends with its last lease */
    bool stopping;   /* what ran was told to stop */
    bool parting;    /* ends once the coordinator has answered: nothing is under way to us then */
    bool forsaken;   /* nobody acknowledges any more */
    struct err error;
};

/* Between two pings; an impatient worker asks more often. */
static int ping_ms(const struct worker *w)
{
    int sixth = w->config->patience_ms / 6;
    return sixth < WIRE_PING_MAX_MS ? sixth : WIRE_PING_MAX_MS;
}

/* ---- leases --------------------------------------------------------------------------------- */

static struct lease *find(const struct worker *w, int64_t id)
{
    for (size_t i = 0; i < w->lease_count; i++)
        if (lease_id(w->leases[i]) == id)
            return w->leases[i];
    return NULL;
}

static void forget(struct worker *w, struct lease *l)
{
    size_t i = 0;
    while (w->leases[i] != l)
        i++;
    memmove(&w->leases[i], &w->leases[i + 1], (--w->lease_count - i) * sizeof *w->leases);
    lease_free(l);
    w->idle_ms = (int64_t)uv_now(&w->loop);
}

static void stop_if_done(struct worker *w)
{
    if (!w->ending || w->parting)
        return;
    for (size_t i = 0; i < w->lease_count; i++)
        if (!w->forsaken || !lease_over(w->leases[i]))
            return;
    uv_stop(&w->loop);
}

/* Gives the free places to those that wait. */
static void fill_places(struct worker *w)
{
    for (int p = 0; p < w->place_count && !w->ending; p++) {
        if (w->places[p].lease)
            continue;
        size_t i = 0;
        while (i < w->lease_count && lease_started(w->leases[i]))
            i++;
        if (i == w->lease_count)
            return;
        w->places[p].lease = w->leases[i];
        lease_start(w->leases[i], w->places[p].share);
    }
}

static void on_say(void *arg, struct lease *l, const struct wire_msg *m)
{
    struct worker *w = arg;
    link_say(w->link, m);
}

static void on_over(void *arg, struct lease *l)
{
    struct worker *w = arg;
    for (int p = 0; p < w->place_count; p++)
        if (w->places[p].lease == l)
            w->places[p].lease = NULL;
    fill_places(w);
    stop_if_done(w);
}

/* Ends all that runs, as no fault of the trials. */
static void end_all(struct worker *w)
{
    w->ending = w->stopping = true;
    w->parting = false;
    for (size_t i = w->lease_count; i-- > 0;)
        lease_stop(w->leases[i], true);
    stop_if_done(w);
}

/* No trial can run here: those that were given go back. */
static void give_up(struct worker *w, const struct err *e)
{
    if (w->error.code == 0)
        w->error = *e;
    link_say(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
    end_all(w);
}

static void run(struct worker *w, const struct wire_msg *m)
{
    if (find(w, m->lease))
        return;
    struct err e = {0};
    if (!w->site && site_new(&w->site, &w->config->site, m->data, &e) == 0 && site_dir(w->site))
        log_warn("the sweep's directory is not on this node: what trials write stays in %s, and "
                 "their checkpoints are of use to this node only",
                 site_dir(w->site));
    w->leases = xrealloc(w->leases, w->lease_count + 1, sizeof *w->leases);
    w->host.site = w->site;
    struct lease *l = w->leases[w->lease_count++] = lease_new(&w->host, m->lease, m->data);
    if (e.code < 0)
        give_up(w, &e);
    else if (w->ending)
        lease_stop(l, true);
    fill_places(w);
}

/* ---- the coordinator ------------------------------------------------------------------------ */

static void say_again(void *arg, const struct wire_msg *m)
{
    link_say(arg, m);
}

static json_t *hello_data(const struct worker *w)
{
    const struct topo *t = launcher_topo(w->launcher);
    json_t *running = json_array();
    for (size_t i = 0; i < w->lease_count; i++)
        json_array_append_new(running, json_integer(lease_id(w->leases[i])));
    return json_pack("{s:s,s:i,s:o,s:i,s:i,s:i}", "node", topo_name(t), "places",
                     w->ending ? 0 : w->place_count, "running", running, "slots",
                     hwloc_bitmap_weight(topo_allowed(t)), "gpus", topo_gpu_count(t), "ping_ms",
                     ping_ms(w));
}

static void on_opened(void *arg)
{
    struct worker *w = arg;
    struct wire_msg hello = {.kind = WIRE_HELLO, .data = hello_data(w)};
    link_say(w->link, &hello);
    wire_msg_clear(&hello);
    for (size_t i = 0; i < w->lease_count; i++)
        lease_unacknowledged(w->leases[i], say_again, w->link);
}

static void on_heard(void *arg, const struct wire_msg *m)
{
    struct worker *w = arg;
    struct lease *l = m->lease ? find(w, m->lease) : NULL;
    switch (m->kind) {
    case WIRE_RUN:
        run(w, m);
        break;
    case WIRE_STOP:
        if (l)
            lease_stop(l, false);
        break;
    case WIRE_ACK:
        if (l && lease_acknowledge(l, m->seq))
            forget(w, l);
        stop_if_done(w);
        break;
    case WIRE_DRAIN:
        end_all(w);
        break;
    case WIRE_PONG:
        w->parting = false;
        stop_if_done(w);
        break;
    default: /* what a worker says */
        break;
    }
}

static void on_refused(void *arg, const struct err *e)
{
    struct worker *w = arg;
    w->forsaken = true;
    give_up(w, e);
}

static void ping(struct worker *w)
{
    link_say(w->link, &(struct wire_msg){.kind = WIRE_PING});
    w->pinged_ms = (int64_t)uv_now(&w->loop);
}

static void kill_all(struct worker *w)
{
    for (size_t i = 0; i < w->lease_count; i++)
        lease_kill(w->leases[i]);
}

/* Has had nothing to do for too long. */
static void part(struct worker *w)
{
    log_info("no trial for %d s: this worker leaves", w->config->idle_ms / 1000);
    w->ending = w->parting = true;
    link_say(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
    ping(w);
}

static void on_tick(uv_timer_t *t)
{
    struct worker *w = t->data;
    int64_t now = (int64_t)uv_now(&w->loop);
    const struct worker_config *c = w->config;
    if (now - w->ticked_ms >= STOPPED_MS)
        link_forgive(w->link); /* what was said meanwhile is not read yet */
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
        part(w);
    if (!w->forsaken && link_silent_ms(w->link) >= c->patience_ms) {
        w->forsaken = true;
        log_error("no coordinator at %s for %d s: %zu trials are stopped", c->to.endpoint,
                  c->patience_ms / 1000, w->lease_count);
        end_all(w);
    }
}

/* Takes nothing new; what waits for a place goes back, what runs may come to its end. */
static void finish_all(struct worker *w)
{
    log_warn("%zu trials may come to their end; once more stops them", w->lease_count);
    w->ending = true;
    for (size_t i = w->lease_count; i-- > 0;)
        if (!lease_started(w->leases[i]))
            lease_stop(w->leases[i], true);
    stop_if_done(w);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct worker *w = s->data;
    bool first = !w->ending || w->parting;
    if (w->stopping) {
        kill_all(w);
        w->forsaken = true; /* waits for no acknowledgement */
        stop_if_done(w);
        return;
    }
    if (first)
        link_say(w->link, &(struct wire_msg){.kind = WIRE_LEAVING});
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

static void leave_rest(const struct worker *w)
{
    if (!w->config->left || w->lease_count == 0)
        return;
    AUTO(free) char *tmp = xasprintf("%s.tmp", w->config->left);
    AUTO(file) FILE *f = fopen(tmp, "we");
    if (f) {
        for (size_t i = 0; i < w->lease_count; i++)
            lease_unacknowledged(w->leases[i], write_line, f);
    }
    if (!f || fflush(f) != 0 || fsync(fileno(f)) < 0 || rename(tmp, w->config->left) < 0)
        log_error("%s: %s: what trials reported last is lost", tmp, strerror(errno));
}

/* ---- life ----------------------------------------------------------------------------------- */

static const struct link_events link_events = {
    .opened = on_opened, .heard = on_heard, .refused = on_refused};

static int open_places(struct worker *w, struct err *e)
{
    const struct topo *t = launcher_topo(w->launcher);
    struct share_want want = w->config->want;
    if (want.places == 0) {
        int rc = share_places(&want.places, t, want.ranks, 0, e);
        if (rc < 0)
            return rc;
    }
    int rc = share_make(&w->shares, t, &want, e);
    if (rc < 0)
        return rc;
    w->place_count = want.places;
    w->places = xcalloc((size_t)want.places, sizeof *w->places);
    for (int p = 0; p < want.places; p++)
        w->places[p].share = &w->shares[p];
    return 0;
}

static int open_all(struct worker *w, struct guardian *g, struct err *e)
{
    static const int numbers[COUNT_OF(w->signals)] = {SIGTERM, SIGINT, SIGHUP};
    uv_timer_init(&w->loop, &w->tick);
    w->tick.data = w;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uv_signal_init(&w->loop, &w->signals[i]);
        w->signals[i].data = w;
    }
    struct link_to to = w->config->to;
    to.beat_ms = ping_ms(w); /* a dead connection is noticed in half of the patience */
    int rc = launcher_open(&w->launcher, &w->loop, g, e);
    if (rc == 0)
        rc = open_places(w, e);
    w->host = (struct lease_host){&w->loop, w->launcher, NULL, on_say, on_over, w};
    if (rc == 0)
        rc = link_open(&w->link, &w->loop, &to, &link_events, w, e);
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
    link_close(w->link);
    while (w->lease_count > 0)
        forget(w, w->leases[0]);
    free(w->leases);
    launcher_close(w->launcher);
    site_free(w->site);
    share_free(w->shares, w->place_count);
    free(w->places);
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
    if (!w->forsaken || link_silent_ms(w->link) < w->config->patience_ms)
        return 0;
    err_set(e, -ETIMEDOUT, "no coordinator was heard at %s for %d s%s", w->config->to.endpoint,
            w->config->patience_ms / 1000,
            link_was_ever_open(w->link)  ? ""
            : link_was_shut_out(w->link) ? "; who is there hangs up"
                                         : "; it was never reached");
    return link_was_shut_out(w->link)
               ? err_hint(e, "take the worker.key that lies in the sweep's directory now")
               : -ETIMEDOUT;
}

int worker_run(const struct worker_config *c, struct guardian *g, struct err *e)
{
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
        leave_rest(w);
        if (w->lease_count == 0)
            link_say(w->link, &(struct wire_msg){.kind = WIRE_GONE});
        rc = how_it_ended(w, e);
    }
    close_all(w);
    free(w);
    return rc;
}
