#include "launcher/run/run_hang_report.h"

#include <string.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "launcher/diagnose/collective_mismatch.h"
#include "launcher/diagnose/hang.h"
#include "launcher/doctor/active/node_findings.h"
#include "launcher/inspect/call_stacks.h"
#include "launcher/inspect/nccl_ras.h"
#include "launcher/inspect/rank_status.h"
#include "launcher/job/rank_list.h"
#include "launcher/monitor/mpi_singletons.h"
#include "launcher/plan/env.h"
#include "launcher/progress/job_progress.h"
#include "launcher/progress/section_learning.h"

enum {
    ROWS_MAX = 32,  /* rows in the table; further ranks are listed only if they differ */
    STACKS_MAX = 4, /* call stacks per report */
    REMOTE_LIMIT_MS = CALL_STACKS_LIMIT_MS + 2000, /* for a stack from another node */
    REMOTE_STATUS_MS = 300                         /* for a status from another node */
};

struct run_hang_report {
    uv_loop_t *loop;
    uv_timer_t timer; /* before a hang: next sample; after it: first the time limit for the status
                         of remote ranks, then that for their stacks */
    struct launch *job;
    const struct plan *plan;
    struct console *console;
    const char *program;
    double timeout_s;
    int ranks;
    struct hang *hang;
    bool is_found; /* the job hangs: `cause`, `fields` and `named` say why */
    char *cause;
    json_t *fields;
    bool *named;                /* by rank: the cause names it */
    bool *ended, *differs;      /* by rank */
    struct rank_status *status; /* by rank */
    struct call_stacks *stacks;
    struct nccl_ras *ras;
    int pending; /* number of missing answers: local stacks, remote stacks, NCCL RAS */
    int local[STACKS_MAX], local_count;   /* ranks of this node whose stacks were requested */
    int remote[STACKS_MAX], remote_count; /* ranks on other nodes whose stacks are missing */
    struct strbuf text, collectives;
    json_t *report;
    struct job_progress *progress; /* NULL: the ranks report nothing */
    const struct run_options *opts;
    bool *checked;              /* by node: its checks have been started */
    struct node_findings *slow; /* the checks of the node of a slow rank; NULL: none … */
    int slow_rank, slow_node;   /* … and these */
    const struct run_hang_report_events *events;
    void *arg;
};

static const char *const descriptions[] = {
    [HANG_STOPPED] = "a rank is stopped",
    [HANG_ALL_IDLE] = "no rank has written output or used its CPU",
    [HANG_COLLECTIVE] = "ranks wait in a collective, and no rank does anything else",
    [HANG_SOME_IDLE] = "no rank has written output, and some have not used their CPU",
};

static const char *const names[] = {
    [HANG_STOPPED] = "stopped",
    [HANG_ALL_IDLE] = "all idle",
    [HANG_COLLECTIVE] = "collective",
    [HANG_SOME_IDLE] = "some idle",
};

/* ---- the report ----------------------------------------------------------------------------- */

/* Compares the ranks' positions in their collectives. `at` has the position of each rank. Sets
 * `odd` for the ranks that differ, and appends the mismatch as text. Returns true if any rank
 * differs. */
static bool compare_collectives(struct strbuf *b, bool *odd, const struct plan *p,
                                const bool *ended, const struct collective_position *at)
{
    AUTO(free)
    struct collective_mismatch_rank *ranks = xcalloc((size_t)p->world_size, sizeof *ranks);
    for (int i = 0; i < p->world_size; i++)
        ranks[i] = (struct collective_mismatch_rank){.rank = p->first_rank + i,
                                                     .node = p->nodes[p->ranks[i].node].name,
                                                     .exited = ended[i],
                                                     .position = &at[i]};
    collective_mismatch_write(b, odd, ranks, p->world_size);
    return memchr(odd, true, (size_t)p->world_size);
}

bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *ended)
{
    const struct plan *p = launch_plan(job);
    AUTO(free) bool *odd = xcalloc((size_t)p->world_size, sizeof *odd);
    AUTO(free) struct collective_position *at = xcalloc((size_t)p->world_size, sizeof *at);
    for (int i = 0; i < p->world_size; i++)
        launch_last_collective(job, i, &at[i]);
    return compare_collectives(b, odd, p, ended, at);
}

