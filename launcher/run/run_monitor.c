#include "launcher/run/run_monitor.h"

#include <signal.h>
#include <string.h>

#include "common/log.h"
#include "common/redact.h"
#include "launcher/registry/job_events.h"
#include "launcher/registry/line_log.h"
#include "launcher/registry/registry.h"
#include "launcher/run/mpi_singletons.h"
#include "launcher/run/run_hang_report.h"

enum { COUNT_EVERY_MS = 10000 };

struct counts {
    uint64_t lines[2], told[2]; /* on stdout, on stderr */
};

struct run_monitor {
    uv_loop_t *loop;
    const struct run_options *opts;
    struct run_monitor_events needs;
    struct job_events *events;
    struct registry *entry;
    struct line_log *ring; /* from the first line on */
    bool no_ring;
    struct launch *job; /* NULL: none runs */
    int attempt;
    struct counts *counts; /* by rank */
    bool *over;            /* … */
    bool lined_up;         /* a rank has failed in a collective: … */
    int failed;            /* … this one */
    bool *over_then;       /* who had ended before it */
    bool *asked;           /* who has not said so far where it stands … */
    int awaited;           /* … so many */
    struct run_hang_report *hang;
    struct mpi_singletons *singleton;
    uv_timer_t timer;
};

/* ---- events ------------------------------------------------------------------------------------
 */

static const char *job_id(const struct run_monitor *w)
{
    return launch_plan(w->job)->job_id;
}

static void tell(struct run_monitor *w, const char *what, json_t *fields)
{
    job_events_write(w->events, what, job_id(w), fields);
}

/* What a rank is called: this may be a share of a larger job. */
static int called(const struct run_monitor *w, int rank)
{
    return launch_plan(w->job)->first_rank + rank;
}

static json_t *node_of(const struct run_monitor *w, int rank)
{
    const struct plan *p = launch_plan(w->job);
    return json_text(p->nodes[p->ranks[rank].node].name);
}

static char *shown_command(char *const *argv)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, argv);
    return strbuf_take(&b);
}

static void tell_plan(struct run_monitor *w)
{
    const struct plan *p = launch_plan(w->job);
    AUTO(free) char *command = shown_command(p->argv);
    json_t *nodes = json_array();
    for (int i = 0; i < p->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:o, s:i}", "name", json_text(p->nodes[i].name),
                                               "ranks", p->nodes[i].local_size));
    tell(w, "planned",
         json_pack("{s:i, s:i, s:o, s:o}", "attempt", w->attempt, "ranks", p->world_size, "nodes",
                   nodes, "command", json_text(command)));
}

/* A line for each rank that has written since the last time. */
static void tell_counts(struct run_monitor *w)
{
    for (int i = 0; i < launch_plan(w->job)->world_size; i++) {
        struct counts *c = &w->counts[i];
        if (memcmp(c->lines, c->told, sizeof c->told) == 0)
            continue;
        memcpy(c->told, c->lines, sizeof c->told);
        tell(w, "lines",
             json_pack("{s:i, s:o, s:I, s:I}", "rank", called(w, i), "node", node_of(w, i),
                       "stdout", (json_int_t)c->lines[0], "stderr", (json_int_t)c->lines[1]));
    }
}

