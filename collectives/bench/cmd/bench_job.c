#include "collectives/bench/cmd/bench_job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/own_process.h"
#include "common/stop_signals.h"
#include "launcher/engine/launch.h"
#include "launcher/guardian/guardian.h"
#include "launcher/run/run_options.h"
#include "launcher/watch/first_cause.h"

enum { GRACE_MS = 3000, SILENT_MS = 500, LOOK_MS = 2000, STATUS_SIGNAL = 128 };

struct run {
    struct launch *launch;
    struct stop_signals signals;
    bool ended;
    int status;
    uv_timer_t silence;
    bool *stopped;   /* by rank: it was named as stopped */
    int write_error; /* errno of the first line that could not be written, or EPIPE; 0: none */
};

/* Logs the failure of a rank that was killed or not started. A rank that exits has printed its
 * error itself. */
static void log_failure(const struct rank_end *r)
{
    if (r->start_error[0])
        log_error("rank %d: %s", r->rank, r->start_error);
    else if (r->oom_killed)
        log_error("rank %d: killed: out of memory", r->rank);
    else if (r->mpi_fault)
        log_error("rank %d exited with status 0 %s", r->rank, job_mpi_fault_text(r->mpi_fault));
    else if (r->signal)
        log_error("rank %d was killed by signal %d (%s)", r->rank, r->signal, strsignal(r->signal));
}

/* Names the first rank that failed, the rank whose failure explains it, and the cause. */
static void log_cause(const struct job_end *end)
{
    AUTO(strbuf) struct strbuf why = {0};
    struct first_cause c;
    log_failure(&end->first);
    first_cause_find(&c, end->first_failed, end->ranks, end->ranks_count);
    first_cause_write(&why, &c, end->ranks_count, 0);
    if (why.len)
        log_error("cause: rank %d: %s", c.rank, strbuf_str(&why));
    first_cause_clear(&c);
}

/* Names ranks that are stopped (SIGSTOP, a debugger). The other ranks wait for them, and only these
 * other ranks would report an error. */
static void name_stopped(struct run *j)
{
    int n = launch_plan(j->launch)->world_size;
    AUTO(free) struct rank_status *all = xcalloc((size_t)n, sizeof *all);
    if (launch_sample_status(j->launch, all) < 0)
        return;
    for (int r = 0; r < n; r++) {
        bool stopped = all[r].at.state == 'T' || all[r].at.state == 't';
        if (stopped && !j->stopped[r])
            log_error("rank %d is stopped (process %d)", r, (int)all[r].at.pid);
        j->stopped[r] = stopped;
    }
}

/* No line was printed for a while, so ranks may wait for a stopped one. */
static void on_silence(uv_timer_t *timer)
{
    name_stopped(timer->data);
}

static void await_silence(struct run *j)
{
    uv_timer_start(&j->silence, on_silence, SILENT_MS, LOOK_MS);
}

/* Keeps the first error of writing; the measurement continues. It ends if the reader of the output
 * has closed it. */
static void keep_error(struct run *j, int error)
{
    if (error == EPIPE && j->write_error != EPIPE) {
        log_error("the output has no reader any more: stopping the ranks");
        launch_stop(j->launch, 0);
    }
    j->write_error = error == EPIPE || j->write_error == 0 ? error : j->write_error;
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct run *j = arg;
    FILE *to = from == LAUNCH_STDOUT ? stdout : stderr;
    fwrite(text, 1, len, to);
    fputc(text[len] == '\r' ? '\r' : '\n', to);
    if (fflush(to) != 0) /* the table appears row by row */
        keep_error(j, errno);
    await_silence(j);
    return true;
}

static void on_ended(void *arg, const struct job_end *end)
{
    struct run *j = arg;
    j->status = end->status;
    if (end->broken && !end->stopped)
        log_error("the ranks were stopped: %s", end->broken);
    if (end->first_failed >= 0 && !end->stopped)
        log_cause(end);
    j->ended = true;
}

