#include "hpo/sweep/coord.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/log.h"
#include "hpo/sweep/hub.h"
#include "hpo/sweep/local.h"

enum {
    TICK_MS = 1000,
    STOPPED_MS = 5000, /* without a tick: we were stopped, or the machine slept */
    LONELY_MS = 30000, /* without a worker, until somebody is told */
    RELEASE_MS = 10000 /* for the local worker to end when it has nothing left to do */
};

/* An effect that waits for the turn's commit. */
struct todo {
    enum wire_kind kind; /* WIRE_RUN, WIRE_STOP, WIRE_ACK */
    char worker[WIRE_WORKER_MAX + 1];
    int trial;
    int64_t lease, seq;
    json_t *params;
};

/* A record of this turn, for those who watch. */
struct fact {
    enum sched_record_kind kind;
    int trial;
};

struct coord {
    const struct coord_config *config;
    const struct coord_events *ev;
    void *arg;
    uv_loop_t loop;
    bool loop_open;
    struct hub *hub;
    char *endpoint, *lock, *left, *log;
    char *tcp;                     /* for workers of other machines; NULL: none */
    uint64_t ticked_ms, lonely_ms; /* 0: not lonely, or said so */
    bool workers_changed;          /* since sweepdir_workers() */
    struct local_config local_config;
    struct local *local;
    struct sched *sched;
    struct sched_out out;
    int64_t *last_seq; /* by lease: the last message that is stored */
    size_t lease_cap;
    struct todo *todo;
    size_t todo_count, todo_cap;
    struct fact *facts;
    size_t fact_count, fact_cap;
    uv_timer_t deadline, tick, release;
    uv_signal_t signals[3];
    char *why;  /* the sweep is over; NULL: it is not */
    int signal; /* that stopped it */
    struct err error;
};

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* It cannot go on: the scheduler and the store would part. */
static void fail(struct coord *c, const struct err *e)
{
    if (c->error.code == 0)
        c->error = *e;
    uv_stop(&c->loop);
}

/* ---- a turn --------------------------------------------------------------------------------- */

static void perform(struct coord *c, const struct todo *t)
{
    struct err e = {0};
    struct wire_msg m = {.kind = t->kind, .lease = t->lease, .seq = t->seq};
    int rc = 0;
    if (t->kind == WIRE_RUN)
        rc = order_data(&m.data, &c->config->order, t->trial, t->params, &e);
    if (rc < 0 || hub_say(c->hub, t->worker, &m, &e) < 0)
        fail(c, &e);
    wire_msg_clear(&m);
}

static struct todo *add_todo(struct coord *c, enum wire_kind kind, const char *worker)
{
    if (c->todo_count == c->todo_cap) {
        c->todo_cap = c->todo_cap ? c->todo_cap * 2 : 64;
        c->todo = xrealloc(c->todo, c->todo_cap, sizeof *c->todo);
    }
    struct todo *t = &c->todo[c->todo_count++];
    *t = (struct todo){.kind = kind};
    snprintf(t->worker, sizeof t->worker, "%s", worker);
    return t;
}

static void note_seq(struct coord *c, int64_t lease, int64_t seq)
{
    size_t need = (size_t)lease + 1;
    if (need > c->lease_cap) {
        size_t cap = need * 2;
        c->last_seq = xrealloc(c->last_seq, cap, sizeof *c->last_seq);
        memset(c->last_seq + c->lease_cap, 0, (cap - c->lease_cap) * sizeof *c->last_seq);
        c->lease_cap = cap;
    }
    if (seq > c->last_seq[lease])
        c->last_seq[lease] = seq;
}

static void note_fact(struct coord *c, const struct sched_record *r)
{
    if (c->fact_count == c->fact_cap) {
        c->fact_cap = c->fact_cap ? c->fact_cap * 2 : 16;
        c->facts = xrealloc(c->facts, c->fact_cap, sizeof *c->facts);
    }
    c->facts[c->fact_count++] = (struct fact){r->kind, r->trial};
}

