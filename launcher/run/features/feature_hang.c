/* feature_hang - implements --hang-timeout: samples the ranks, and decides if the job hangs.
 * Reports then which ranks are the culprits and why, where each rank waits, which ranks differ from
 * most ranks, and call stacks, also if ranks exceed a limit of sections and heartbeats. Then the
 * job is stopped. */
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#include "launcher/engine/process_wait_kind.h"
#include "launcher/engine/rank_status.h"
#include "launcher/hang/call_stacks.h"
#include "launcher/hang/gpu_wait.h"
#include "launcher/hang/hang.h"
#include "launcher/hang/hang_culprit.h"
#include "launcher/hang/nccl_ras.h"
#include "launcher/hang/stack_text.h"
#include "launcher/job/rank_list.h"
#include "launcher/plan/env.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/mpi_singletons.h"

enum {
    ROWS_MAX = 32,  /* rows in the table; further ranks are listed only if they differ */
    STACKS_MAX = 4, /* call stacks per report */
    REMOTE_LIMIT_MS = CALL_STACKS_LIMIT_MS + 2000, /* for a stack from another node */
    REMOTE_STATUS_MS = 300,                        /* for a status from another node */
    GPU_OLD_MS = 5000,                             /* an older reading of the GPUs says nothing */
    NVML_GPU_IS_LOST = 15,
    RAS_TEXT_MAX = 64 << 10, /* a longer answer is not shown */
    RAS_PORT_MIN = 20000,    /* below the ports that the kernel chooses */
    RAS_PORTS = 10000
};

/* What is known of a rank besides its status. */
struct rank_facts {
    struct hang_lines lines;
    struct gpu_wait_state power;
    enum gpu_wait gpu;
    bool gpu_lost;
    char *stack;         /* NULL: none */
    char *earlier_stack; /* of the probe before; NULL: none */
    bool heard;          /* it has written a line or reported */
};

struct feature_hang {
    FEATURE_STATE; /* timer: before a hang: next sample; after it: first the time limit for the
                      status of remote ranks, then that for their stacks */
    double timeout_s;
    int ranks;
    struct hang *hang;
    bool is_found;    /* the job hangs: `cause`, `fields` and `named` say why … */
    int64_t found_ms; /* … and since when this is known */
    char *cause;
    json_t *fields;
    bool *named;                /* by rank: the cause names it */
    bool *ended, *differs;      /* by rank */
    struct rank_facts *facts;   /* by rank */
    int64_t gpu_reading;        /* number of the last one */
    struct rank_status *status; /* by rank */
    struct call_stacks *stacks;
    struct nccl_ras *ras;
    int ras_answers; /* number of answers; 0: the service has not answered, and is not asked again
                      */
    struct ras_answer earlier, later;
    int pending; /* number of missing answers: local stacks, remote stacks, NCCL RAS */
    int local[CALL_STACKS_MAX], local_count;   /* ranks of this node whose stacks were requested */
    int remote[CALL_STACKS_MAX], remote_count; /* … on other nodes, whose stacks are missing */
    /* Probes: the stacks of ranks that use their CPU, while nothing says that they work */
    bool is_probing;
    enum hang_case last_case;
    int64_t probed_ms, probe_every_ms; /* the last one; doubled if ranks compute */
    struct strbuf text, collectives, ras_text, missing;
    json_t *report;
};

/* ---- the report ----------------------------------------------------------------------------- */

/* Marks the ranks that wait in another place than most ranks. If the collectives show a difference,
 * only the collectives count: in the same collective, some ranks may sleep while others spin. */
static void mark_differing_ranks(struct feature_hang *h)
{
    AUTO(free) struct collective_position *at = xcalloc((size_t)h->ranks, sizeof *at);
    for (int i = 0; i < h->ranks; i++)
        at[i] = h->status[i].collective;
    if (feature_mismatch_write(&h->collectives, h->differs, h->run->plan, h->ended, at))
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
        h->differs[i] |= !h->ended[i] && h->status[i].at.state == 'T';
        free((char *)where[i]);
    }
}

