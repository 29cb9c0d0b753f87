#include "launcher/doctor/node_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/own_process.h"
#include "common/stop_signals.h"
#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"
#include "launcher/plan/hostfile.h"

enum {
    GRACE_MS = 1000,
    SILENT_MS = 2000 /* when most nodes have answered, another one that is silent for longer … */
};

static int on_ssh_args(void *into, char *const *values, struct err *e)
{
    return setenv("OMPI_MCA_plm_rsh_args", values[0], 1) == 0
               ? 0
               : err_set(e, -errno, "--ssh-args: %s", strerror(errno));
}

const struct opt node_query_options[] = {
    OPT_STR('f', "hostfile", "FILE", "file with the nodes (default: this machine)",
            struct node_query_nodes, file),
    OPT_STR('H', "host", "LIST", "list of the nodes: c01,c02", struct node_query_nodes, list),
    OPT_CALL(0, "ssh-args", "ARGS", "arguments for ssh: '-p 2222 -i KEY'", on_ssh_args),
    OPT_END,
};

int node_query_hosts(struct hosts **out, const struct node_query_nodes *n, struct err *e)
{
    int rc = 0;
    AUTO(hosts) struct hosts *of_file = NULL, *of_list = NULL;
    if (n->file && (rc = hostfile_read(&of_file, n->file, e)) < 0)
        return rc;
    if (n->list) {
        of_list = xzalloc(sizeof *of_list);
        if ((rc = hostfile_list(of_list, n->list, e)) < 0)
            return rc;
    }
    if (n->file && n->list)
        rc = hostfile_filter(out, of_file, of_list, e);
    else
        *out = n->file ? TAKE(of_file) : TAKE(of_list);
    if (rc == 0 && *out)
        hostfile_mark_here(*out);
    return rc;
}

struct launch_spec node_query_spec(const struct hosts *host, char *const *argv,
                                   int start_timeout_ms)
{
    return (struct launch_spec){.ranks = 1,
                                .argv = argv,
                                .hosts = host,
                                .bind_to = PLAN_BIND_NONE,
                                .oversubscribe = true,
                                /* One ssh per node: mpirun would add two processes to each. */
                                .remote_engine = "ssh",
                                .start_timeout_ms = start_timeout_ms,
                                .grace_ms = GRACE_MS,
                                .node.no_pmix = true,
                                .node.no_pty = true,
                                .stdin_null = true};
}

const char *node_query_failure(const struct job_end *end)
{
    const struct rank_end *r = end->first_failed >= 0 ? &end->first : NULL;
    return r && r->start_error[0] ? r->start_error : r && r->lost ? r->lost_how : end->broken;
}

/* The job on one host. */
struct query {
    struct queries *all;
    struct hosts host; /* a list of one; borrows its entry */
    struct launch *launch;
    struct strbuf text;
    struct node_answer *answer;
};

struct queries {
    struct query *at;
    int count, running, deadline_ms;
    int64_t begin_ms;
    uv_timer_t timer;
};

static int elapsed_ms(const struct queries *all)
{
    return (int)(clock_ms() - all->begin_ms);
}

static void on_deadline(uv_timer_t *t);

/* A node has answered. When half of them have, the others get as much time again, but at least
 * SILENT_MS since the last answer. */
static void shorten_deadline(struct queries *all)
{
    int elapsed = elapsed_ms(all), left = all->deadline_ms - elapsed;
    int more = elapsed > SILENT_MS ? elapsed : SILENT_MS;
    if (all->running > 0 && 2 * all->running <= all->count && more < left)
        uv_timer_start(&all->timer, on_deadline, (uint64_t)more, 0);
}