/* Gives the scheduler an event; what follows is part of this turn. `seq`: of the worker's message.
 */
static void step(struct coord *c, const struct sched_event *ev, int64_t seq)
{
    struct err e = {0};
    if (c->error.code)
        return;
    if (sched_step(c->sched, ev, wall_ms(), &c->out, &e) < 0) {
        log_warn("worker %s: %s", ev->worker ? ev->worker : "-", e.text);
        return;
    }
    for (size_t i = 0; i < c->out.record_count; i++) {
        const struct sched_record *r = &c->out.records[i];
        int64_t msg = ev->lease && r->lease == ev->lease ? seq : 0;
        if (store_append(c->config->dir->store, r, msg, &e) < 0) {
            fail(c, &e);
            return;
        }
        note_fact(c, r);
    }
    for (size_t i = 0; i < c->out.action_count; i++) {
        const struct sched_action *a = &c->out.actions[i];
        if (a->kind == SCHED_ACT_END) {
            free(c->why);
            c->why = xstrdup(a->why ? a->why : "");
            continue;
        }
        struct todo *t = add_todo(c, a->kind == SCHED_ACT_RUN ? WIRE_RUN : WIRE_STOP, a->worker);
        t->trial = a->trial;
        t->lease = a->lease;
        t->params = json_incref(a->params);
    }
}

static void on_deadline(uv_timer_t *t);
static void on_release_late(uv_timer_t *t);

/* The sweep is over: workers may go. */
static void release(struct coord *c)
{
    if (uv_is_active((uv_handle_t *)&c->release))
        return;
    uv_timer_start(&c->release, on_release_late, RELEASE_MS, 0);
    hub_say_all(c->hub, WIRE_DRAIN);
    local_release(c->local);
}

/* The end of a turn: stores it, then acts. */
static void finish_turn(struct coord *c)
{
    struct err e = {0};
    bool stored = c->error.code == 0;
    if (stored && store_commit(c->config->dir->store, &e) < 0) {
        fail(c, &e);
        stored = false;
    }
    for (size_t i = 0; i < c->todo_count; i++) {
        if (stored)
            perform(c, &c->todo[i]);
        json_decref(c->todo[i].params);
    }
    c->todo_count = 0;
    for (size_t i = 0; i < c->fact_count && stored; i++)
        c->ev->stored(c->arg, c->sched, c->facts[i].kind, c->facts[i].trial);
    c->fact_count = 0;
    if (!stored)
        return;
    c->ev->changed(c->arg, c->sched);
    int64_t due = sched_deadline(c->sched), now = wall_ms();
    uv_timer_stop(&c->deadline);
    if (due != INT64_MAX)
        uv_timer_start(&c->deadline, on_deadline, due > now ? (uint64_t)(due - now) : 0, 0);
    if (c->why)
        release(c);
}

static void on_deadline(uv_timer_t *t)
{
    struct coord *c = t->data;
    step(c, &(struct sched_event){.kind = SCHED_EV_TICK}, 0);
    finish_turn(c);
}

static void on_release_late(uv_timer_t *t)
{
    struct coord *c = t->data;
    log_warn("the worker on this host does not end: it is killed");
    local_kill(c->local);
}

/* ---- workers speak -------------------------------------------------------------------------- */

/* A report or an end. One that is stored already is only acknowledged. */
static void take_numbered(struct coord *c, const char *worker, const struct wire_msg *m)
{
    bool known = (size_t)m->lease < c->lease_cap && m->seq <= c->last_seq[m->lease];
    struct todo *t = add_todo(c, WIRE_ACK, worker);
    t->lease = m->lease;
    t->seq = m->seq;
    if (known)
        return;
    step(c,
         &(struct sched_event){.kind = m->kind == WIRE_DONE ? SCHED_EV_DONE : SCHED_EV_REPORT,
                               .worker = worker,
                               .lease = m->lease,
                               .data = m->data},
         m->seq);
    note_seq(c, m->lease, m->seq);
}