static void add_rank(struct feature_hang *h, int rank, json_t *all)
{
    const struct rank_status *s = &h->status[rank];
    const char *node = h->run->plan->nodes[h->run->plan->ranks[rank].node].name;
    int64_t heard_ms = hang_last_activity_ms(h->hang, rank);
    int64_t silent_ms = heard_ms < h->found_ms ? h->found_ms - heard_ms : 0;
    char last[32] = "none";
    if (h->facts[rank].heard)
        snprintf(last, sizeof last, "%.0f s ago", (double)silent_ms / 1000);
    AUTO(strbuf) struct strbuf where = {0};
    if (h->ended[rank])
        strbuf_puts(&where, "has ended");
    else
        rank_status_describe(&where, s);
    if (rank < ROWS_MAX || h->differs[rank])
        strbuf_printf(&h->text, "  %4d  %-8s %7.1f s  %9s  %-8s  %s%s\n",
                      h->run->plan->first_rank + rank, node, (double)s->cpu_ms / 1000, last,
                      s->at.name, strbuf_str(&where), h->differs[rank] ? "   <- differs" : "");
    json_t *one = rank_status_json(s);
    json_object_update_new(one, json_pack("{s:i, s:o, s:b, s:b, s:b, s:I}", "rank",
                                          h->run->plan->first_rank + rank, "node", json_text(node),
                                          "ended", h->ended[rank], "idle",
                                          hang_is_idle(h->hang, rank), "differs", h->differs[rank],
                                          "silent_ms", (json_int_t)silent_ms));
    if (h->facts[rank].stack)
        json_object_set_new(one, "stack", json_text(h->facts[rank].stack));
    json_array_append_new(all, one);
}

static const char *ras_address(const struct feature_hang *h)
{
    const char *set = env_get(h->run->plan->env, "NCCL_RAS_ADDR");
    return set ? set : getenv("NCCL_RAS_ADDR");
}

/* Finds the culprits. Ranks of which a limit names are culprits, too. */
static void find_culprits(struct feature_hang *h, struct hang_culprit *out)
{
    const struct plan *p = h->run->plan;
    AUTO(free) struct hang_rank *ranks = xcalloc((size_t)h->ranks, sizeof *ranks);
    for (int i = 0; i < h->ranks; i++) {
        const struct rank_facts *f = &h->facts[i];
        ranks[i] =
            (struct hang_rank){.node = p->nodes[p->ranks[i].node].name,
                               .status = &h->status[i],
                               .ended = h->ended[i],
                               .idle = hang_is_idle(h->hang, i),
                               .still_ms = hang_still_ms(h->hang, i),
                               .odd = h->collectives.len > 0 && h->differs[i],
                               .gpu_spins = hang_spins(h->hang, i),
                               .gpu_lost = f->gpu_lost,
                               .ras = ras_answer_state(&h->earlier, &h->later, h->status[i].at.pid),
                               .lines = f->lines,
                               .has_stack = f->stack != NULL};
        if (!f->stack)
            continue;
        stack_text_collective(ranks[i].collective, sizeof ranks[i].collective, f->stack);
        stack_text_place(ranks[i].place, sizeof ranks[i].place, f->stack);
    }
    hang_culprit_find(out, ranks, h->ranks, p->first_rank);
}

