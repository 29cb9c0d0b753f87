/* feature_stragglers - implements --stragglers: names ranks that are slower than the others, and
 * what the checks find on their nodes. */
#include <string.h>

#include "common/utf8.h"
#include "launcher/doctor/active/node_findings.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/straggler.h"

enum {
    INTERVAL_MS = 200,
    COLLECTIVES_MS = 150, /* a sample of the time outside of collectives is at least this long */
    STATUS_TICKS = 2      /* the status of ranks on other nodes is requested on each n-th tick */
};

/* Smaller differences are the scheduler's, or do not matter. */
static const double SECTION_EXCESS_S = 0.002, COLLECTIVES_EXCESS_S = 0.05;

struct rank {
    struct collective_position collectives; /* at the last sample; read_ms 0: there is none */
    double step;                            /* of its last report … */
    int64_t at_ms;                          /* … which arrived at this time; 0: there is none */
};

struct stragglers {
    FEATURE_STATE;
    struct straggler *straggler;
    struct rank *ranks;
    int ticks;
    bool *asked;                /* scratch, by rank */
    bool *checked;              /* by node: its checks have been started */
    struct node_findings *slow; /* the checks of the node of a slow rank; NULL: none … */
    int slow_rank, slow_node;   /* … and these */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    return set->stragglers;
}

/* ---- the node of a slow rank ---------------------------------------------------------------- */

/* The node of a slow rank was checked. */
static void on_findings(void *arg, const char *text, json_t *findings)
{
    struct stragglers *h = arg;
    const char *node = h->run->plan->nodes[h->slow_node].name;
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: checks of %s, the node of rank %d: ", h->run->program, node,
                  h->run->plan->first_rank + h->slow_rank);
    utf8_add_line(&b, !text   ? "they cannot be run"
                      : *text ? text
                              : "nothing that would slow it down");
    strbuf_puts(&b, "\n");
    h->run->print(h->run->arg, strbuf_str(&b));
    feature_record(h->run, "straggler_checks",
                   json_pack("{s:i, s:o, s:o}", "rank", h->run->plan->first_rank + h->slow_rank,
                             "node", json_text(node), "findings",
                             findings ? findings : json_null()));
    node_findings_close(TAKE(h->slow));
}

/* Checks the node of a slow rank: once per node, and one node at a time. */
static void check_node_of(struct stragglers *h, int rank)
{
    int node = h->run->plan->ranks[rank].node;
    if (h->slow || h->checked[node] || h->run->set->preflight.off)
        return;
    h->checked[node] = true;
    h->slow_rank = rank;
    h->slow_node = node;
    h->slow = node_findings_start(
        h->run->loop, plan_is_local(h->run->plan) ? NULL : h->run->plan->nodes[node].name,
        on_findings, h);
}

/* ---- what was found ------------------------------------------------------------------------- */

static void report_straggler(struct stragglers *p, const struct straggler_change *c)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: ", p->run->program);
    feature_write_rank(&b, p->run->plan, c->rank);
    json_t *fields = feature_rank_json(p->run->plan, c->rank);
    json_object_set_new(fields, "slow", json_boolean(c->slow));
    if (c->slow) {
        strbuf_printf(&b, " is %.2f times slower than the median (", c->ratio);
        utf8_add_line(&b, c->what);
        int digits = c->others >= 0.1 ? 0 : c->others >= 0.01 ? 1 : 2;
        strbuf_printf(&b, " %.*f ms, others %.*f ms ± %.*f)\n", digits, c->seconds * 1000, digits,
                      c->others * 1000, digits, c->spread * 1000);
        json_object_update_new(fields,
                               json_pack("{s:o, s:f, s:f, s:f, s:f}", "what", json_text(c->what),
                                         "ratio", c->ratio, "ms", c->seconds * 1000, "others_ms",
                                         c->others * 1000, "spread_ms", c->spread * 1000));
    } else {
        strbuf_puts(&b, " is no longer slower than the others\n");
    }
    p->run->print(p->run->arg, strbuf_str(&b));
    feature_record(p->run, "straggler", fields);
    if (c->slow)
        check_node_of(p, c->rank);
}