static double wall_s(void)
{
    return (double)clock_ms_of(CLOCK_REALTIME) / 1e3;
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct query *q = arg;
    if (from == LAUNCH_STDERR) {
        fprintf(stderr, "%s: %.*s\n", q->host.at->name, (int)len, text);
        return true;
    }
    strbuf_add(&q->text, text, len);
    q->answer->end_s = wall_s();
    if (text[len])
        strbuf_puts(&q->text, "\n");
    return true;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct query *q = arg;
    struct err *e = &q->answer->error;
    q->all->running--;
    if (q->text.len)
        q->answer->text = strbuf_take(&q->text);
    else if (end->stopped && !e->code)
        err_set(e, -EINTR, "%s: stopped", q->host.at->name);
    else if (!e->code) {
        const char *why = node_query_failure(end), *name = q->host.at->name;
        AUTO(free) char *prefix = xasprintf("host %s: ", name);
        if (why && strncmp(why, prefix, strlen(prefix)) == 0)
            why += strlen(prefix);
        err_set(e, -EIO, "%s: %s", name, why ? why : "drover ended without an answer");
    }
    shorten_deadline(q->all);
}

static void kill_all(struct queries *all)
{
    for (int i = 0; i < all->count; i++)
        if (all->at[i].launch)
            launch_kill(all->at[i].launch);
}

static void on_stop_request(void *arg, int number, bool again)
{
    kill_all(arg);
}

static void on_deadline(uv_timer_t *t)
{
    struct queries *all = t->data;
    for (int i = 0; i < all->count; i++) {
        struct node_answer *a = all->at[i].answer;
        if (!a->text && !a->error.code)
            err_set(&a->error, -ETIMEDOUT, "%s: no answer within %.1f s", all->at[i].host.at->name,
                    elapsed_ms(all) / 1e3);
    }
    kill_all(all);
}

static void start(struct query *q, struct launch_context *l, char *const *argv)
{
    static const struct launch_events events = {.line = on_line, .ended = on_ended};
    const struct launch_spec spec = node_query_spec(&q->host, argv, q->all->deadline_ms);
    q->answer->begin_s = wall_s();
    if (launch_start(&q->launch, l, &spec, &events, q, &q->answer->error) == 0)
        q->all->running++;
}

static void run(struct queries *all, uv_loop_t *loop, struct launch_context *l, char *const *argv)
{
    struct stop_signals signals;
    all->begin_ms = clock_ms();
    uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    uv_timer_start(&all->timer, on_deadline, (uint64_t)all->deadline_ms, 0);
    stop_signals_open(&signals, loop, on_stop_request, all);
    for (int i = 0; i < all->count; i++)
        start(&all->at[i], l, argv);
    while (all->running > 0)
        uv_run(loop, UV_RUN_ONCE);
    for (int i = 0; i < all->count; i++)
        launch_free(all->at[i].launch);
    stop_signals_close(&signals);
    uv_close((uv_handle_t *)&all->timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT); /* closes the timer, which is on the caller's stack */
}

static int run_with_guardian(struct queries *all, char *const *argv, struct err *e)
{
    AUTO(guardian) struct guardian *g = NULL;
    int rc = guardian_start(&g, e);
    if (rc < 0)
        return rc;
    uv_loop_t *loop = uv_default_loop();
    if (!loop)
        return err_set(e, -errno, "event loop: %s", strerror(errno));
    struct launch_context *l = NULL;
    rc = launch_context_open(&l, loop, g, e);
    if (rc == 0) {
        run(all, loop, l, argv);
        launch_context_close(l);
    }
    uv_run(loop, UV_RUN_DEFAULT); /* until all handles are closed */
    return rc;
}

int node_query(struct node_answer *out, const struct hosts *hosts, const char *const *argv,
               int deadline_ms, struct err *e)
{
    AUTO(free) char *self = NULL;
    int rc = own_process_dir_above(&self, 0, e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **line = NULL;
    strv_push(&line, xstrdup(self));
    for (; *argv; argv++)
        strv_push(&line, xstrdup(*argv));
    AUTO(free) struct query *at = xcalloc((size_t)hosts->count, sizeof *at);
    struct queries all = {.at = at, .count = hosts->count, .deadline_ms = deadline_ms};
    for (int i = 0; i < hosts->count; i++) {
        out[i] = (struct node_answer){0};
        at[i] = (struct query){.all = &all, .host = {&hosts->at[i], 1}, .answer = &out[i]};
    }
    rc = run_with_guardian(&all, line, e);
    for (int i = 0; i < hosts->count; i++)
        strbuf_free(&at[i].text);
    return rc;
}

void node_query_free(struct node_answer *a, int count)
{
    for (int i = 0; i < count; i++)
        free(a[i].text);
    free(a);
}