static void write_report(struct feature_hang *h)
{
    struct hang_culprit found = {.culprits = xcalloc((size_t)h->ranks, sizeof *found.culprits)};
    json_t *all = json_array(), *culprits = json_array();
    find_culprits(h, &found);
    for (int i = 0; i < h->ranks; i++) {
        h->differs[i] |= h->named[i] || found.culprits[i];
        if (found.culprits[i])
            json_array_append_new(culprits, json_integer(h->run->plan->first_rank + i));
    }
    /* The verdict comes first, and the rule that was broken if it names ranks itself. */
    bool limit = memchr(h->named, true, (size_t)h->ranks);
    if (limit)
        strbuf_printf(&h->text, "%s: the job hangs: %s\n  verdict: %s [%s]\n", h->run->program,
                      h->cause, strbuf_str(&found.sentence), found.class);
    else
        strbuf_printf(&h->text, "%s: the job hangs: %s [%s]\n  seen: %s\n", h->run->program,
                      strbuf_str(&found.sentence), found.class, h->cause);
    strbuf_puts(&h->text, "  rank  node           CPU  last line  program   waits in\n");
    for (int i = 0; i < h->ranks; i++)
        add_rank(h, i, all);
    if (h->ranks > ROWS_MAX)
        strbuf_printf(&h->text, "  (from rank %d on, only ranks that differ are listed)\n",
                      ROWS_MAX);
    strbuf_puts(&h->text, strbuf_str(&h->collectives));
    AUTO(free) const char **stacks = xcalloc((size_t)h->ranks, sizeof *stacks);
    for (int i = 0; i < h->ranks; i++)
        stacks[i] = h->facts[i].stack;
    stack_text_write_all(&h->text, stacks, h->ranks, h->run->plan->first_rank);
    strbuf_puts(&h->text, strbuf_str(&h->missing));
    strbuf_puts(&h->text, strbuf_str(&h->ras_text));
    json_object_update_new(h->report, json_pack("{s:o, s:s, s:o, s:o}", "verdict",
                                                json_text(strbuf_str(&found.sentence)), "class",
                                                found.class, "culprits", culprits, "ranks", all));
    strbuf_free(&found.sentence);
    free(found.culprits);
}

/* ---- stacks --------------------------------------------------------------------------------- */

static void on_ras(void *arg, const char *text);
static void end_probe(struct feature_hang *h);
/* The service is asked a second time when all else has arrived: only what stands still counts. */
static void answer_arrived(struct feature_hang *h)
{
    if (--h->pending > 0)
        return;
    if (h->is_probing) {
        end_probe(h);
        return;
    }
    if (h->ras_answers == 1) {
        h->pending = 1;
        nccl_ras_free(h->ras);
        h->ras = nccl_ras_query(h->run->loop, ras_address(h), on_ras, h);
        return;
    }
    write_report(h);
    h->run->print(h->run->arg, strbuf_str(&h->text));
    feature_record(h->run, "hang", TAKE(h->report));
    feature_stop(h);
}

static void on_ras(void *arg, const char *text)
{
    struct feature_hang *h = arg;
    h->ras_answers = *text || h->ras_answers > 0 ? h->ras_answers + 1 : 0;
    if (*text) {
        ras_answer_free(&h->earlier);
        h->earlier = h->later;
        ras_answer_read(&h->later, text);
        strbuf_reset(&h->ras_text);
        if (strlen(text) <= RAS_TEXT_MAX && !strstr(text, "\"communicators")) {
            strbuf_puts(&h->ras_text, "  NCCL RAS reports:\n");
            strbuf_indent(&h->ras_text, text);
        }
        if (strlen(text) <= RAS_TEXT_MAX)
            json_object_set_new(h->report, "ras", json_text(text));
    }
    answer_arrived(h);
}

static void add_stack(struct feature_hang *h, int rank, const char *text)
{
    if (*text && !h->facts[rank].stack)
        h->facts[rank].stack = xstrdup(text);
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct feature_hang *h = arg;
    for (int i = 0; i < h->local_count; i++)
        add_stack(h, h->local[i], texts[i]);
    answer_arrived(h);
}

static void on_call_stack(void *arg, int rank, const char *text)
{
    struct feature_hang *h = arg;
    for (int i = 0; i < h->remote_count; i++)
        if (h->remote[i] == rank) {
            h->remote[i] = h->remote[--h->remote_count];
            add_stack(h, rank, text);
            if (h->remote_count > 0)
                return;
            if (!h->is_probing)
                uv_timer_stop(h->timer);
            answer_arrived(h);
            return;
        }
}

static void on_remote_limit(uv_timer_t *t)
{
    struct feature_hang *h = t->data;
    for (int i = 0; i < h->remote_count; i++)
        strbuf_printf(&h->missing, "  no stack of rank %d arrived from %s in %d s\n",
                      h->run->plan->first_rank + h->remote[i],
                      h->run->plan->nodes[h->run->plan->ranks[h->remote[i]].node].name,
                      REMOTE_LIMIT_MS / 1000);
    h->remote_count = 0;
    answer_arrived(h);
}

