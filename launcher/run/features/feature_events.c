/* feature_events - what others see of the job: its events in a file (--events), and its registry
 * entry with its last lines for `drover ps` and `drover logs`. */
#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/redact.h"
#include "launcher/jobs/job_events.h"
#include "launcher/jobs/line_log.h"
#include "launcher/jobs/registry.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/first_cause.h"

enum { COUNT_INTERVAL_MS = 10000 };

struct counts {
    uint64_t lines[2], written[2]; /* by stream; `written`: those in the events file */
};

struct events {
    FEATURE_STATE;
    struct job_events *file; /* NULL: no --events */
    struct registry *entry;
    struct line_log *line_log; /* from the first line on */
    bool no_line_log;          /* the line log cannot be created */
    char *job_id;              /* of the present attempt; NULL: none has begun */
    struct counts *counts;     /* by rank */
};

/* ---- events --------------------------------------------------------------------------------- */

static void emit(const struct events *m, const char *event, json_t *fields)
{
    feature_record(m->run, event, fields);
}

static void record(void *state, const char *event, json_t *fields)
{
    const struct events *m = state;
    job_events_write(m->file, event, m->job_id, json_incref(fields));
}

/* Returns a rank's number in the whole job. The present job may be only an external part of it. */
static int number_of(const struct events *m, int rank)
{
    return m->run->plan->first_rank + rank;
}

static json_t *node_of(const struct events *m, int rank)
{
    const struct plan *p = m->run->plan;
    return json_text(p->nodes[p->ranks[rank].node].name);
}

static char *shown_command(char *const *argv)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, argv);
    return strbuf_take(&b);
}

static void emit_plan(struct events *m)
{
    const struct plan *p = m->run->plan;
    AUTO(free) char *command = shown_command(p->argv);
    json_t *nodes = json_array();
    for (int i = 0; i < p->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:o, s:i}", "name", json_text(p->nodes[i].name),
                                               "ranks", p->nodes[i].local_size));
    emit(m, "planned",
         json_pack("{s:i, s:i, s:o, s:o}", "attempt", m->run->attempt, "ranks", p->world_size,
                   "nodes", nodes, "command", json_text(command)));
}