/* Marks the ranks that wait in another place than most ranks. If the collectives show a difference,
 * only the collectives count: in the same collective, some ranks may sleep while others spin. */
static void mark_differing_ranks(struct run_hang_report *h)
{
    AUTO(free) struct collective_position *at = xcalloc((size_t)h->ranks, sizeof *at);
    for (int i = 0; i < h->ranks; i++)
        at[i] = h->status[i].collective;
    if (compare_collectives(&h->collectives, h->differs, h->plan, h->ended, at))
        return;
    AUTO(free) const char **where = xcalloc((size_t)h->ranks, sizeof *where);
    for (int i = 0; i < h->ranks; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        rank_status_describe(&b, &h->status[i]);
        if (!h->ended[i])
            where[i] = strbuf_take(&b);
    }
    hang_differs(h->differs, where, h->ranks);
    for (int i = 0; i < h->ranks; i++) {
        h->differs[i] |= !h->ended[i] && h->status[i].state == 'T';
        free((char *)where[i]);
    }
}

static void add_rank(struct run_hang_report *h, int rank, json_t *all)
{
    const struct rank_status *s = &h->status[rank];
    const char *node = h->plan->nodes[h->plan->ranks[rank].node].name;
    int64_t silent_ms = (int64_t)uv_now(h->loop) - hang_last_activity_ms(h->hang, rank);
    AUTO(strbuf) struct strbuf where = {0};
    if (h->ended[rank])
        strbuf_puts(&where, "has ended");
    else
        rank_status_describe(&where, s);
    if (rank < ROWS_MAX || h->differs[rank])
        strbuf_printf(&h->text, "  %4d  %-12s  %7.1f s  %7.0f s ago  %-15s  %s%s\n",
                      h->plan->first_rank + rank, node, (double)s->cpu_ms / 1000,
                      (double)silent_ms / 1000, s->name, strbuf_str(&where),
                      h->differs[rank] ? "   <- differs" : "");
    json_t *one = rank_status_json(s);
    json_object_set_new(one, "rank", json_integer(h->plan->first_rank + rank));
    json_object_set_new(one, "node", json_text(node));
    json_object_set_new(one, "ended", json_boolean(h->ended[rank]));
    json_object_set_new(one, "idle", json_boolean(hang_is_idle(h->hang, rank)));
    json_object_set_new(one, "differs", json_boolean(h->differs[rank]));
    json_object_set_new(one, "silent_ms", json_integer(silent_ms));
    json_array_append_new(all, one);
}

/* Names the ranks that have exited, if the collectives do not explain what the other ranks wait
 * for. */
static void write_exited(struct run_hang_report *h)
{
    AUTO(free) bool *running = xcalloc((size_t)h->ranks, sizeof *running);
    int n = 0;
    for (int i = 0; i < h->ranks; i++)
        n += running[i] = !h->ended[i];
    if (n == h->ranks || h->collectives.len > 0)
        return;
    strbuf_puts(&h->text, "  ");
    rank_list_write(&h->text, h->ended, h->ranks, h->plan->first_rank);
    strbuf_puts(&h->text, " exited with status 0 while ");
    rank_list_write(&h->text, running, h->ranks, h->plan->first_rank);
    strbuf_printf(&h->text, " still run%s\n", n == 1 ? "s" : "");
}

static void write_report(struct run_hang_report *h)
{
    mark_differing_ranks(h);
    strbuf_printf(&h->text,
                  "%s: the job hangs: %s\n"
                  "  rank  node                CPU    last line  program          waits in\n",
                  h->program, h->cause);
    json_t *all = json_array();
    for (int i = 0; i < h->ranks; i++)
        h->differs[i] |= h->named[i];
    for (int i = 0; i < h->ranks; i++)
        add_rank(h, i, all);
    if (h->ranks > ROWS_MAX)
        strbuf_printf(&h->text, "  (from rank %d on, only ranks that differ are listed)\n",
                      ROWS_MAX);
    write_exited(h);
    strbuf_add(&h->text, strbuf_str(&h->collectives), h->collectives.len);
    h->report = TAKE(h->fields);
    json_object_set_new(h->report, "ranks", all);
}

/* ---- stacks --------------------------------------------------------------------------------- */