static void on_stop_request(void *arg, int number, bool again)
{
    struct run *j = arg;
    if (again) {
        launch_kill(j->launch);
        return;
    }
    launch_interrupt(j->launch, number);
    launch_log_stopping(j->launch);
}

static int run_on(uv_loop_t *loop, struct launch_context *l, const struct bench_job *b,
                  const struct launch_spec *spec, struct err *e)
{
    static const struct launch_events events = {.line = on_line, .ended = on_ended};
    struct run j = {0};
    int rc = launch_start(&j.launch, l, spec, &events, &j, e);
    if (rc < 0)
        return rc;
    AUTO(free)
    bool *stopped = xcalloc((size_t)launch_plan(j.launch)->world_size, sizeof *stopped);
    j.stopped = stopped;
    uv_timer_init(loop, &j.silence);
    j.silence.data = &j;
    await_silence(&j);
    stop_signals_open(&j.signals, loop, on_stop_request, &j);
    if (b->started && (rc = b->started(b->arg, l, j.launch, e)) < 0)
        launch_kill(j.launch);
    while (!j.ended || (b->running && b->running(b->arg)))
        uv_run(loop, UV_RUN_ONCE);
    launch_free(j.launch);
    stop_signals_close(&j.signals);
    uv_close((uv_handle_t *)&j.silence, NULL);
    uv_run(loop, UV_RUN_NOWAIT); /* closes the handles, which are in `j` */
    if (rc == 0 && j.write_error == EPIPE)
        return STATUS_SIGNAL + SIGPIPE; /* as if SIGPIPE had ended drover; so does `drover run` */
    if (rc == 0 && j.status == 0 && j.write_error)
        rc = err_set(e, -EIO, "the output cannot be written: %s", strerror(j.write_error));
    return rc < 0 ? rc : j.status;
}

static int run_spec(const struct bench_job *b, const struct launch_spec *spec, struct err *e)
{
    AUTO(guardian) struct guardian *g = NULL;
    int rc = b->guardian ? 0 : guardian_start(&g, e);
    if (rc < 0)
        return rc;
    uv_loop_t *loop = uv_default_loop();
    if (!loop)
        return err_set(e, -errno, "event loop: %s", strerror(errno));
    struct launch_context *l = NULL;
    rc = launch_context_open(&l, loop, b->guardian ? b->guardian : g, e);
    if (rc == 0) {
        rc = run_on(loop, l, b, spec, e);
        launch_context_close(l);
    }
    uv_run(loop, UV_RUN_DEFAULT); /* until all handles are closed */
    return rc;
}

static void push_all(char ***to, char *const *words)
{
    for (size_t i = 0; i < strv_len(words); i++)
        strv_push(to, xstrdup(words[i]));
}

int bench_job_run(const struct bench_job *b, struct err *e)
{
    char *self = NULL;
    if (own_process_dir_above(&self, 0, e) < 0)
        return e ? e->code : -EIO;
    AUTO(strv) char **line = NULL;
    strv_push(&line, xstrdup("drover bench"));
    if (b->ranks) {
        strv_push(&line, xstrdup("-np"));
        strv_push(&line, xasprintf("%d", b->ranks));
    }
    push_all(&line, b->launch);
    strv_push(&line, xstrdup("--"));
    strv_push(&line, self);
    push_all(&line, b->argv + 1);
    struct run_options o;
    int rc = run_options_parse(&o, "drover bench", (int)strv_len(line), line, e);
    if (rc == 0) {
        push_all(&o.env, b->env);
        o.spec.env = o.env;
        o.spec.grace_ms = GRACE_MS;
        o.spec.stdin_null = true;
        o.spec.preflight = false; /* a bench also runs to find what is wrong with a node */
        o.spec.engine = b->engine ? b->engine : o.spec.engine;
        o.spec.node.no_pty = true; /* a bench flushes its lines */
        rc = run_spec(b, &o.spec, e);
    }
    run_options_free(&o);
    return rc;
}
