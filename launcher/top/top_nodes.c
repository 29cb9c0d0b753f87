#include "launcher/top/top_nodes.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/own_process.h"
#include "launcher/doctor/node_query.h"
#include "launcher/engine/launch.h"
#include "launcher/guardian/guardian.h"
#include "launcher/top/top_json.h"

enum { START_MS = 20000, RETRY_MS = 5000, CHECK_MS = 500, END_MS = 1000 };

/* A node, and the job on it. */
struct one {
    struct top_nodes *all;
    struct hosts host; /* a list of one; borrows its entry */
    struct launch *launch;
    bool running;
    struct top_node latest; /* of its last line */
    int64_t line_ms;        /* when it arrived; 0: none has */
    int64_t ended_ms;       /* when the last job ended */
    char failure[400];      /* why the last job ended; empty: it runs, or has not started */
    char said[400];         /* its last line on stderr */
};

struct top_nodes {
    uv_loop_t *loop;
    uv_timer_t timer; /* starts nodes again */
    struct guardian *guardian;
    struct launch_context *context;
    char **argv;
    struct one *at;
    struct top_node *shown; /* borrows from `latest` */
    int count, late_ms;
    int64_t changes;
    bool closing;
};

/* ---- the job on a node ---------------------------------------------------------------------- */

static void on_answer(struct one *o, const char *text, size_t len)
{
    AUTO(json) json_t *j = NULL;
    AUTO(top_node) struct top_node new = {0};
    struct err e = {0};
    int rc = json_parse(&j, text, len, &e);
    if (rc == 0)
        rc = top_json_read(&new, j, &e);
    if (rc < 0) {
        snprintf(o->said, sizeof o->said, "unexpected output: %.380s", e.text);
        return;
    }
    snprintf(new.name, sizeof new.name, "%s", o->host.at->name);
    top_node_end(&o->latest);
    o->latest = new;
    new = (struct top_node){0};
    o->line_ms = clock_ms();
    o->failure[0] = '\0';
    o->all->changes++;
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct one *o = arg;
    if (from == LAUNCH_STDOUT)
        on_answer(o, text, len);
    else
        snprintf(o->said, sizeof o->said, "%.*s", (int)len, text);
    return true;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct one *o = arg;
    const char *why = node_query_failure(end);
    if (!why)
        why = o->said[0] ? o->said : "drover top has ended";
    snprintf(o->failure, sizeof o->failure, "no answer: %.380s", why);
    o->running = false;
    o->ended_ms = clock_ms();
    o->all->changes++;
}

static void start(struct one *o)
{
    static const struct launch_events events = {.line = on_line, .ended = on_ended};
    const struct launch_spec spec = node_query_spec(&o->host, o->all->argv, START_MS);
    struct err e = {0};
    launch_free(TAKE(o->launch));
    o->said[0] = '\0';
    o->running = launch_start(&o->launch, o->all->context, &spec, &events, o, &e) == 0;
    if (o->running)
        return;
    snprintf(o->failure, sizeof o->failure, "no answer: %.380s", e.text);
    o->ended_ms = clock_ms();
    o->all->changes++;
}

static void on_timer(uv_timer_t *t)
{
    struct top_nodes *n = t->data;
    for (int i = 0; i < n->count && !n->closing; i++)
        if (!n->at[i].running && clock_ms() - n->at[i].ended_ms > RETRY_MS)
            start(&n->at[i]);
}

/* ---- open and close ------------------------------------------------------------------------- */

static void make_argv(struct top_nodes *n, char *self, double interval_s)
{
    strv_push(&n->argv, self);
    strv_push(&n->argv, xstrdup("top"));
    strv_push(&n->argv, xstrdup("--json"));
    strv_push(&n->argv, xstrdup("--interval"));
    strv_push(&n->argv, xasprintf("%.3f", interval_s));
}

int top_nodes_open(struct top_nodes **out, uv_loop_t *loop, const struct hosts *hosts,
                   double interval_s, int late_ms, struct err *e)
{
    AUTO(free) char *self = NULL;
    AUTO(guardian) struct guardian *g = NULL;
    struct launch_context *context = NULL;
    int rc = own_process_dir_above(&self, 0, e);
    if (rc == 0)
        rc = guardian_start(&g, e);
    if (rc == 0)
        rc = launch_context_open(&context, loop, g, e);
    if (rc < 0)
        return rc;
    struct top_nodes *n = xzalloc(sizeof *n);
    *n = (struct top_nodes){.loop = loop,
                            .guardian = TAKE(g),
                            .context = context,
                            .count = hosts->count,
                            .late_ms = late_ms,
                            .at = xcalloc((size_t)hosts->count, sizeof *n->at),
                            .shown = xcalloc((size_t)hosts->count, sizeof *n->shown)};
    make_argv(n, TAKE(self), interval_s);
    uv_timer_init(loop, &n->timer);
    n->timer.data = n;
    uv_timer_start(&n->timer, on_timer, CHECK_MS, CHECK_MS);
    for (int i = 0; i < n->count; i++) {
        n->at[i] = (struct one){.all = n, .host = {.at = &hosts->at[i], .count = 1}};
        start(&n->at[i]);
    }
    *out = n;
    return 0;
}

static bool any_runs(const struct top_nodes *n)
{
    for (int i = 0; i < n->count; i++)
        if (n->at[i].running)
            return true;
    return false;
}

void top_nodes_close(struct top_nodes *n)
{
    if (!n)
        return;
    int64_t end_ms = clock_ms() + END_MS;
    n->closing = true;
    for (int i = 0; i < n->count; i++)
        if (n->at[i].running)
            launch_kill(n->at[i].launch);
    while (any_runs(n) && clock_ms() < end_ms)
        uv_run(n->loop, UV_RUN_ONCE); /* the timer keeps it from waiting for long */
    if (any_runs(n))
        return; /* a node is lost: the guardian ends what is left here when this process exits */
    for (int i = 0; i < n->count; i++) {
        launch_free(n->at[i].launch);
        top_node_end(&n->at[i].latest);
    }
    launch_context_close(n->context);
    uv_close((uv_handle_t *)&n->timer, NULL);
    uv_run(n->loop, UV_RUN_DEFAULT); /* until all handles are closed */
    guardian_stop(n->guardian);
    strv_free(n->argv);
    free(n->at);
    free(n->shown);
    free(n);
}

/* ---- read ----------------------------------------------------------------------------------- */

int top_nodes_count(const struct top_nodes *n)
{
    return n->count;
}

const struct top_node *top_nodes_read(struct top_nodes *n)
{
    int64_t now = clock_ms();
    for (int i = 0; i < n->count; i++) {
        const struct one *o = &n->at[i];
        struct top_node silent = {0};
        snprintf(silent.name, sizeof silent.name, "%s", o->host.at->name);
        if (o->failure[0])
            snprintf(silent.problem, sizeof silent.problem, "%s", o->failure);
        else if (!o->line_ms)
            snprintf(silent.problem, sizeof silent.problem, "connecting");
        else if (now - o->line_ms > n->late_ms)
            snprintf(silent.problem, sizeof silent.problem, "no answer for %lld s",
                     (long long)(now - o->line_ms) / 1000);
        n->shown[i] = silent.problem[0] ? silent : o->latest;
    }
    return n->shown;
}

int64_t top_nodes_changes(const struct top_nodes *n)
{
    return n->changes;
}

bool top_nodes_complete(const struct top_nodes *n)
{
    for (int i = 0; i < n->count; i++)
        if (!n->at[i].line_ms && !n->at[i].failure[0])
            return false;
    return true;
}
