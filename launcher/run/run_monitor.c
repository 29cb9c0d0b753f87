#include "launcher/run/run_monitor.h"

#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/redact.h"
#include "launcher/monitor/mpi_singletons.h"
#include "launcher/registry/job_events.h"
#include "launcher/registry/line_log.h"
#include "launcher/registry/registry.h"
#include "launcher/run/run_hang_report.h"

enum { COUNT_INTERVAL_MS = 10000 };

struct counts {
    uint64_t lines[2], written[2]; /* by stream; `written`: those in the events file */
};

struct run_monitor {
    uv_loop_t *loop;
    const struct run_options *opts;
    struct console *console;
    struct job_events *events;
    struct registry *entry;
    struct line_log *line_log; /* from the first line on */
    bool no_line_log;          /* the line log cannot be created */
    struct launch *job;        /* NULL: no job runs */
    int attempt;
    struct counts *counts; /* by rank */
    bool *ended;           /* by rank */
    /* When the first rank fails in a collective, the positions of all ranks are compared. This is
     * done when the ranks on other nodes have sent their status. */
    bool mismatch_checked;
    int failed;             /* the first rank that failed in a collective */
    bool *ended_then;       /* by rank: had ended before that failure */
    bool *status_requested; /* by rank: its status has not arrived yet … */
    int status_awaited;     /* … number of these ranks */
    struct mpi_singletons *singletons;
    uv_timer_t timer;
};

/* ---- events --------------------------------------------------------------------------------- */

static const char *job_id(const struct run_monitor *m)
{
    return launch_plan(m->job)->job_id;
}

static void emit(struct run_monitor *m, const char *event, json_t *fields)
{
    job_events_write(m->events, event, job_id(m), fields);
}

/* Returns a rank's number in the whole job. The present job may be only an external part of it. */
static int number_of(const struct run_monitor *m, int rank)
{
    return launch_plan(m->job)->first_rank + rank;
}

static json_t *node_of(const struct run_monitor *m, int rank)
{
    const struct plan *p = launch_plan(m->job);
    return json_text(p->nodes[p->ranks[rank].node].name);
}

static char *shown_command(char *const *argv)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, argv);
    return strbuf_take(&b);
}

static void emit_plan(struct run_monitor *m)
{
    const struct plan *p = launch_plan(m->job);
    AUTO(free) char *command = shown_command(p->argv);
    json_t *nodes = json_array();
    for (int i = 0; i < p->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:o, s:i}", "name", json_text(p->nodes[i].name),
                                               "ranks", p->nodes[i].local_size));
    emit(m, "planned",
         json_pack("{s:i, s:i, s:o, s:o}", "attempt", m->attempt, "ranks", p->world_size, "nodes",
                   nodes, "command", json_text(command)));
}

/* Emits one event for each rank that has written lines since the last call. */
static void emit_counts(struct run_monitor *m)
{
    for (int i = 0; i < launch_plan(m->job)->world_size; i++) {
        struct counts *c = &m->counts[i];
        if (memcmp(c->lines, c->written, sizeof c->written) == 0)
            continue;
        memcpy(c->written, c->lines, sizeof c->written);
        emit(m, "lines",
             json_pack("{s:i, s:o, s:I, s:I}", "rank", number_of(m, i), "node", node_of(m, i),
                       "stdout", (json_int_t)c->lines[0], "stderr", (json_int_t)c->lines[1]));
    }
}

static void on_timer(uv_timer_t *t)
{
    emit_counts(t->data);
}

static json_int_t to_ms(double seconds)
{
    return (json_int_t)(seconds * 1000);
}

static json_t *signal_name(int sig)
{
    const char *name = sig ? sigabbrev_np(sig) : NULL;
    AUTO(free) char *whole = name ? xasprintf("SIG%s", name) : xasprintf("%d", sig);
    return sig ? json_string(whole) : json_null();
}

/* ---- the registry --------------------------------------------------------------------------- */

