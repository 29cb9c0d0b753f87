#include "launcher/run/run_hang_report.h"

#include <string.h>

#include "common/strbuf.h"
#include "launcher/diagnose/collective_mismatch.h"
#include "launcher/diagnose/hang.h"
#include "launcher/inspect/call_stacks.h"
#include "launcher/inspect/nccl_ras.h"
#include "launcher/inspect/rank_status.h"
#include "launcher/plan/env.h"
#include "launcher/run/mpi_singletons.h"

enum {
    SHOWN_MAX = 32,
    STACKS_WANTED = 4,
    FAR_LIMIT_MS = CALL_STACKS_LIMIT_MS + 2000 /* for a stack from another node */
};

struct run_hang_report {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct launch *job;
    const struct plan *plan;
    const char *who;
    double timeout_s;
    int ranks;
    struct hang *hang;
    bool *over, *differs;
    struct rank_status *now;
    struct call_stacks *stacks;
    struct nccl_ras *ras;
    int awaited;                       /* of these two, and of the far ones' stacks */
    int of[STACKS_WANTED], of_count;   /* the ranks of this node whose stacks are asked for */
    int far[STACKS_WANTED], far_count; /* … and of others, until they come */
    struct strbuf report, collectives;
    json_t *j;
    void (*found)(void *arg, const char *text, json_t *j);
    void *arg;
};

static const char *const words[] = {
    [HANG_STOPPED] = "a rank is stopped",
    [HANG_ALL_IDLE] = "no rank has written anything, and none has used its CPU",
    [HANG_COLLECTIVE] = "a collective is under way, and no rank does anything else",
    [HANG_SOME_IDLE] = "no rank has written anything, and a few have not used their CPU",
};

static const char *const names[] = {
    [HANG_STOPPED] = "stopped",
    [HANG_ALL_IDLE] = "all idle",
    [HANG_COLLECTIVE] = "collective",
    [HANG_SOME_IDLE] = "some idle",
};

/* ---- the report --------------------------------------------------------------------------------
 */

/* The ranks' collectives, lined up. `at` has one for each rank. */
static bool line_up(struct strbuf *b, bool *odd, const struct plan *p, const bool *over,
                    const struct collective_position *at)
{
    AUTO(free)
    struct collective_mismatch_rank *ranks = xcalloc((size_t)p->world_size, sizeof *ranks);
    for (int i = 0; i < p->world_size; i++)
        ranks[i] = (struct collective_mismatch_rank){.rank = p->first_rank + i,
                                                     .node = p->nodes[p->ranks[i].node].name,
                                                     .exited = over[i],
                                                     .position = &at[i]};
    collective_mismatch_write(b, odd, ranks, p->world_size);
    return memchr(odd, true, (size_t)p->world_size);
}

bool run_hang_report_collectives(struct strbuf *b, const struct launch *job, const bool *over)
{
    const struct plan *p = launch_plan(job);
    AUTO(free) bool *odd = xcalloc((size_t)p->world_size, sizeof *odd);
    AUTO(free) struct collective_position *at = xcalloc((size_t)p->world_size, sizeof *at);
    for (int i = 0; i < p->world_size; i++)
        launch_last_collective(job, i, &at[i]);
    return line_up(b, odd, p, over, at);
}

/* Who stands elsewhere than most; where collectives tell it, they alone do: in one of them some
 * ranks may sleep while others spin. */
static void mark_who_differs(struct run_hang_report *h)
{
    AUTO(free) struct collective_position *at = xcalloc((size_t)h->ranks, sizeof *at);
    for (int i = 0; i < h->ranks; i++)
        at[i] = h->now[i].collective;
    if (line_up(&h->collectives, h->differs, h->plan, h->over, at))
        return;
    AUTO(free) const char **where = xcalloc((size_t)h->ranks, sizeof *where);
    for (int i = 0; i < h->ranks; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        rank_status_describe(&b, &h->now[i]);
        if (!h->over[i])
            where[i] = strbuf_take(&b);
    }
    hang_differs(h->differs, where, h->ranks);
    for (int i = 0; i < h->ranks; i++) {
        h->differs[i] |= !h->over[i] && h->now[i].state == 'T';
        free((char *)where[i]);
    }
}