static void on_timer(uv_timer_t *t)
{
    tell_counts(t->data);
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

/* ---- the registry ------------------------------------------------------------------------------
 */

static void enter(struct run_monitor *w)
{
    const struct plan *p = launch_plan(w->job);
    AUTO(free) char *command = shown_command(p->argv);
    AUTO(strbuf) struct strbuf nodes = {0};
    for (int i = 0; i < p->node_count; i++)
        strbuf_printf(&nodes, "%s%s", i ? "," : "", p->nodes[i].name);
    const char *dir = w->opts->spec.output_dir;
    AUTO(free) char *output = dir ? realpath(dir, NULL) : NULL;
    struct registry_job j = {.id = p->job_id,
                             .command = command,
                             .ranks = p->world_size,
                             .first_rank = p->first_rank,
                             .nodes = (char *)strbuf_str(&nodes),
                             .output_dir = output ? output : (char *)""};
    struct err e = {0};
    if (registry_enter(&w->entry, &j, &e) < 0)
        log_info("drover ps will not show this job: %s", e.text);
}

static void keep_line(struct run_monitor *w, int rank, const char *text, size_t len)
{
    struct err e = {0};
    if (!w->ring && !w->no_ring && w->entry &&
        line_log_make(&w->ring, registry_lines(w->entry), launch_plan(w->job)->world_size, &e) < 0)
        log_info("drover logs will not show this job's lines: %s", e.text);
    w->no_ring = !w->ring;
    if (w->ring && rank < line_log_ranks(w->ring))
        line_log_add(w->ring, rank, text, len);
}

/* ---- what the job does -------------------------------------------------------------------------
 */

static void on_hang(void *arg, const char *text, json_t *j)
{
    struct run_monitor *w = arg;
    w->needs.say(w->needs.arg, text);
    if (!j)
        return; /* more comes */
    tell(w, "hang", j);
    w->needs.hung(w->needs.arg);
}

/* The job stands no more; it can still be named. */
static void stop_looking(struct run_monitor *w)
{
    uv_timer_stop(&w->timer);
    run_hang_report_close(w->hang);
    mpi_singletons_close(w->singleton);
    w->hang = NULL;
    w->singleton = NULL;
}

static void forget_attempt(struct run_monitor *w)
{
    stop_looking(w);
    free(w->counts);
    free(w->over);
    free(w->over_then);
    free(w->asked);
    w->counts = NULL;
    w->over = w->over_then = w->asked = NULL;
    w->job = NULL;
}

static void on_singleton(void *arg, const char *text)
{
    struct run_monitor *w = arg;
    tell(w, "apart", json_pack("{s:o}", "text", json_text(text)));
    AUTO(free) char *line = xasprintf("%s: warn: %s\n", w->opts->who, text);
    w->needs.say(w->needs.arg, line);
}

void run_monitor_begin(struct run_monitor *w, struct launch *job, int attempt)
{
    const struct plan *p = launch_plan(job);
    forget_attempt(w); /* the one before */
    w->job = job;
    w->attempt = attempt;
    w->counts = xcalloc((size_t)p->world_size, sizeof *w->counts);
    w->over = xcalloc((size_t)p->world_size, sizeof *w->over);
    w->over_then = xcalloc((size_t)p->world_size, sizeof *w->over_then);
    w->asked = xcalloc((size_t)p->world_size, sizeof *w->asked);
    w->lined_up = false;
    w->awaited = 0;
    tell_plan(w);
    if (w->events)
        uv_timer_start(&w->timer, on_timer, COUNT_EVERY_MS, COUNT_EVERY_MS);
    if (!w->entry)
        enter(w);
    if (w->opts->hang_timeout_s > 0)
        w->hang = run_hang_report_open(w->loop, job, w->opts, on_hang, w);
    w->singleton = mpi_singletons_open(w->loop, job, on_singleton, w);
}

void run_monitor_line(struct run_monitor *w, int rank, enum launch_stream from, const char *text,
                      size_t len)
{
    w->counts[rank].lines[from == LAUNCH_STDERR]++;
    run_hang_report_activity(w->hang, rank);
    if (text[len] != '\r') /* a progress bar would push out what is worth keeping */
        keep_line(w, rank, text, len);
}

void run_monitor_report(struct run_monitor *w, int rank)
{
    run_hang_report_activity(w->hang, rank);
}

void run_monitor_rank_started(struct run_monitor *w, int rank, pid_t pid)
{
    if (w->events)
        tell(w, "started",
             json_pack("{s:i, s:o, s:i}", "rank", called(w, rank), "node", node_of(w, rank), "pid",
                       (int)pid));
}

static void tell_collectives(struct run_monitor *w)
{
    struct collective_position at;
    launch_last_collective(w->job, w->failed, &at);
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: rank %d failed in a collective%s%s\n", w->opts->who,
                  called(w, w->failed), at.failed ? ": " : "",
                  at.failed ? strerror(-at.failed) : "");
    if (run_hang_report_collectives(&b, w->job, w->over_then) || at.failed)
        w->needs.say(w->needs.arg, strbuf_str(&b));
}

