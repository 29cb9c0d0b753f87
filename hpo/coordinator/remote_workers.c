#include "hpo/coordinator/remote_workers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/log.h"
#include "common/own_process.h"
#include "hpo/store/sweep_dir.h"

enum {
    WORKER_STARTS_MAX = 5, /* that came to nothing, one after the other */
    RETRY_MS = 500,        /* doubled with each of them */
    WORTHWHILE_S = 60,     /* one that has lived so long came to something */
    GIVE_UP_STATUS = 2     /* `drover worker`: it was not let in, or trials cannot run there */
};

struct node { /* and its worker */
    struct remote_workers *fleet;
    const struct host *host;
    struct hosts *alone; /* it, with one slot */
    struct launch *job;  /* NULL: none */
    char **argv, **env;  /* the job's (strv), as long as there is one */
    bool ended;          /* the job has; it is freed on the loop's next turn */
    bool given_up, closed;
    int fast_ends;
    char id[64];    /* of the worker */
    char last[256]; /* what it wrote last */
    uv_timer_t timer;
    FILE *log;
};

struct remote_workers {
    const struct remote_workers_opts *config;
    const char *dir;
    const struct remote_workers_events *ev;
    void *arg;
    uv_loop_t *loop;
    struct launch_context *launcher;
    struct node *nodes;
    int count;
    char *program;
    bool released;
};

int remote_workers_slots(const struct remote_workers_opts *c, const struct host *h)
{
    int places = c->limit ? h->slots / c->ranks : 0;
    return c->limit && h->slots > 0 && places == 0 ? 1 : places;
}

static bool all_ended(const struct remote_workers *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->nodes[i].job)
            return false;
    return true;
}

/* ---- its end -------------------------------------------------------------------------------- */

static void start(struct node *n);

static void give_up(struct node *n, const char *why)
{
    struct remote_workers *f = n->fleet;
    n->given_up = true;
    log_error("node %s is given up: %s", n->host->name, why);
    for (int i = 0; i < f->count; i++)
        if (!f->nodes[i].given_up)
            return;
    struct err e = {0};
    err_set(&e, -ECHILD, "no node has a worker; the last was %s: %s", n->host->name, why);
    err_hint(&e, "%s/worker.%s.log has what it wrote", f->dir, n->host->name);
    f->ev->failed(f->arg, &e);
}

/* It has ended, or could not be started. */
static void start_later(struct node *n, const char *why)
{
    if (n->fleet->released)
        return;
    if (++n->fast_ends >= WORKER_STARTS_MAX) {
        give_up(n, why);
        return;
    }
    log_warn("the worker on %s has ended (%s); it is started again", n->host->name, why);
}

static void on_timer(uv_timer_t *t)
{
    struct node *n = t->data;
    struct remote_workers *f = n->fleet;
    if (n->ended) {
        launch_free(TAKE(n->job));
        n->ended = false;
        if (!f->released && !n->given_up)
            uv_timer_start(&n->timer, on_timer, (uint64_t)RETRY_MS << n->fast_ends, 0);
        else if (f->released && all_ended(f))
            f->ev->released(f->arg);
    } else if (!f->released && !n->given_up) {
        start(n);
    }
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct node *n = arg;
    char why[sizeof n->last + 64];
    if (end->broken)
        snprintf(why, sizeof why, "%s", end->broken);
    else
        snprintf(why, sizeof why, "status %d%s%s", end->status, *n->last ? ": " : "", n->last);
    n->ended = true;
    n->fast_ends = end->seconds >= WORTHWHILE_S ? 0 : n->fast_ends;
    if (!end->broken) /* else it may still run there, out of reach */
        n->fleet->ev->gone(n->fleet->arg, n->id);
    if (end->status == GIVE_UP_STATUS && !end->broken && !n->fleet->released)
        give_up(n, why);
    else
        start_later(n, why);
    uv_timer_start(&n->timer, on_timer, 0, 0);
}

/* ---- its start ------------------------------------------------------------------------------ */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct node *n = arg;
    snprintf(n->last, sizeof n->last, "%.*s", (int)len, text);
    if (n->log)
        fprintf(n->log, "%s\n", n->last);
    return true;
}

static void on_rank(void *arg, const struct rank_end *r)
{
    struct node *n = arg;
    if (r->start_error[0])
        snprintf(n->last, sizeof n->last, "%s", r->start_error);
}

/* The line of worker.key, as DROVER_SWEEP_KEY. To be freed. */
static char *key_variable(const char *dir, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/worker.key", dir), *line = NULL;
    AUTO(file) FILE *f = fopen(path, "re");
    size_t cap = 0;
    ssize_t n = f ? getline(&line, &cap, f) : -1;
    if (n <= 0) {
        err_set(e, -errno, "%s: %s", path, f ? "empty" : strerror(errno));
        return NULL;
    }
    line[n - (line[n - 1] == '\n')] = 0;
    return xasprintf("DROVER_SWEEP_KEY=%s", line);
}