static void add_rank(struct run_hang_report *h, int rank, json_t *all)
{
    const struct rank_status *s = &h->now[rank];
    const char *node = h->plan->nodes[h->plan->ranks[rank].node].name;
    int64_t silent_ms = (int64_t)uv_now(h->loop) - hang_last_activity_ms(h->hang, rank);
    AUTO(strbuf) struct strbuf where = {0};
    if (h->over[rank])
        strbuf_puts(&where, "has ended");
    else
        rank_status_describe(&where, s);
    if (rank < SHOWN_MAX || h->differs[rank])
        strbuf_printf(&h->report, "  %4d  %-12s  %7.1f s  %7.0f s ago  %-15s  %s%s\n",
                      h->plan->first_rank + rank, node, (double)s->cpu_ms / 1000,
                      (double)silent_ms / 1000, s->name, strbuf_str(&where),
                      h->differs[rank] ? "   <- differs" : "");
    json_t *one = rank_status_json(s);
    json_object_set_new(one, "rank", json_integer(h->plan->first_rank + rank));
    json_object_set_new(one, "node", json_text(node));
    json_object_set_new(one, "ended", json_boolean(h->over[rank]));
    json_object_set_new(one, "idle", json_boolean(hang_is_idle(h->hang, rank)));
    json_object_set_new(one, "differs", json_boolean(h->differs[rank]));
    json_object_set_new(one, "silent_ms", json_integer(silent_ms));
    json_array_append_new(all, one);
}

static void write_report(struct run_hang_report *h, enum hang_verdict v)
{
    mark_who_differs(h);
    strbuf_printf(&h->report,
                  "%s: the job hangs: for %g s %s (--hang-timeout)\n"
                  "  rank  node                CPU    last line  program          stands\n",
                  h->who, h->timeout_s, words[v]);
    json_t *all = json_array();
    for (int i = 0; i < h->ranks; i++)
        add_rank(h, i, all);
    if (h->ranks > SHOWN_MAX)
        strbuf_printf(&h->report, "  (of ranks from %d on, only those that differ)\n", SHOWN_MAX);
    strbuf_add(&h->report, strbuf_str(&h->collectives), h->collectives.len);
    h->j = json_pack("{s:s, s:I, s:o}", "why", names[v], "timeout_ms",
                     (json_int_t)(h->timeout_s * 1000), "ranks", all);
}

/* ---- stacks ------------------------------------------------------------------------------------
 */

static void finish(struct run_hang_report *h)
{
    if (--h->awaited > 0)
        return;
    h->found(h->arg, strbuf_str(&h->report), TAKE(h->j));
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
        strbuf_puts(&h->report, "  NCCL's RAS says:\n");
        add_indented(&h->report, text);
        json_object_set_new(h->j, "ras", json_text(text));
    }
    finish(h);
}

static void add_stack(struct run_hang_report *h, int rank, const char *text)
{
    json_t *all = json_object_get(h->j, "ranks");
    if (!*text)
        return;
    strbuf_printf(&h->report, "  stack of rank %d:\n", h->plan->first_rank + rank);
    add_indented(&h->report, text);
    json_object_set_new(json_array_get(all, (size_t)rank), "stack", json_text(text));
}

static void on_stacks(void *arg, const char *const *texts)
{
    struct run_hang_report *h = arg;
    for (int i = 0; i < h->of_count; i++)
        add_stack(h, h->of[i], texts[i]);
    finish(h);
}

void run_hang_report_stack(struct run_hang_report *h, int rank, const char *text)
{
    for (int i = 0; h && i < h->far_count; i++)
        if (h->far[i] == rank) {
            h->far[i] = h->far[--h->far_count];
            add_stack(h, rank, text);
            if (h->far_count > 0)
                return;
            uv_timer_stop(&h->timer);
            finish(h);
            return;
        }
}

static void on_far_late(uv_timer_t *t)
{
    struct run_hang_report *h = t->data;
    for (int i = 0; i < h->far_count; i++)
        strbuf_printf(&h->report, "  no stack of rank %d has come from %s in %d s\n",
                      h->plan->first_rank + h->far[i],
                      h->plan->nodes[h->plan->ranks[h->far[i]].node].name, FAR_LIMIT_MS / 1000);
    h->far_count = 0;
    finish(h);
}

static void ask_stack(struct run_hang_report *h, int rank, struct rank_status *of)
{
    if (launch_rank_pid(h->job, rank) > 0) {
        of[h->of_count] = h->now[rank];
        h->of[h->of_count++] = rank;
    } else {
        launch_request_stack(h->job, rank);
        h->far[h->far_count++] = rank;
    }
}