static void take_hello(struct coord *c, const char *worker, const struct wire_msg *m)
{
    struct err e = {0};
    local_greeted(c->local, worker);
    c->workers_changed = true;
    if (!c->why)
        step(c, &(struct sched_event){SCHED_EV_HELLO, worker, 0, m->data}, 0);
    else if (hub_say(c->hub, worker, &(struct wire_msg){.kind = WIRE_DRAIN}, &e) < 0)
        fail(c, &e);
}

/* What it ran, if anything, goes back to the queue. */
static void lose(struct coord *c, const char *worker)
{
    hub_lose(c->hub, worker);
    c->workers_changed = true;
    step(c, &(struct sched_event){SCHED_EV_LOST, worker, 0, NULL}, 0);
}

static void on_heard(void *arg, const char *worker, const struct wire_msg *m)
{
    struct coord *c = arg;
    if (m->kind == WIRE_HELLO)
        take_hello(c, worker, m);
    else if (m->kind == WIRE_LEAVING)
        step(c, &(struct sched_event){SCHED_EV_LEAVING, worker, 0, NULL}, 0);
    else if (m->kind == WIRE_GONE)
        lose(c, worker);
    else
        take_numbered(c, worker, m);
}

static void on_turn(void *arg)
{
    finish_turn(arg);
}

static const struct hub_events hub_events = {.heard = on_heard, .turn = on_turn};

/* ---- time, signals, the local worker -------------------------------------------------------- */

/* Says once that nobody is there to work: without a worker of our own that is the user's matter. */
static void look_for_company(struct coord *c, size_t workers)
{
    if (workers > 0 || c->config->places > 0)
        c->lonely_ms = uv_now(&c->loop);
    if (c->lonely_ms && uv_now(&c->loop) - c->lonely_ms >= LONELY_MS) {
        log_warn("no worker is there; on another machine: drover worker --key worker.key, with %s",
                 c->config->dir->path);
        c->lonely_ms = 0;
    }
}

/* Who is there, for `sweep show`. */
static void note_workers(struct coord *c)
{
    const struct peers *p = hub_peers(c->hub);
    AUTO(json) json_t *list = json_array();
    size_t here = 0;
    for (size_t i = 0; i < peers_count(p); i++) {
        const struct peer *w = peers_at(p, i);
        here += !w->lost;
        if (!w->lost && c->workers_changed)
            json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:i,s:i}", "id", w->id, "node",
                                                  w->node, "places", w->places, "slots", w->slots,
                                                  "gpus", w->gpus));
    }
    look_for_company(c, here);
    if (!c->workers_changed)
        return;
    struct err e = {0};
    if (sweepdir_put_workers(c->config->dir, list, &e) < 0)
        log_warn("%s", e.text); /* only those who look miss it */
    c->workers_changed = false;
}

static void on_tick(uv_timer_t *t)
{
    struct coord *c = t->data;
    uint64_t now = uv_now(&c->loop);
    if (now - c->ticked_ms >= STOPPED_MS)
        hub_forgive(c->hub); /* what workers said meanwhile is not read yet */
    c->ticked_ms = now;
    for (const char *id; (id = hub_silent(c->hub, c->config->spec->lost_after_ms));) {
        log_warn("worker %s is silent and counts as lost", id);
        lose(c, id);
    }
    note_workers(c);
    finish_turn(c);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct coord *c = s->data;
    bool again = c->signal != 0;
    c->ev->interrupted(c->arg, again);
    c->signal = number;
    if (again) {
        local_kill(c->local);
        hub_say_all(c->hub, WIRE_DRAIN); /* those of other machines end theirs in good order */
        uv_stop(&c->loop);
        return;
    }
    step(c, &(struct sched_event){.kind = SCHED_EV_DRAIN}, 0);
    finish_turn(c);
}

/* What a worker that ended while no coordinator was there could not say. */
static void take_left(struct coord *c, const char *id)
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
    struct coord *c = arg;
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
    struct coord *c = arg;
    uv_stop(&c->loop);
}

static const struct local_events local_events = {
    .gone = on_gone, .failed = on_failed, .released = on_released};