static void register_job(struct run_monitor *m)
{
    const struct plan *p = launch_plan(m->job);
    AUTO(free) char *command = shown_command(p->argv);
    AUTO(strbuf) struct strbuf nodes = {0};
    for (int i = 0; i < p->node_count; i++)
        strbuf_printf(&nodes, "%s%s", i ? "," : "", p->nodes[i].name);
    const char *dir = m->opts->spec.output_dir;
    AUTO(free) char *output = dir ? realpath(dir, NULL) : NULL;
    struct registry_job j = {.id = p->job_id,
                             .command = command,
                             .ranks = p->world_size,
                             .first_rank = p->first_rank,
                             .nodes = (char *)strbuf_str(&nodes),
                             .output_dir = output ? output : (char *)""};
    struct err e = {0};
    if (registry_enter(&m->entry, &j, &e) < 0)
        log_info("'drover ps' does not show this job: %s", e.text);
}

/* Returns true if lines of the rank are kept. Creates the line log with the first one. */
static bool has_line_log(struct run_monitor *m, int rank)
{
    struct err e = {0};
    if (!m->line_log && !m->no_line_log && m->entry &&
        line_log_make(&m->line_log, registry_lines(m->entry), launch_plan(m->job)->world_size, &e) <
            0)
        log_info("'drover logs' does not show this job: %s", e.text);
    m->no_line_log = !m->line_log;
    return m->line_log && rank < line_log_ranks(m->line_log);
}

/* ---- attempts ------------------------------------------------------------------------------- */

/* Stops what needs a running job. The job has ended, but later events may still name it. */
static void stop_watching(struct run_monitor *m)
{
    uv_timer_stop(&m->timer);
    mpi_singletons_close(TAKE(m->singletons));
}

static void forget_attempt(struct run_monitor *m)
{
    stop_watching(m);
    free(TAKE(m->counts));
    free(TAKE(m->ended));
    free(TAKE(m->ended_then));
    free(TAKE(m->status_requested));
    m->job = NULL;
}

static void on_singletons(void *arg, const char *text)
{
    struct run_monitor *m = arg;
    emit(m, "apart", json_pack("{s:o}", "text", json_text(text)));
    AUTO(free) char *line = xasprintf("%s: warn: %s\n", m->opts->program, text);
    console_print(m->console, line);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct run_monitor *m = arg;
    m->counts[rank].lines[from == LAUNCH_STDERR]++;
    /* A progress bar would push out the lines that explain a failure. */
    if (text[len] != '\r' && has_line_log(m, rank))
        line_log_add(m->line_log, rank, text, len);
    return true;
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    struct run_monitor *m = arg;
    if (has_line_log(m, rank))
        line_log_set_partial(m->line_log, rank, text, len);
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct run_monitor *m = arg;
    if (m->events)
        emit(m, "started",
             json_pack("{s:i, s:o, s:i}", "rank", number_of(m, rank), "node", node_of(m, rank),
                       "pid", (int)pid));
}

static void print_mismatch(struct run_monitor *m)
{
    struct collective_position at;
    launch_last_collective(m->job, m->failed, &at);
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: rank %d %s a collective%s%s\n", m->opts->program,
                  number_of(m, m->failed), m->ended_then[m->failed] ? "exited before" : "failed in",
                  at.failed ? ": " : "", at.failed ? strerror(-at.failed) : "");
    if (run_hang_report_collectives(&b, m->job, m->ended_then) || at.failed)
        console_print(m->console, strbuf_str(&b));
}

static void on_rank_status(void *arg, int rank)
{
    struct run_monitor *m = arg;
    m->status_awaited -= m->status_requested[rank];
    if (m->status_requested[rank] && m->status_awaited == 0)
        print_mismatch(m);
    m->status_requested[rank] = false;
}

/* Starts the comparison of the ranks' collectives at the first rank that ends because a collective
 * failed, inside a collective, or too early for one. The other ranks are still where they were. The
 * status of ranks on other nodes arrives before they end. */
static void check_mismatch(struct run_monitor *m, const struct rank_end *r)
{
    struct collective_position at;
    launch_last_collective(m->job, r->rank, &at);
    bool by_itself = job_rank_status(r) != 0 && (r->aborted || !r->told_to_stop);
    if (m->mismatch_checked || !by_itself || (!at.failed && !at.waits_ms && !r->mpi_fault))
        return;
    m->mismatch_checked = true;
    m->failed = r->rank;
    memcpy(m->ended_then, m->ended, (size_t)launch_plan(m->job)->world_size * sizeof *m->ended);
    m->ended_then[r->rank] = r->mpi_fault != JOB_MPI_NO_FAULT;
    m->status_awaited = launch_request_status(m->job, m->status_requested);
    if (m->status_awaited == 0)
        print_mismatch(m);
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct run_monitor *m = arg;
    on_rank_status(m, r->rank); /* no further status of this rank follows */
    check_mismatch(m, r);
    m->ended[r->rank] = true;
    if (!m->events)
        return;
    json_t *j =
        json_pack("{s:i, s:o, s:i, s:o, s:b, s:f}", "rank", number_of(m, r->rank), "node",
                  node_of(m, r->rank), "status", job_rank_status(r), "signal",
                  signal_name(r->signal), "told_to_stop", r->told_to_stop, "seconds", r->seconds);
    if (r->start_status)
        json_object_set_new(j, "not_started", json_text(r->start_error));
    if (r->mpi_fault)
        json_object_set_new(j, "mpi_fault", json_text(job_mpi_fault_text(r->mpi_fault)));
    emit(m, "exit", j);
}