/* Those that differ first, then idle ones, then any. */
static void ask_stacks(struct run_hang_report *h)
{
    struct rank_status of[STACKS_WANTED];
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < h->ranks && h->of_count + h->far_count < STACKS_WANTED; i++) {
            bool idle = hang_is_idle(h->hang, i) && !h->differs[i];
            bool its_turn = turn == 0 ? h->differs[i] : turn == 1 ? idle : !h->differs[i] && !idle;
            if (its_turn && h->now[i].pid > 0 && !h->over[i])
                ask_stack(h, i, of);
        }
    h->awaited = 1 + (h->far_count > 0);
    h->stacks = call_stacks_capture(h->loop, of, h->of_count, on_stacks, h);
    if (h->far_count > 0)
        uv_timer_start(&h->timer, on_far_late, FAR_LIMIT_MS, 0);
}

/* ---- the timer ---------------------------------------------------------------------------------
 */

/* Of ranks with an MPI library those that have joined are in MPI_Init until all have, whose fence
 * they may wait in busily. libpmix tells its server of a fence only when all are there. */
static void see_who_meets(struct run_hang_report *h)
{
    char library[64];
    for (int i = 0; i < h->ranks; i++) {
        struct rank_status *s = &h->now[i];
        int64_t ms = launch_pmix_wait_ms(h->job, i);
        if (ms < h->timeout_s * 1000 || s->collective.comm[0] || s->pid == 0 ||
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

static void on_timer(uv_timer_t *t)
{
    struct run_hang_report *h = t->data;
    AUTO(free) struct hang_sample *samples = xcalloc((size_t)h->ranks, sizeof *samples);
    int rc = launch_sample_status(h->job, h->now);
    see_who_meets(h);
    for (int i = 0; i < h->ranks; i++) {
        samples[i] = (struct hang_sample){
            .exited = h->over[i],
            .seen = rc == 0 && h->now[i].pid > 0,
            .state = h->now[i].state,
            .cpu_ms = h->now[i].cpu_ms,
            .waits_ms = h->now[i].collective.failed ? 0 : h->now[i].collective.waits_ms};
    }
    enum hang_verdict v = hang_sample_add(h->hang, samples, (int64_t)uv_now(h->loop));
    if (v == HANG_NONE)
        return;
    uv_timer_stop(t);
    write_report(h, v);
    h->found(h->arg, strbuf_str(&h->report), NULL);
    strbuf_reset(&h->report);
    ask_stacks(h);
    const char *ras = env_get(h->plan->env, "NCCL_RAS_ADDR");
    ras = ras ? ras : getenv("NCCL_RAS_ADDR");
    h->awaited += ras != NULL;
    h->ras = ras ? nccl_ras_query(h->loop, ras, on_ras, h) : NULL;
}

void run_hang_report_activity(struct run_hang_report *h, int rank)
{
    if (h)
        hang_activity(h->hang, rank, (int64_t)uv_now(h->loop));
}

void run_hang_report_job_ended(struct run_hang_report *h, int rank)
{
    if (h)
        h->over[rank] = true;
}

struct run_hang_report *run_hang_report_open(uv_loop_t *loop, struct launch *job,
                                             const struct run_options *o,
                                             void (*found)(void *arg, const char *text, json_t *j),
                                             void *arg)
{
    const struct plan *p = launch_plan(job);
    struct run_hang_report *h = xzalloc(sizeof *h);
    h->job = job;
    size_t n = (size_t)p->world_size;
    h->loop = loop;
    h->plan = p;
    h->who = o->who;
    h->timeout_s = o->hang_timeout_s;
    h->ranks = p->world_size;
    h->found = found;
    h->arg = arg;
    uv_update_time(loop);
    h->hang = hang_new(h->ranks, (int64_t)(h->timeout_s * 1000), (int64_t)uv_now(loop));
    h->over = xcalloc(n, sizeof *h->over);
    h->differs = xcalloc(n, sizeof *h->differs);
    h->now = xcalloc(n, sizeof *h->now);
    uv_timer_init(loop, &h->timer);
    h->timer.data = h;
    uint64_t every = (uint64_t)hang_interval_ms(h->hang);
    uv_timer_start(&h->timer, on_timer, every, every);
    return h;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void run_hang_report_close(struct run_hang_report *h)
{
    if (!h)
        return;
    call_stacks_free(h->stacks);
    nccl_ras_free(h->ras);
    hang_free(h->hang);
    free(h->over);
    free(h->differs);
    free(h->now);
    strbuf_free(&h->report);
    strbuf_free(&h->collectives);
    json_decref(h->j);
    uv_close((uv_handle_t *)&h->timer, on_closed);
}