static void answer_arrived(struct run_hang_report *h)
{
    if (--h->pending > 0)
        return;
    console_print(h->console, strbuf_str(&h->text));
    h->events->hang(h->arg, TAKE(h->report));
}

static void add_indented(struct strbuf *b, const char *text)
{
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        strbuf_printf(b, "    %.*s\n", (int)len, p);
        p += len + (p[len] != '\0');
    }
}

static void on_ras(void *arg, const char *text)
{
    struct run_hang_report *h = arg;
    if (*text) {
        strbuf_puts(&h->text, "  NCCL RAS reports:\n");
        add_indented(&h->text, text);
        json_object_set_new(h->report, "ras", json_text(text));
    }
    answer_arrived(h);
}

static void add_stack(struct run_hang_report *h, int rank, const char *text)
{
    json_t *all = json_object_get(h->report, "ranks");
    if (!*text)
        return;
    strbuf_printf(&h->text, "  stack of rank %d:\n", h->plan->first_rank + rank);
    add_indented(&h->text, text);
    json_object_set_new(json_array_get(all, (size_t)rank), "stack", json_text(text));
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct run_hang_report *h = arg;
    for (int i = 0; i < h->local_count; i++)
        add_stack(h, h->local[i], texts[i]);
    answer_arrived(h);
}

static void on_call_stack(void *arg, int rank, const char *text)
{
    struct run_hang_report *h = arg;
    for (int i = 0; i < h->remote_count; i++)
        if (h->remote[i] == rank) {
            h->remote[i] = h->remote[--h->remote_count];
            add_stack(h, rank, text);
            if (h->remote_count > 0)
                return;
            uv_timer_stop(&h->timer);
            answer_arrived(h);
            return;
        }
}

static void on_remote_limit(uv_timer_t *t)
{
    struct run_hang_report *h = t->data;
    for (int i = 0; i < h->remote_count; i++)
        strbuf_printf(&h->text, "  no stack of rank %d arrived from %s in %d s\n",
                      h->plan->first_rank + h->remote[i],
                      h->plan->nodes[h->plan->ranks[h->remote[i]].node].name,
                      REMOTE_LIMIT_MS / 1000);
    h->remote_count = 0;
    answer_arrived(h);
}

static void request_stack(struct run_hang_report *h, int rank, struct rank_status *local)
{
    if (launch_rank_pid(h->job, rank) > 0) {
        local[h->local_count] = h->status[rank];
        h->local[h->local_count++] = rank;
    } else {
        launch_request_stack(h->job, rank);
        h->remote[h->remote_count++] = rank;
    }
}

/* Requests up to STACKS_MAX call stacks: first of ranks that differ, then of idle ranks, then of
 * any other ranks. */
static void request_stacks(struct run_hang_report *h)
{
    struct rank_status local[STACKS_MAX];
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < h->ranks && h->local_count + h->remote_count < STACKS_MAX; i++) {
            bool idle = hang_is_idle(h->hang, i) && !h->differs[i];
            bool selected = pass == 0 ? h->differs[i] : pass == 1 ? idle : !h->differs[i] && !idle;
            if (selected && h->status[i].pid > 0 && !h->ended[i])
                request_stack(h, i, local);
        }
    h->pending = 1 + (h->remote_count > 0);
    h->stacks = call_stacks_capture(h->loop, local, h->local_count, on_stacks, h);
    if (h->remote_count > 0)
        uv_timer_start(&h->timer, on_remote_limit, REMOTE_LIMIT_MS, 0);
}

/* ---- the timer ------------------------------------------------------------------------------ */

/* Detects ranks that wait in MPI_Init. Such ranks have connected to PMIx, and wait in a fence until
 * all ranks have connected; they may be busy there. libpmix tells its server of a fence only when
 * all ranks have entered it. So these ranks are recognised by the time since they have
 * connected. */
static void detect_mpi_init(struct run_hang_report *h)
{
    char library[64];
    for (int i = 0; i < h->ranks; i++) {
        struct rank_status *s = &h->status[i];
        int64_t ms = launch_pmix_wait_ms(h->job, i);
        if ((double)ms < h->timeout_s * 1000 || s->collective.comm[0] || s->pid == 0 ||
            !mpi_singletons_mapped(library, sizeof library, s->pid))
            continue;
        s->collective =
            (struct collective_position){.comm = "MPI_COMM_WORLD",
                                         .size = h->ranks,
                                         .waits_ms = ms,
                                         .count = 1,
                                         .calls = {{.nth = 1, .what = "MPI_Init", .ms = ms}}};
    }
}

