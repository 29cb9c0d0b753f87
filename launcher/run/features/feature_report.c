/* feature_report - implements --report FILE, a job as a file to mail. It says what ran where, how
 * it ended, the first failure, and what the job has used. */
#include "common/log.h"
#include "common/redact.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/report/report_document.h"
#include "launcher/report/report_file.h"
#include "launcher/run/features/feature.h"

enum { NODES_SHOWN = 64 };

struct report {
    FEATURE_STATE;
    struct report_document *document; /* of the last attempt; NULL: none has ended */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    if (set->report && report_file_form(&(enum report_form){0}, set->report, e) < 0)
        return err_wrap(e, "--report");
    return set->report != NULL;
}

static void add_facts(const struct report *r, const struct job_end *end, int status)
{
    struct report_document *d = r->document;
    const struct plan *p = r->run->plan;
    AUTO(strbuf) struct strbuf command = {0};
    redact_command(&command, p->argv);
    report_document_table(d);
    report_document_head(d, "job", false);
    report_document_head(d, p->job_id, false);
    report_document_fact(d, "result", "%s", status == 0 ? "success" : "failure");
    report_document_fact(d, "exit status", "%d", status);
    report_document_fact(d, "duration", "%.1f s", end->seconds);
    report_document_fact(d, "attempts", "%d", r->run->attempt + 1);
    report_document_fact(d, "ranks", "%d on %d node%s, engine %s", p->world_size, p->node_count,
                         p->node_count > 1 ? "s" : "", p->engine);
    report_document_fact(d, "GPUs", "%d", plan_hardware_gpus(p));
    report_document_fact(d, "drover", "%s", DROVER_VERSION);
    report_document_code(d, strbuf_str(&command));
}

/* The ranks of a node are not always neighbours: the list is that of the plan. */
static void add_node(struct report_document *d, const struct plan *p, int node)
{
    AUTO(strbuf) struct strbuf ranks = {0}, gpus = {0};
    for (int i = 0; i < p->world_size; i++) {
        const struct plan_rank *r = &p->ranks[i];
        if (r->node != node)
            continue;
        strbuf_printf(&ranks, "%s%d", ranks.len ? ", " : "", r->rank + p->first_rank);
        if (r->gpu >= 0)
            strbuf_printf(&gpus, "%s%d", gpus.len ? ", " : "", r->gpu);
    }
    report_document_cell(d, "%s", p->nodes[node].name);
    report_document_cell(d, "%s", strbuf_str(&ranks));
    report_document_cell(d, "%s", gpus.len ? strbuf_str(&gpus) : "–");
    report_document_cell(d, "%s", p->nodes[node].hardware ? p->nodes[node].hardware : "–");
}

static void add_plan(struct report_document *d, const struct plan *p)
{
    report_document_heading(d, "Plan");
    report_document_columns(d, "node|ranks|GPU of each rank|hardware");
    for (int i = 0; i < p->node_count && i < NODES_SHOWN; i++)
        add_node(d, p, i);
    if (p->node_count > NODES_SHOWN)
        report_document_text(d, "%d more node%s not shown.", p->node_count - NODES_SHOWN,
                             p->node_count - NODES_SHOWN == 1 ? " is" : "s are");
}

/* The last attempt counts. */
static void ended(void *state, const struct job_end *end, int status)
{
    struct report *r = state;
    report_document_free(r->document);
    r->document = report_document_new("drover run", NULL);
    add_facts(r, end, status);
    add_plan(r->document, r->run->plan);
    report_document_heading(r->document, "First failure");
    if (r->run->failure.len > 0)
        report_document_code(r->document, strbuf_str(&r->run->failure));
    else
        report_document_text(r->document, "No rank has failed.");
}

static void finish(void *state, int status)
{
    struct report *r = state;
    const struct strbuf *usage = &r->run->usage;
    struct err e = {0};
    if (!r->document)
        return;
    report_document_heading(r->document, "Usage");
    if (usage->len > 0)
        report_document_code(r->document, strbuf_str(usage));
    else
        report_document_text(r->document, "The job used no GPU, or was too short to measure.");
    if (report_file_write(NULL, r->run->set->report, r->document, NULL, &e) < 0)
        log_error("--report: %s", e.text);
}

static void free_document(void *state)
{
    report_document_free(((struct report *)state)->document);
}

const struct feature feature_report = {
    .options = {OPT_STR(0, "report", "FILE", "write a report of the job, FILE.html or FILE.md",
                        struct feature_settings, report)},
    .check = check,
    .size = sizeof(struct report),
    .ended = ended,
    .finish = finish,
    .close = free_document,
};
