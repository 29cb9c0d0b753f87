#include "launcher/doctor/node_query.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "common/mem.h"
#include "common/own_process.h"
#include "common/stop_signals.h"
#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/guardian/guardian.h"

enum { GRACE_MS = 1000, START_MS = 20000 };

struct query {
    struct launch *launch;
    const struct hosts *hosts;
    struct strbuf *texts; /* by rank, and so by host */
    bool ended;
    struct err *error;
};

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct query *q = arg;
    if (from == LAUNCH_STDERR) {
        fprintf(stderr, "%s: %.*s\n", q->hosts->at[rank].name, (int)len, text);
        return true;
    }
    strbuf_add(&q->texts[rank], text, len);
    if (text[len])
        strbuf_puts(&q->texts[rank], "\n");
    return true;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct query *q = arg;
    q->ended = true;
    if (end->status == 0)
        return;
    if (end->first_failed < 0)
        err_set(q->error, -EIO, "%s", end->broken ? end->broken : "stopped");
    else if (end->first.start_error[0])
        err_set(q->error, -EIO, "%s cannot be asked: %s", q->hosts->at[end->first_failed].name,
                end->first.start_error);
    else
        err_set(q->error, -EIO, "%s: drover ended with status %d",
                q->hosts->at[end->first_failed].name, end->status);
}

static void on_stop_request(void *arg, int number, bool again)
{
    struct query *q = arg;
    launch_kill(q->launch);
}

static int run(struct query *q, uv_loop_t *loop, struct launch_context *l,
               const struct launch_spec *spec, struct err *e)
{
    static const struct launch_events events = {.line = on_line, .ended = on_ended};
    struct stop_signals signals;
    int rc = launch_start(&q->launch, l, spec, &events, q, e);
    if (rc < 0)
        return rc;
    stop_signals_open(&signals, loop, on_stop_request, q);
    while (!q->ended)
        uv_run(loop, UV_RUN_ONCE);
    launch_free(q->launch);
    stop_signals_close(&signals);
    return q->error->code;
}

static int query(struct query *q, const struct launch_spec *spec, struct err *e)
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
        rc = run(q, loop, l, spec, e);
        launch_context_close(l);
    }
    uv_run(loop, UV_RUN_DEFAULT); /* until all handles are closed */
    return rc;
}

int node_query(char ***out, const struct hosts *hosts, const char *const *argv, struct err *e)
{
    AUTO(free) char *self = NULL;
    int rc = own_process_dir_above(&self, 0, e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **line = NULL;
    strv_push(&line, xstrdup(self));
    for (; *argv; argv++)
        strv_push(&line, xstrdup(*argv));
    const struct launch_spec spec = {.ranks = hosts->count,
                                     .argv = line,
                                     .per_node = 1,
                                     .hosts = hosts,
                                     .bind_to = PLAN_BIND_NONE,
                                     .oversubscribe = true,
                                     .start_timeout_ms = START_MS,
                                     .grace_ms = GRACE_MS,
                                     .no_pmix = true,
                                     .no_pty = true,
                                     .stdin_null = true};
    struct query q = {.hosts = hosts, .error = e};
    q.texts = xcalloc((size_t)hosts->count, sizeof *q.texts);
    rc = query(&q, &spec, e);
    for (int i = 0; i < hosts->count; i++) {
        if (rc == 0)
            strv_push(out, xstrdup(strbuf_str(&q.texts[i])));
        strbuf_free(&q.texts[i]);
    }
    free(q.texts);
    return rc;
}