/* ---- events of the session ------------------------------------------------------------------ */

void run_monitor_attach(struct run_monitor *m, struct launch *job, int attempt)
{
    static const struct launch_events events = {.line = on_line,
                                                .partial_line = on_partial_line,
                                                .rank_started = on_rank_started,
                                                .rank_status = on_rank_status,
                                                .rank_ended = on_rank_ended};
    const struct plan *p = launch_plan(job);
    forget_attempt(m); /* the previous attempt */
    m->job = job;
    m->attempt = attempt;
    m->counts = xcalloc((size_t)p->world_size, sizeof *m->counts);
    m->ended = xcalloc((size_t)p->world_size, sizeof *m->ended);
    m->ended_then = xcalloc((size_t)p->world_size, sizeof *m->ended_then);
    m->status_requested = xcalloc((size_t)p->world_size, sizeof *m->status_requested);
    m->mismatch_checked = false;
    m->status_awaited = 0;
    emit_plan(m);
    if (m->events)
        uv_timer_start(&m->timer, on_timer, COUNT_INTERVAL_MS, COUNT_INTERVAL_MS);
    if (!m->entry)
        register_job(m);
    m->singletons = mpi_singletons_open(m->loop, job, on_singletons, m);
    launch_observe(job, &events, m);
}

void run_monitor_event(struct run_monitor *m, const char *event, json_t *fields)
{
    emit(m, event, fields);
}

void run_monitor_ended(struct run_monitor *m, const struct job_end *end, int status)
{
    if (m->events)
        emit_counts(m);
    mpi_singletons_ended(m->singletons, end);
    emit(m, "ended",
         json_pack(
             "{s:i, s:i, s:o, s:b, s:I}", "attempt", m->attempt, "status", status, "first_failed",
             end->first_failed < 0 ? json_null() : json_integer(number_of(m, end->first_failed)),
             "stopped", end->stopped, "ms", to_ms(end->seconds)));
    stop_watching(m);
}

void run_monitor_restart(struct run_monitor *m, int attempt, int pause_ms, char *const *excluded)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *hosts = json_array();
    for (size_t i = 0; excluded && excluded[i]; i++) {
        json_array_append_new(hosts, json_text(excluded[i]));
        strbuf_printf(&b, "%s: excluding host %s: it failed twice or more\n", m->opts->program,
                      excluded[i]);
    }
    strbuf_printf(&b, "%s: restarting the job in %d s (restart %d of %d)\n", m->opts->program,
                  pause_ms / 1000, attempt, m->opts->spec.max_restarts);
    console_print(m->console, strbuf_str(&b));
    emit(m, "restart",
         json_pack("{s:i, s:i, s:o}", "attempt", attempt, "pause_ms", pause_ms, "left_out", hosts));
}

/* ---- open and close ------------------------------------------------------------------------- */

int run_monitor_open(struct run_monitor **out, uv_loop_t *loop, const struct run_options *o,
                     struct console *console, struct err *e)
{
    struct job_events *events = NULL;
    if (o->events_file && job_events_open(&events, o->events_file, e) < 0)
        return e ? e->code : -EIO;
    struct run_monitor *m = xzalloc(sizeof *m);
    m->loop = loop;
    m->opts = o;
    m->console = console;
    m->events = events;
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    *out = m;
    return 0;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_monitor_close(struct run_monitor *m)
{
    if (!m)
        return;
    forget_attempt(m);
    line_log_close(m->line_log);
    registry_leave(m->entry);
    job_events_close(m->events);
    uv_close((uv_handle_t *)&m->timer, on_closed);
}