static void request_stack(struct feature_hang *h, int rank, struct rank_status *local)
{
    if (launch_rank_pid(h->run->job, rank) > 0) {
        local[h->local_count] = h->status[rank];
        h->local[h->local_count++] = rank;
    } else {
        launch_request_stack(h->run->job, rank);
        h->remote[h->remote_count++] = rank;
    }
}

/* Requests up to STACKS_MAX call stacks: first of ranks that differ, then of the fewer ones among
 * the idle and the busy ranks, then of any other ranks. */
static void request_stacks(struct feature_hang *h)
{
    struct rank_status local[CALL_STACKS_MAX];
    int idle = 0;
    h->local_count = h->remote_count = 0;
    for (int i = 0; i < h->ranks; i++)
        idle += hang_is_idle(h->hang, i);
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < h->ranks && h->local_count + h->remote_count < STACKS_MAX; i++) {
            bool few = hang_is_idle(h->hang, i) == (idle * 2 <= h->ranks);
            int own = h->differs[i] ? 0 : few ? 1 : 2;
            if (own == pass && h->status[i].at.pid > 0 && !h->ended[i] && !h->facts[i].stack)
                request_stack(h, i, local);
        }
    h->pending = 1 + (h->remote_count > 0);
    call_stacks_free(h->stacks);
    h->stacks = call_stacks_capture(h->run->loop, local, h->local_count, on_stacks, h);
    if (h->remote_count > 0)
        uv_timer_start(h->timer, on_remote_limit, REMOTE_LIMIT_MS, 0);
}

/* Detects ranks that wait in MPI_Init. Such ranks have connected to PMIx, and wait in a fence until
 * all ranks have connected; they may be busy there. libpmix tells its server of a fence only when
 * all ranks have entered it. So these ranks are recognised by the time since they have
 * connected. */
static void detect_mpi_init(struct feature_hang *h)
{
    char library[64];
    for (int i = 0; i < h->ranks; i++) {
        struct rank_status *s = &h->status[i];
        int64_t ms = launch_pmix_wait_ms(h->run->job, i);
        if ((double)ms < h->timeout_s * 1000 || s->collective.comm[0] || s->at.pid == 0 ||
            !mpi_singletons_mapped(library, sizeof library, s->at.pid))
            continue;
        s->collective =
            (struct collective_position){.comm = "MPI_COMM_WORLD",
                                         .size = h->ranks,
                                         .waits_ms = ms,
                                         .count = 1,
                                         .calls = {{.nth = 1, .what = "MPI_Init", .ms = ms}}};
    }
}

static void report_hang(struct feature_hang *h)
{
    mark_differing_ranks(h);
    h->report = TAKE(h->fields);
    request_stacks(h);
    const char *ras = ras_address(h);
    h->pending += ras != NULL;
    h->ras = ras ? nccl_ras_query(h->run->loop, ras, on_ras, h) : NULL;
}

/* Reports a hang that the samples show. */
static void find_hang(struct feature_hang *h, enum hang_case v)
{
    uv_timer_stop(h->timer);
    h->is_found = true;
    h->found_ms = feature_now_ms(h->run);
    h->cause = xasprintf("for %g s, %s (--hang-timeout)", h->timeout_s, hang_cases[v].description);
    h->fields = json_pack("{s:s, s:I}", "why", hang_cases[v].name, "timeout_ms",
                          (json_int_t)(h->timeout_s * 1000));
    report_hang(h);
}

static void on_status_limit(uv_timer_t *t)
{
    struct feature_hang *h = t->data;
    (void)launch_sample_status(h->run->job, h->status);
    report_hang(h);
}

void feature_hang_report(struct feature_run *r, const char *cause, const bool *ranks,
                         json_t *fields)
{
    struct feature_hang *h = r->hang;
    if (h->is_found) {
        json_decref(fields);
        return;
    }
    h->is_found = true;
    h->is_probing = false;
    h->found_ms = feature_now_ms(r);
    h->cause = xstrdup(cause);
    h->fields = fields;
    memcpy(h->named, ranks, (size_t)h->ranks * sizeof *ranks);
    uv_timer_stop(h->timer);
    (void)launch_sample_status(h->run->job, h->status);
    if (plan_is_local(h->run->plan))
        report_hang(h);
    else
        uv_timer_start(h->timer, on_status_limit, REMOTE_STATUS_MS, 0);
}

