#include "hpo/coordinator/remote_workers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/entropy.h"
#include "common/file.h"
#include "common/log.h"
#include "common/own_process.h"
#include "common/private_dir.h"
#include "hpo/store/sweep_dir.h"

enum {
    WORKER_STARTS_MAX = 5, /* without success, one after the other */
    RETRY_MS = 500,        /* doubled with each of them */
    SUCCESS_S = 60,        /* a worker that ran this long was a success */
    GIVE_UP_STATUS = 2     /* of `drover worker`: it was rejected, or trials cannot run there */
};

struct remote_worker {
    struct remote_workers *all;
    const struct host *host;
    struct hosts *hosts; /* this host with one slot */
    struct launch *job;  /* NULL: none */
    char **argv, **env;  /* the job's (strv) */
    bool ended;          /* the job has ended; it is freed on the loop's next turn */
    bool given_up;
    int fast_exits;
    char id[64];         /* of the worker */
    char last_line[256]; /* of its output */
    uv_timer_t timer;
    FILE *log;
};

struct remote_workers {
    const struct remote_workers_opts *opts;
    const char *dir;
    const struct remote_workers_events *ev; /* NULL: the workers are closed, and none is reported */
    void *arg;
    uv_loop_t *loop;
    struct launch_context *launcher;
    struct remote_worker *nodes;
    int count;
    char *program;
    bool released;
};

int remote_workers_slots(const struct remote_workers_opts *opts, const struct host *h)
{
    int slots = opts->limit ? h->slots / opts->ranks : 0;
    return opts->limit && h->slots > 0 && slots == 0 ? 1 : slots;
}

static bool all_ended(const struct remote_workers *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->nodes[i].job)
            return false;
    return true;
}

/* ---- its exit ------------------------------------------------------------------------------- */

static void start(struct remote_worker *n);

static void give_up(struct remote_worker *n, const char *cause)
{
    struct remote_workers *w = n->all;
    n->given_up = true;
    log_error("node %s: its worker is not started again: %s", n->host->name, cause);
    for (int i = 0; i < w->count; i++)
        if (!w->nodes[i].given_up)
            return;
    struct err e = {0};
    err_set(&e, -ECHILD, "no worker can be kept on any node; the last one was on %s: %s",
            n->host->name, cause);
    err_hint(&e, "its output is in %s/worker.%s.log", w->dir, n->host->name);
    w->ev->failed(w->arg, &e);
}

/* It has exited, or could not be started. */
static void retry_or_give_up(struct remote_worker *n, const char *cause)
{
    if (n->all->released)
        return;
    if (++n->fast_exits >= WORKER_STARTS_MAX) {
        give_up(n, cause);
        return;
    }
    log_warn("the worker on %s has exited (%s); starting it again", n->host->name, cause);
}

static void on_timer(uv_timer_t *t)
{
    struct remote_worker *n = t->data;
    struct remote_workers *w = n->all;
    if (n->ended) {
        launch_free(TAKE(n->job));
        n->ended = false;
        if (!w->released && !n->given_up)
            uv_timer_start(&n->timer, on_timer, (uint64_t)RETRY_MS << n->fast_exits, 0);
        else if (w->released && w->ev && all_ended(w))
            w->ev->released(w->arg);
    } else if (!w->released && !n->given_up) {
        start(n);
    }
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct remote_worker *n = arg;
    char cause[sizeof n->last_line + 64];
    if (end->broken)
        snprintf(cause, sizeof cause, "%s", end->broken);
    else
        snprintf(cause, sizeof cause, "status %d%s%s", end->status, *n->last_line ? ": " : "",
                 n->last_line);
    n->ended = true;
    n->fast_exits = end->seconds >= SUCCESS_S ? 0 : n->fast_exits;
    if (n->all->ev && !end->broken) /* else it may still run there, out of reach */
        n->all->ev->exited(n->all->arg, n->id);
    if (end->status == GIVE_UP_STATUS && !end->broken && !n->all->released)
        give_up(n, cause);
    else
        retry_or_give_up(n, cause);
    uv_timer_start(&n->timer, on_timer, 0, 0);
}

/* ---- its start ------------------------------------------------------------------------------ */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct remote_worker *n = arg;
    if (from == LAUNCH_STDERR) /* stdout has its trials */
        snprintf(n->last_line, sizeof n->last_line, "%.*s", (int)len, text);
    if (n->log)
        fprintf(n->log, "%.*s\n", (int)len, text);
    return true;
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct remote_worker *n = arg;
    if (r->start_error[0])
        snprintf(n->last_line, sizeof n->last_line, "%.*s", (int)sizeof n->last_line - 1,
                 r->start_error);
}

/* Returns "DROVER_SWEEP_KEY=" with the line of worker.key. To be freed; NULL: an error. */
static char *key_variable(const char *dir, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/worker.key", dir), *line = file_line(path);
    if (!line || !*line) {
        err_set(e, line ? -EINVAL : -errno, "%s: %s", path, line ? "empty" : strerror(errno));
        return NULL;
    }
    return xasprintf("DROVER_SWEEP_KEY=%s", line);
}