void run_monitor_status(struct run_monitor *w, int rank)
{
    w->awaited -= w->asked[rank];
    if (w->asked[rank] && w->awaited == 0)
        tell_collectives(w);
    w->asked[rank] = false;
}

void run_monitor_stack(struct run_monitor *w, int rank, const char *text)
{
    run_hang_report_stack(w->hang, rank, text);
}

/* The first rank that ends because, or while, a collective failed: the others still stand where
 * they were. Those on other nodes are asked; they answer before they end. */
static void line_up(struct run_monitor *w, const struct rank_end *r)
{
    struct collective_position at;
    launch_last_collective(w->job, r->rank, &at);
    bool its_own = job_rank_status(r) != 0 && (r->aborted || !r->told_to_stop);
    if (w->lined_up || !its_own || (!at.failed && !at.waits_ms))
        return;
    w->lined_up = true;
    w->failed = r->rank;
    memcpy(w->over_then, w->over, (size_t)launch_plan(w->job)->world_size * sizeof *w->over);
    w->awaited = launch_request_status(w->job, w->asked);
    if (w->awaited == 0)
        tell_collectives(w);
}

void run_monitor_rank_ended(struct run_monitor *w, const struct rank_end *r)
{
    run_monitor_status(w, r->rank); /* it says nothing more */
    line_up(w, r);
    w->over[r->rank] = true;
    run_hang_report_job_ended(w->hang, r->rank);
    if (!w->events)
        return;
    json_t *j =
        json_pack("{s:i, s:o, s:i, s:o, s:b, s:f}", "rank", called(w, r->rank), "node",
                  node_of(w, r->rank), "status", job_rank_status(r), "signal",
                  signal_name(r->signal), "told_to_stop", r->told_to_stop, "seconds", r->seconds);
    if (r->start_status)
        json_object_set_new(j, "not_started", json_text(r->start_error));
    tell(w, "exit", j);
}

void run_monitor_ended(struct run_monitor *w, const struct job_end *end, int status)
{
    if (w->events)
        tell_counts(w);
    mpi_singletons_ended(w->singleton, end);
    tell(w, "ended",
         json_pack("{s:i, s:i, s:o, s:b, s:I}", "attempt", w->attempt, "status", status,
                   "first_failed",
                   end->first_failed < 0 ? json_null() : json_integer(called(w, end->first_failed)),
                   "stopped", end->stopped, "ms", to_ms(end->seconds)));
    stop_looking(w);
}

void run_monitor_restart(struct run_monitor *w, int attempt, int pause_ms, char *const *left_out)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *hosts = json_array();
    for (size_t i = 0; left_out && left_out[i]; i++) {
        json_array_append_new(hosts, json_text(left_out[i]));
        strbuf_printf(&b, "%s: host %s has failed twice or more: left out\n", w->opts->who,
                      left_out[i]);
    }
    strbuf_printf(&b, "%s: the job is started again in %d s: restart %d of %d\n", w->opts->who,
                  pause_ms / 1000, attempt, w->opts->spec.max_restarts);
    w->needs.say(w->needs.arg, strbuf_str(&b));
    tell(w, "restart",
         json_pack("{s:i, s:i, s:o}", "attempt", attempt, "pause_ms", pause_ms, "left_out", hosts));
}

/* ---- open and close ----------------------------------------------------------------------------
 */

int run_monitor_open(struct run_monitor **out, uv_loop_t *loop, const struct run_options *o,
                     const struct run_monitor_events *needs, struct err *e)
{
    struct job_events *events = NULL;
    if (o->events_file && job_events_open(&events, o->events_file, e) < 0)
        return e ? e->code : -EIO;
    struct run_monitor *w = xzalloc(sizeof *w);
    w->loop = loop;
    w->opts = o;
    w->needs = *needs;
    w->events = events;
    uv_timer_init(loop, &w->timer);
    w->timer.data = w;
    *out = w;
    return 0;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_monitor_close(struct run_monitor *w)
{
    if (!w)
        return;
    forget_attempt(w);
    line_log_close(w->ring);
    registry_leave(w->entry);
    job_events_close(w->events);
    uv_close((uv_handle_t *)&w->timer, on_closed);
}