/* ---- probes and samples ---------------------------------------------------------------------- */

static void forget_stacks(struct feature_hang *h)
{
    for (int i = 0; i < h->ranks; i++) {
        free(TAKE(h->facts[i].stack));
        free(TAKE(h->facts[i].earlier_stack));
    }
}

/* Asks for the stacks of the ranks that are not idle, if these are few enough. */
static void start_probe(struct feature_hang *h, int64_t now_ms)
{
    struct rank_status local[CALL_STACKS_MAX];
    int busy = 0;
    for (int i = 0; i < h->ranks; i++)
        busy += !h->ended[i] && !hang_is_idle(h->hang, i);
    h->probed_ms = now_ms;
    if (busy > CALL_STACKS_MAX)
        return;
    h->is_probing = true;
    h->local_count = h->remote_count = 0;
    for (int i = 0; i < h->ranks; i++)
        if (!h->ended[i] && !hang_is_idle(h->hang, i))
            request_stack(h, i, local);
    h->pending = 1 + (h->remote_count > 0);
    call_stacks_free(h->stacks);
    h->stacks = call_stacks_capture(h->run->loop, local, h->local_count, on_stacks, h);
}

/* The job hangs if each rank that uses its CPU waits in a collective, as in the probe before. */
static void end_probe(struct feature_hang *h)
{
    bool computes = false, same = true; /* a stack that did not arrive says nothing */
    h->is_probing = false;
    for (int i = 0; i < h->ranks; i++) {
        const struct rank_facts *f = &h->facts[i];
        bool probed = !h->ended[i] && !hang_is_idle(h->hang, i);
        computes |= probed && f->stack && !stack_text_same_wait(f->stack, f->stack);
        same &= !probed ||
                (f->earlier_stack && f->stack && stack_text_same_wait(f->earlier_stack, f->stack));
    }
    if (h->last_case == HANG_POLLS && same) {
        find_hang(h, HANG_POLLS);
        return;
    }
    h->probe_every_ms *= computes ? 2 : 1;
    for (int i = 0; i < h->ranks; i++) {
        struct rank_facts *f = &h->facts[i];
        free(f->earlier_stack);
        f->earlier_stack = TAKE(f->stack);
    }
    if (h->last_case != HANG_POLLS)
        forget_stacks(h);
}

/* Reads what the GPUs of this machine's ranks do. Ranks may share a GPU. */
static void sample_gpus(struct feature_hang *h)
{
    AUTO(job_monitor_reading) struct job_monitor_reading r = {0};
    job_monitor_latest(h->run->gpus, &r);
    bool is_old = clock_ms() - r.at_ms > GPU_OLD_MS;
    for (int i = 0; i < h->ranks && (is_old || r.number != h->gpu_reading); i++) {
        struct rank_facts *f = &h->facts[i];
        const char *uuid = h->run->plan->ranks[i].gpu_uuid;
        f->gpu = GPU_WAIT_UNKNOWN;
        for (int k = 0; uuid && !is_old && k < r.count; k++)
            if (strcmp(r.samples[k].gpu.uuid, uuid) == 0) {
                f->gpu = gpu_wait_add(&f->power, &r.samples[k]);
                f->gpu_lost = r.samples[k].rc[GPU_FACT_BUSY] == NVML_GPU_IS_LOST;
            }
    }
    h->gpu_reading = r.number;
}