static void report_hang(struct run_hang_report *h)
{
    write_report(h);
    console_print(h->console, strbuf_str(&h->text));
    strbuf_reset(&h->text);
    request_stacks(h);
    const char *ras = env_get(h->plan->env, "NCCL_RAS_ADDR");
    ras = ras ? ras : getenv("NCCL_RAS_ADDR");
    h->pending += ras != NULL;
    h->ras = ras ? nccl_ras_query(h->loop, ras, on_ras, h) : NULL;
}

static void on_status_limit(uv_timer_t *t)
{
    struct run_hang_report *h = t->data;
    (void)launch_sample_status(h->job, h->status);
    report_hang(h);
}

/* Ranks have exceeded a limit of sections or heartbeats. */
static void on_overrun(void *arg, const char *cause, const bool *ranks, json_t *fields)
{
    struct run_hang_report *h = arg;
    if (h->is_found) {
        json_decref(fields);
        return;
    }
    h->is_found = true;
    h->cause = xstrdup(cause);
    h->fields = fields;
    memcpy(h->named, ranks, (size_t)h->ranks * sizeof *ranks);
    uv_timer_stop(&h->timer);
    (void)launch_sample_status(h->job, h->status);
    if (plan_is_local(h->plan))
        report_hang(h);
    else
        uv_timer_start(&h->timer, on_status_limit, REMOTE_STATUS_MS, 0);
}

static void on_timer(uv_timer_t *t)
{
    struct run_hang_report *h = t->data;
    AUTO(free) struct hang_sample *samples = xcalloc((size_t)h->ranks, sizeof *samples);
    int rc = launch_sample_status(h->job, h->status);
    detect_mpi_init(h);
    for (int i = 0; i < h->ranks; i++) {
        samples[i] = (struct hang_sample){
            .exited = h->ended[i],
            .seen = rc == 0 && h->status[i].pid > 0,
            .state = h->status[i].state,
            .cpu_ms = h->status[i].cpu_ms,
            .waits_ms = h->status[i].collective.failed ? 0 : h->status[i].collective.waits_ms};
    }
    enum hang_verdict v = hang_sample_add(h->hang, samples, (int64_t)uv_now(h->loop));
    if (v == HANG_NONE)
        return;
    uv_timer_stop(t);
    h->is_found = true;
    h->cause = xasprintf("for %g s, %s (--hang-timeout)", h->timeout_s, descriptions[v]);
    h->fields =
        json_pack("{s:s, s:I}", "why", names[v], "timeout_ms", (json_int_t)(h->timeout_s * 1000));
    report_hang(h);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct run_hang_report *h = arg;
    hang_activity(h->hang, rank, (int64_t)uv_now(h->loop));
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct run_hang_report *h = arg;
    hang_activity(h->hang, rank, (int64_t)uv_now(h->loop));
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    ((struct run_hang_report *)arg)->ended[r->rank] = true;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* The node of a slow rank was checked. */
static void on_findings(void *arg, const char *text, json_t *findings)
{
    struct run_hang_report *h = arg;
    const char *node = h->plan->nodes[h->slow_node].name;
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: checks of %s, the node of rank %d: ", h->program, node,
                  h->plan->first_rank + h->slow_rank);
    utf8_add_line(&b, !text   ? "they cannot be run"
                      : *text ? text
                              : "nothing that would slow it down");
    strbuf_puts(&b, "\n");
    console_print(h->console, strbuf_str(&b));
    h->events->progress(h->arg, "straggler_checks",
                        json_pack("{s:i, s:o, s:o}", "rank", h->plan->first_rank + h->slow_rank,
                                  "node", json_text(node), "findings",
                                  findings ? findings : json_null()));
    node_findings_close(TAKE(h->slow));
}