/* Adds the time that a rank spends outside of collectives. In a job whose ranks wait for each
 * other, the steps of all ranks take the same time: the slow rank computes while the others wait in
 * a collective. */
static void sample_collectives(struct stragglers *p, int rank)
{
    struct collective_position at, *before = &p->ranks[rank].collectives;
    launch_last_collective(p->run->job, rank, &at);
    int64_t ms = at.read_ms - before->read_ms, outside_ms = ms - (at.waited_ms - before->waited_ms);
    if (before->read_ms && at.calls_done >= before->calls_done &&
        (ms < COLLECTIVES_MS || at.calls_done == before->calls_done))
        return; /* a longer sample, with a whole step */
    if (before->read_ms && at.calls_done > before->calls_done)
        straggler_add(p->straggler, rank, "time per second outside of collectives",
                      outside_ms > 0 ? (double)outside_ms / (double)ms : 0, COLLECTIVES_EXCESS_S);
    *before = at;
}

static void on_timer(uv_timer_t *t)
{
    struct stragglers *p = t->data;
    struct straggler_change c;
    if (p->ticks++ % STATUS_TICKS == 0)
        (void)launch_request_status(p->run->job, p->asked);
    for (int i = 0; i < p->run->plan->world_size; i++)
        sample_collectives(p, i);
    while (straggler_next(p->straggler, &c))
        report_straggler(p, &c);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    straggler_end(((struct stragglers *)arg)->straggler, r->rank);
}

static void on_progress(void *arg, int rank, const struct progress_packet *packet)
{
    const struct stragglers *p = arg;
    if (packet->kind == PROGRESS_SECTION_END && packet->section && packet->seconds >= 0)
        straggler_add(p->straggler, rank, packet->section, packet->seconds, SECTION_EXCESS_S);
}

/* Adds the time since the rank's last report, per step. */
static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct stragglers *p = arg;
    struct rank *r = &p->ranks[rank];
    AUTO(json) json_t *report = metric_mapping_read(json, len);
    double step;
    if (!report || json_as_number(&step, json_object_get(report, "step")) < 0)
        return;
    if (r->at_ms && step > r->step)
        straggler_add(p->straggler, rank, "step between reports",
                      (double)(feature_now_ms(p->run) - r->at_ms) / 1000 / (step - r->step),
                      SECTION_EXCESS_S);
    if (r->at_ms && step == r->step)
        return; /* more metrics of the same step */
    r->step = step;
    r->at_ms = feature_now_ms(p->run);
}

/* ---- attempts ------------------------------------------------------------------------------- */

static void attach(void *state)
{
    struct stragglers *p = state;
    const struct plan *plan = p->run->plan;
    size_t n = (size_t)plan->world_size;
    p->straggler = straggler_new(plan->world_size);
    p->ranks = xcalloc(n, sizeof *p->ranks);
    p->asked = xcalloc(n, sizeof *p->asked);
    p->checked = xcalloc((size_t)plan->node_count, sizeof *p->checked);
    uv_timer_start(p->timer, on_timer, INTERVAL_MS, INTERVAL_MS);
}

static void ended(void *state, const struct job_end *end, int status)
{
    struct stragglers *p = state;
    node_findings_close(p->slow);
    straggler_free(p->straggler);
    free(p->ranks);
    free(p->asked);
    free(p->checked);
}

const struct feature feature_stragglers = {
    .options = {OPT_FLAG(0, "stragglers", "name ranks that are slower than the others",
                         struct feature_settings, stragglers)},
    .check = check,
    .size = sizeof(struct stragglers),
    .once = true,
    .attach = attach,
    .events = {.report = on_report, .progress = on_progress, .rank_ended = on_rank_ended},
    .ended = ended,
};