/* ---- life ----------------------------------------------------------------------------------- */

static int replay_one(void *arg, const struct sched_record *r, int64_t msg, struct err *e)
{
    struct coord *c = arg;
    if (r->lease > 0)
        note_seq(c, r->lease, msg);
    return sched_replay(c->sched, r, e);
}

static int replay(struct coord *c, struct err *e)
{
    int rc = sched_new(&c->sched, c->config->spec, e);
    if (rc == 0)
        rc = store_replay(c->config->dir->store, replay_one, c, e);
    if (rc < 0)
        return err_wrap(e, "sweep '%s'", c->config->dir->name);
    sched_replayed(c->sched, wall_ms());
    return 0;
}

static int open_loop(struct coord *c, struct err *e)
{
    static const int numbers[COUNT_OF(c->signals)] = {SIGINT, SIGTERM, SIGHUP};
    int rc = uv_loop_init(&c->loop);
    if (rc < 0)
        return err_set(e, rc, "loop: %s", uv_strerror(rc));
    c->loop_open = true;
    uv_timer_t *const timers[] = {&c->deadline, &c->tick, &c->release};
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
    c->local = local_new(&c->loop, &c->local_config, &local_events, c);
    return 0;
}

int coord_open(struct coord **out, const struct coord_config *config, struct err *e)
{
    AUTO(coord) struct coord *c = xzalloc(sizeof *c);
    c->config = config;
    c->lock = sweepdir_host_file(config->dir, "lock");
    c->left = sweepdir_host_file(config->dir, "left");
    c->log = sweepdir_host_file(config->dir, "log");
    int rc = sweepdir_endpoint(&c->endpoint, config->dir, e);
    c->local_config = (struct local_config){c->endpoint, c->lock,        c->left,
                                            c->log,      config->places, config->spec->ranks};
    if (rc == 0)
        rc = replay(c, e);
    if (rc == 0)
        rc = open_loop(c, e);
    if (rc == 0)
        rc = hub_open(&c->hub, &c->loop, c->endpoint, &hub_events, c, e);
    if (rc == 0)
        rc = listen_open(c->hub, config->dir->path, &config->listen, &c->tcp, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

static void close_loop(struct coord *c)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&c->deadline, (uv_handle_t *)&c->tick,
                                    (uv_handle_t *)&c->release};
    for (size_t i = 0; i < COUNT_OF(handles); i++)
        uv_close(handles[i], NULL);
    for (size_t i = 0; i < COUNT_OF(c->signals); i++)
        uv_close((uv_handle_t *)&c->signals[i], NULL);
    local_free(c->local);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&c->loop); /* nothing is left on it */
}

void coord_close(struct coord *c)
{
    if (!c)
        return;
    hub_close(c->hub);
    if (c->loop_open)
        close_loop(c);
    sched_out_free(&c->out);
    sched_free(c->sched);
    free(c->why);
    free(c->endpoint);
    free(c->tcp);
    free(c->lock);
    free(c->left);
    free(c->log);
    free(c->last_seq);
    free(c->todo);
    free(c->facts);
    free(c);
}

const struct sched *coord_sched(const struct coord *c)
{
    return c->sched;
}

const char *coord_endpoint(const struct coord *c)
{
    return c->tcp;
}

const char *coord_why(const struct coord *c)
{
    return c->why;
}

int coord_run(struct coord *c, const struct coord_events *ev, void *arg, struct err *e)
{
    c->ev = ev;
    c->arg = arg;
    /* A sweep that is over says so now, before a worker is started for nothing. */
    step(c, &(struct sched_event){.kind = SCHED_EV_TICK}, 0);
    c->ticked_ms = c->lonely_ms = uv_now(&c->loop);
    c->workers_changed = true;
    if (c->why)
        local_adopt(c->local);
    else if (c->config->places > 0)
        local_start(c->local);
    finish_turn(c);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    if (c->error.code) {
        if (e)
            *e = c->error;
        return c->error.code;
    }
    return c->signal;
}