/* Checks the node of a slow rank: once per node, and one node at a time. */
static void check_node_of(struct run_hang_report *h, int rank)
{
    int node = h->plan->ranks[rank].node;
    if (h->slow || h->checked[node] || h->opts->no_preflight)
        return;
    h->checked[node] = true;
    h->slow_rank = rank;
    h->slow_node = node;
    h->slow = node_findings_start(
        h->loop, plan_is_local(h->plan) ? NULL : h->plan->nodes[node].name, on_findings, h);
}

static void on_straggler(void *arg, const char *text, json_t *fields)
{
    struct run_hang_report *h = arg;
    bool slow = json_is_true(json_object_get(fields, "slow"));
    int rank = (int)json_integer_value(json_object_get(fields, "rank")) - h->plan->first_rank;
    console_print(h->console, text);
    h->events->progress(h->arg, "straggler", fields);
    if (slow)
        check_node_of(h, rank);
}

/* Says which limits were learnt. */
static void print_learnt(const struct run_options *o, struct console *console)
{
    if (!o->learn_timeouts || o->quiet || o->spec.restart_count > 0)
        return;
    AUTO(free)
    char *line =
        o->learnt
            ? xasprintf("%s: time limits from earlier jobs: %s\n", o->program, o->learnt)
            : xasprintf("%s: no time limits from earlier jobs; this one is measured\n", o->program);
    console_print(console, line);
}

struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o, struct console *console,
                                             const struct run_hang_report_events *to, void *arg)
{
    static const struct job_progress_events progress_events = {on_overrun, on_straggler};
    static const struct launch_events events = {.line = on_line,
                                                .report = on_report,
                                                .rank_ended = on_rank_ended,
                                                .call_stack = on_call_stack};
    const struct job_progress_opts progress = {.program = o->program,
                                               .limits = &o->sections,
                                               .from_connect = o->sections_from_connect,
                                               .stragglers = o->stragglers};
    bool reports = section_limits_any(&o->sections) || o->sections_from_connect || o->stragglers ||
                   o->learn_timeouts;
    if (o->hang_timeout_s <= 0 && !reports)
        return NULL;
    const struct plan *p = launch_plan(job);
    struct run_hang_report *h = xzalloc(sizeof *h);
    h->job = job;
    size_t n = (size_t)p->world_size;
    h->loop = loop;
    h->plan = p;
    h->program = o->program;
    h->console = console;
    h->timeout_s = o->hang_timeout_s;
    h->ranks = p->world_size;
    h->events = to;
    h->arg = arg;
    h->opts = o;
    h->checked = xcalloc((size_t)p->node_count, sizeof *h->checked);
    print_learnt(o, console);
    uv_update_time(loop);
    h->hang = hang_new(h->ranks, (int64_t)(h->timeout_s * 1000), (int64_t)uv_now(loop));
    h->ended = xcalloc(n, sizeof *h->ended);
    h->differs = xcalloc(n, sizeof *h->differs);
    h->named = xcalloc(n, sizeof *h->named);
    h->status = xcalloc(n, sizeof *h->status);
    uv_timer_init(loop, &h->timer);
    h->timer.data = h;
    uint64_t every = (uint64_t)hang_interval_ms(h->hang);
    if (h->timeout_s > 0)
        uv_timer_start(&h->timer, on_timer, every, every);
    launch_observe(job, &events, h);
    if (reports)
        h->progress = job_progress_open(loop, job, &progress, &progress_events, h);
    return h;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_hang_report_learn(const struct run_hang_report *h)
{
    struct err e = {0};
    if (h && h->progress && h->opts->learn_timeouts &&
        section_learning_store(job_progress_longest(h->progress), h->opts->argv, h->opts->spec.wdir,
                               &e) < 0)
        log_warn("--learn-timeouts: not stored: %s", e.text);
}

void run_hang_report_close(struct run_hang_report *h)
{
    if (!h)
        return;
    job_progress_close(h->progress);
    node_findings_close(h->slow);
    free(h->checked);
    call_stacks_free(h->stacks);
    nccl_ras_free(h->ras);
    hang_free(h->hang);
    free(h->cause);
    json_decref(h->fields);
    free(h->named);
    free(h->ended);
    free(h->differs);
    free(h->status);
    strbuf_free(&h->text);
    strbuf_free(&h->collectives);
    json_decref(h->report);
    uv_close((uv_handle_t *)&h->timer, on_closed);
}