static int launch(struct remote_worker *n, struct err *e)
{
    static const struct launch_events events = {
        .line = on_line, .rank_ended = on_rank_ended, .ended = on_ended};
    struct remote_workers *w = n->all;
    const struct remote_workers_opts *opts = w->opts;
    char *key = key_variable(w->dir, e);
    if (!key)
        return e->code;
    strv_free(n->env);
    n->env = strv_copy(opts->spec->env);
    strv_push(&n->env, key);
    uint32_t random = 0;
    int rc = entropy_fill(&random, sizeof random);
    if (rc < 0)
        return err_set(e, rc, "cannot get a random number: %s", strerror(-rc));
    AUTO(free) char *name = sweep_dir_slug(n->host->name);
    snprintf(n->id, sizeof n->id, "%.40s-%08x", name, random);
    int slots = remote_workers_slots(opts, n->host); /* 0: as many as the node has */
    AUTO(free) char *places = xasprintf("%d", slots);
    char *argv[] = {w->program, "worker", "--id", n->id, slots > 0 ? "--places" : NULL,
                    places,     NULL};
    strv_free(n->argv);
    n->argv = strv_copy(argv);
    for (char *const *a = opts->args; a && *a; a++)
        strv_push(&n->argv, xstrdup(*a));
    struct launch_spec spec = *opts->spec;
    spec.argv = n->argv;
    spec.env = n->env;
    spec.ranks = 1;
    spec.hosts = n->hosts;
    spec.bind_to = PLAN_BIND_NONE; /* the worker divides the node itself */
    spec.stdin_null = true;
    spec.preflight = false; /* the worker checks its node itself */
    spec.node.no_pmix = true;
    spec.node.no_pty = true; /* the worker writes lines at once */
    *n->last_line = 0;
    return launch_start(&n->job, w->launcher, &spec, &events, n, e);
}

static void start(struct remote_worker *n)
{
    struct err e = {0};
    if (launch(n, &e) == 0)
        return;
    retry_or_give_up(n, e.text);
    if (!n->given_up)
        uv_timer_start(&n->timer, on_timer, (uint64_t)RETRY_MS << n->fast_exits, 0);
}

void remote_workers_start(struct remote_workers *w)
{
    for (int i = 0; i < w->count; i++)
        start(&w->nodes[i]);
}

/* ---- all of them ---------------------------------------------------------------------------- */

bool remote_workers_are_awaited(const struct remote_workers *w, const struct peer_table *peers)
{
    for (int i = 0; i < w->count; i++) {
        const struct peer *p = peer_table_find(peers, w->nodes[i].id);
        if (!w->nodes[i].given_up && (!p || p->lost))
            return true;
    }
    return false;
}

void remote_workers_release(struct remote_workers *w)
{
    w->released = true;
    if (all_ended(w))
        w->ev->released(w->arg);
}

void remote_workers_kill(struct remote_workers *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->nodes[i].job && !w->nodes[i].ended)
            launch_kill(w->nodes[i].job);
}

static void add(struct remote_workers *w, const struct host *h)
{
    struct remote_worker *n = &w->nodes[w->count++];
    n->all = w;
    n->host = h;
    n->hosts = xzalloc(sizeof *n->hosts);
    hosts_add(n->hosts, h->name, 1, 0);
    n->hosts->at[0].port = h->port;
    uv_timer_init(w->loop, &n->timer);
    n->timer.data = n;
    AUTO(free) char *path = xasprintf("%s/worker.%s.log", w->dir, h->name);
    n->log = private_dir_fopen(path, "a");
    if (!n->log)
        log_warn("%s: %s", path, strerror(errno));
    else
        setvbuf(n->log, NULL, _IOLBF, BUFSIZ);
}

int remote_workers_open(struct remote_workers **out, uv_loop_t *loop,
                        const struct remote_workers_opts *opts, const char *dir,
                        const struct remote_workers_events *ev, void *arg, struct err *e)
{
    AUTO(free) char *program = NULL;
    AUTO(free) struct remote_workers *w = xzalloc(sizeof *w);
    if (own_process_dir_above(&program, 0, e) < 0)
        return e ? e->code : -EIO;
    w->loop = loop;
    w->opts = opts;
    w->dir = dir;
    w->ev = ev;
    w->arg = arg;
    int rc = launch_context_open(&w->launcher, loop, opts->guardian, e);
    if (rc < 0)
        return rc;
    w->program = TAKE(program);
    w->nodes = xcalloc((size_t)opts->hosts->count + 1, sizeof *w->nodes);
    for (int i = 0; i < opts->hosts->count; i++)
        if (!opts->hosts->at[i].here)
            add(w, &opts->hosts->at[i]);
    *out = TAKE(w);
    return 0;
}

void remote_workers_close(struct remote_workers *w)
{
    if (!w)
        return;
    w->ev = NULL;
    w->released = true;
    for (int i = 0; i < w->count; i++)
        if (w->nodes[i].job && !w->nodes[i].ended)
            launch_stop(w->nodes[i].job, 0);
    while (!all_ended(w))
        uv_run(w->loop, UV_RUN_ONCE);
    launch_context_close(w->launcher);
    for (int i = 0; i < w->count; i++) {
        uv_close((uv_handle_t *)&w->nodes[i].timer, NULL);
        if (w->nodes[i].log)
            fclose(w->nodes[i].log);
        hosts_free(w->nodes[i].hosts);
        strv_free(w->nodes[i].argv);
        strv_free(w->nodes[i].env);
    }
    (void)uv_run(w->loop, UV_RUN_NOWAIT); /* closes the timers */
    free(w->nodes);
    free(w->program);
    free(w);
}