static void on_timer(uv_timer_t *t)
{
    struct feature_hang *h = t->data;
    AUTO(free) struct hang_sample *samples = xcalloc((size_t)h->ranks, sizeof *samples);
    int rc = launch_sample_status(h->run->job, h->status);
    detect_mpi_init(h);
    sample_gpus(h);
    for (int i = 0; i < h->ranks; i++) {
        if (h->is_probing && h->status[i].at.state == 't') /* the tool of the probe holds it */
            h->status[i].at.state = 'R';
        samples[i] = (struct hang_sample){
            .exited = h->ended[i],
            .seen = rc == 0 && h->status[i].at.pid > 0,
            .state = h->status[i].at.state,
            .cpu_ms = h->status[i].cpu_ms,
            .faults = h->status[i].faults,
            .io_bytes = h->status[i].io_bytes,
            .waits_alone = process_wait_kind(&h->status[i].at) >= PROCESS_WAIT_SLEEP ||
                           process_wait_kind(&h->status[i].child) > PROCESS_WAIT_CHILD,
            .gpu = h->facts[i].gpu,
            .waits_ms = h->status[i].collective.failed ? 0 : h->status[i].collective.waits_ms};
    }
    int64_t now_ms = feature_now_ms(h->run);
    enum hang_case v = h->last_case = hang_sample_add(h->hang, samples, now_ms);
    if (h->is_probing && now_ms - h->probed_ms < REMOTE_LIMIT_MS)
        return;
    h->is_probing = false;
    if (v == HANG_POLLS && now_ms - h->probed_ms >= h->probe_every_ms) {
        start_probe(h, now_ms);
    } else if (v == HANG_NONE) {
        forget_stacks(h);
        h->probe_every_ms = (int64_t)(h->timeout_s * 1000);
    } else if (v != HANG_POLLS) {
        find_hang(h, v);
    }
}

/* ---- events of the job ---------------------------------------------------------------------- */

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct feature_hang *h = arg;
    hang_activity(h->hang, rank, feature_now_ms(h->run));
    h->facts[rank].heard = true;
    hang_lines_add(&h->facts[rank].lines, text, len);
    return true;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct feature_hang *h = arg;
    hang_activity(h->hang, rank, feature_now_ms(h->run));
    h->facts[rank].heard = true;
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    ((struct feature_hang *)arg)->ended[r->rank] = true;
}

/* ---- attempts ------------------------------------------------------------------------------- */

/* Limits of sections need the report, too. Jobs with the same NCCL_RAS_ADDR answer for each other,
 * so each job gets its own port; it need not be free, since NCCL works without the service. */
static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    if (set->hang_timeout_s > 0)
        spec->nccl_ras_port = RAS_PORT_MIN + getpid() % RAS_PORTS;
    return set->hang_timeout_s > 0 || set->sections.watched;
}

static void attach(void *state)
{
    struct feature_hang *h = state;
    uv_loop_t *loop = h->run->loop;
    h->run->hang = h;
    h->timeout_s = h->run->set->hang_timeout_s;
    h->ranks = h->run->plan->world_size;
    size_t n = (size_t)h->ranks;
    uv_update_time(loop);
    h->hang = hang_new(h->ranks, (int64_t)(h->timeout_s * 1000), (int64_t)uv_now(loop));
    h->ended = xcalloc(n, sizeof *h->ended);
    h->differs = xcalloc(n, sizeof *h->differs);
    h->named = xcalloc(n, sizeof *h->named);
    h->status = xcalloc(n, sizeof *h->status);
    h->facts = xcalloc(n, sizeof *h->facts);
    h->probe_every_ms = (int64_t)(h->timeout_s * 1000);
    uint64_t every = (uint64_t)hang_interval_ms(h->hang);
    if (h->timeout_s > 0)
        uv_timer_start(h->timer, on_timer, every, every);
}

static void on_job_ended(void *state, const struct job_end *end, int status)
{
    struct feature_hang *h = state;
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
    forget_stacks(h);
    free(h->facts);
    strbuf_free(&h->collectives);
    strbuf_free(&h->missing);
    strbuf_free(&h->ras_text);
    ras_answer_free(&h->earlier);
    ras_answer_free(&h->later);
    json_decref(h->report);
}

const struct feature feature_hang = {
    .options = {OPT_DURATION(0, "hang-timeout", "DURATION",
                             "stop the job after this time without activity",
                             struct feature_settings, hang_timeout_s, 0, FEATURE_TIME_MAX_S)},
    .check = check,
    .size = sizeof(struct feature_hang),
    .once = true,
    .attach = attach,
    .events = {.line = on_line,
               .report = on_report,
               .rank_ended = on_rank_ended,
               .call_stack = on_call_stack},
    .ended = on_job_ended,
    .cause = FEATURE_CAUSE_HANG,
};