/* Emits one event for each rank that has written lines since the last call. */
static void emit_counts(struct events *m)
{
    for (int i = 0; i < m->run->plan->world_size; i++) {
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

static json_t *signal_name(int sig)
{
    const char *name = sig ? sigabbrev_np(sig) : NULL;
    AUTO(free) char *whole = name ? xasprintf("SIG%s", name) : xasprintf("%d", sig);
    return sig ? json_string(whole) : json_null();
}

/* ---- the registry --------------------------------------------------------------------------- */

static void register_job(struct events *m)
{
    const struct plan *p = m->run->plan;
    AUTO(free) char *command = shown_command(p->argv);
    AUTO(strbuf) struct strbuf nodes = {0};
    for (int i = 0; i < p->node_count; i++)
        strbuf_printf(&nodes, "%s%s", i ? "," : "", p->nodes[i].name);
    const char *dir = m->run->spec->output_dir;
    AUTO(free) char *output = dir ? realpath(dir, NULL) : NULL;
    struct registry_job j = {.id = p->job_id,
                             .command = command,
                             .ranks = p->world_size,
                             .first_rank = p->first_rank,
                             .nodes = strbuf_str(&nodes),
                             .output_dir = output ? output : ""};
    struct err e = {0};
    if (registry_enter(&m->entry, &j, &e) < 0)
        log_info("'drover ps' does not show this job: %s", e.text);
}

/* Returns true if lines of the rank are kept. Creates the line log with the first one. */
static bool has_line_log(struct events *m, int rank)
{
    struct err e = {0};
    if (!m->line_log && !m->no_line_log && m->entry &&
        line_log_make(&m->line_log, registry_lines(m->entry), m->run->plan->world_size, &e) < 0)
        log_info("'drover logs' does not show this job: %s", e.text);
    m->no_line_log = !m->line_log;
    m->run->lines = m->line_log;
    return m->line_log && rank < line_log_ranks(m->line_log);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct events *m = arg;
    m->counts[rank].lines[from == LAUNCH_STDERR]++;
    /* A progress bar would push out the lines that explain a failure. */
    if (text[len] != '\r' && has_line_log(m, rank))
        line_log_add(m->line_log, rank, text, len);
    return true;
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    struct events *m = arg;
    if (has_line_log(m, rank))
        line_log_set_partial(m->line_log, rank, text, len);
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct events *m = arg;
    emit(m, "started",
         json_pack("{s:i, s:o, s:i}", "rank", number_of(m, rank), "node", node_of(m, rank), "pid",
                   (int)pid));
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct events *m = arg;
    json_t *j = json_pack("{s:i, s:o, s:i, s:o, s:b, s:I, s:f}", "rank", number_of(m, r->rank),
                          "node", node_of(m, r->rank), "status", job_rank_status(r), "signal",
                          signal_name(r->signal), "told_to_stop", r->told_to_stop, "ms",
                          (json_int_t)(r->seconds * 1000), "seconds", r->seconds);
    if (r->start_status)
        json_object_set_new(j, "not_started", json_text(r->start_error));
    if (r->mpi_fault)
        json_object_set_new(j, "mpi_fault", json_text(job_mpi_fault_text(r->mpi_fault)));
    emit(m, "exit", j);
}

/* ---- the run -------------------------------------------------------------------------------- */

static int open_file(void *state, struct err *e)
{
    struct events *m = state;
    return m->run->set->events ? job_events_open(&m->file, m->run->set->events, e) : 0;
}

static void attach(void *state)
{
    struct events *m = state;
    const struct plan *p = m->run->plan;
    free(m->counts);
    free(m->job_id);
    m->counts = xcalloc((size_t)p->world_size, sizeof *m->counts);
    m->job_id = xstrdup(p->job_id);
    emit_plan(m);
    if (m->file)
        uv_timer_start(m->timer, on_timer, COUNT_INTERVAL_MS, COUNT_INTERVAL_MS);
    if (!m->entry)
        register_job(m);
}

static void ended(void *state, const struct job_end *end, int status)
{
    struct events *m = state;
    if (m->file)
        emit_counts(m);
    json_t *failed =
        end->first_failed < 0 ? json_null() : json_integer(number_of(m, end->first_failed));
    AUTO(strbuf) struct strbuf why = {0};
    const struct first_cause *c = m->run->cause;
    first_cause_write(&why, c, end->ranks_count, m->run->plan->first_rank);
    emit(m, "ended",
         json_pack("{s:i, s:i, s:o, s:o, s:o, s:b, s:I, s:O*}", "attempt", m->run->attempt,
                   "status", status, "first_failed", failed, "cause",
                   why.len ? json_text(strbuf_str(&why)) : json_null(), "cause_rank",
                   c->rank < 0 ? json_null() : json_integer(number_of(m, c->rank)), "stopped",
                   end->stopped, "ms", (json_int_t)(end->seconds * 1000), "failed_gpu",
                   m->run->failed_gpu));
}

static void close_file(void *state)
{
    struct events *m = state;
    free(m->counts);
    free(m->job_id);
    line_log_close(m->line_log);
    registry_leave(m->entry);
    job_events_close(m->file);
}

const struct feature feature_events = {
    .options = {OPT_STR(0, "events", "FILE", "append events to FILE, one JSON object per line",
                        struct feature_settings, events)},
    .size = sizeof(struct events),
    .open = open_file,
    .attach = attach,
    .events = {.line = on_line,
               .partial_line = on_partial_line,
               .rank_started = on_rank_started,
               .rank_ended = on_rank_ended},
    .record = record,
    .ended = ended,
    .close = close_file,
};