static int launch(struct node *n, struct err *e)
{
    static const struct launch_events events = {
        .line = on_line, .rank_ended = on_rank, .ended = on_ended};
    struct remote_workers *f = n->fleet;
    const struct remote_workers_opts *c = f->config;
    char *key = key_variable(f->dir, e);
    if (!key)
        return e->code;
    strv_free(n->env);
    n->env = strv_copy(c->spec->env);
    strv_push(&n->env, key);
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_set(e, -errno, "no random number can be had");
    AUTO(free) char *name = sweep_dir_slug(n->host->name);
    snprintf(n->id, sizeof n->id, "%.40s-%08x", name, random);
    AUTO(free) char *places = xasprintf("%d", remote_workers_slots(c, n->host));
    char *argv[] = {f->program, "worker", "--id", n->id, "--places", places, NULL};
    strv_free(n->argv);
    n->argv = strv_copy(argv);
    struct launch_spec spec = *c->spec;
    spec.argv = n->argv;
    spec.env = n->env;
    spec.ranks = 1;
    spec.hosts = n->alone;
    spec.bind_to = PLAN_BIND_NONE; /* it has the node */
    spec.stdin_null = true;
    spec.no_pmix = true;
    *n->last = 0;
    return launch_start(&n->job, f->launcher, &spec, &events, n, e);
}

static void start(struct node *n)
{
    struct err e = {0};
    if (launch(n, &e) == 0)
        return;
    start_later(n, e.text);
    if (!n->given_up)
        uv_timer_start(&n->timer, on_timer, (uint64_t)RETRY_MS << n->fast_ends, 0);
}

void remote_workers_start(struct remote_workers *f)
{
    for (int i = 0; i < f->count; i++)
        start(&f->nodes[i]);
}

/* ---- all of them ---------------------------------------------------------------------------- */

void remote_workers_release(struct remote_workers *f)
{
    f->released = true;
    if (all_ended(f))
        f->ev->released(f->arg);
}

void remote_workers_kill(struct remote_workers *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->nodes[i].job && !f->nodes[i].ended)
            launch_kill(f->nodes[i].job);
}

static void add(struct remote_workers *f, const struct host *h)
{
    struct node *n = &f->nodes[f->count++];
    n->fleet = f;
    n->host = h;
    n->alone = xzalloc(sizeof *n->alone);
    hosts_add(n->alone, h->name, 1, 0);
    uv_timer_init(f->loop, &n->timer);
    n->timer.data = n;
    AUTO(free) char *path = xasprintf("%s/worker.%s.log", f->dir, h->name);
    n->log = fopen(path, "ae");
    if (!n->log)
        log_warn("%s: %s", path, strerror(errno));
    else
        setvbuf(n->log, NULL, _IOLBF, BUFSIZ);
}

int remote_workers_open(struct remote_workers **out, uv_loop_t *loop,
                        const struct remote_workers_opts *c, const char *dir,
                        const struct remote_workers_events *ev, void *arg, struct err *e)
{
    AUTO(free) char *program = NULL;
    AUTO(free) struct remote_workers *f = xzalloc(sizeof *f);
    if (own_process_dir_above(&program, 0, e) < 0)
        return e ? e->code : -EIO;
    f->loop = loop;
    f->config = c;
    f->dir = dir;
    f->ev = ev;
    f->arg = arg;
    int rc = launch_context_open(&f->launcher, loop, c->guardian, e);
    if (rc < 0)
        return rc;
    f->program = TAKE(program);
    f->nodes = xcalloc((size_t)c->hosts->count + 1, sizeof *f->nodes);
    for (int i = 0; i < c->hosts->count; i++)
        if (!c->hosts->at[i].here)
            add(f, &c->hosts->at[i]);
    *out = TAKE(f);
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    ((struct node *)h->data)->closed = true;
}

/* Whoever closes asks nothing any more. */
static void no_gone(void *arg, const char *id)
{
    (void)arg;
}

static void no_released(void *arg)
{
    (void)arg;
}

void remote_workers_close(struct remote_workers *f)
{
    if (!f)
        return;
    static const struct remote_workers_events nobody = {.gone = no_gone, .released = no_released};
    f->ev = &nobody;
    f->released = true;
    for (int i = 0; i < f->count; i++)
        if (f->nodes[i].job && !f->nodes[i].ended)
            launch_stop(f->nodes[i].job, 0);
    while (!all_ended(f))
        uv_run(f->loop, UV_RUN_ONCE);
    launch_context_close(f->launcher);
    for (int i = 0; i < f->count; i++) {
        uv_close((uv_handle_t *)&f->nodes[i].timer, on_closed);
        while (!f->nodes[i].closed)
            uv_run(f->loop, UV_RUN_NOWAIT);
        if (f->nodes[i].log)
            fclose(f->nodes[i].log);
        hosts_free(f->nodes[i].alone);
        strv_free(f->nodes[i].argv);
        strv_free(f->nodes[i].env);
    }
    free(f->nodes);
    free(f->program);
    free(f);
}
