#include "launcher/history/job_report.h"

#include "common/redact.h"
#include "common/strbuf.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/report/report_document.h"
#include "launcher/report/report_file.h"

enum { NODES_SHOWN = 64 };

struct job_report {
    const char *path;
    int attempts;
    struct report_document *document; /* of the last attempt; NULL: none has ended */
};

struct job_report *job_report_open(const char *path)
{
    struct job_report *r = xzalloc(sizeof *r);
    r->path = path;
    return r;
}

void job_report_close(struct job_report *r)
{
    if (r)
        report_document_free(r->document);
    free(r);
}

static void add_facts(struct report_document *d, const struct plan *p,
                      const struct job_report_end *end, int attempts)
{
    AUTO(strbuf) struct strbuf command = {0};
    redact_command(&command, p->argv);
    report_document_table(d);
    report_document_head(d, "job", false);
    report_document_head(d, p->job_id, false);
    report_document_fact(d, "result", "%s", end->status == 0 ? "success" : "failure");
    report_document_fact(d, "exit status", "%d", end->status);
    report_document_fact(d, "duration", "%.1f s", end->seconds);
    report_document_fact(d, "attempts", "%d", attempts);
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
    static const char *const heads[] = {"node", "ranks", "GPU of each rank", "hardware"};
    report_document_heading(d, "Plan");
    report_document_table(d);
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        report_document_head(d, heads[i], false);
    for (int i = 0; i < p->node_count && i < NODES_SHOWN; i++)
        add_node(d, p, i);
    if (p->node_count > NODES_SHOWN)
        report_document_text(d, "%d more nodes are not shown.", p->node_count - NODES_SHOWN);
}

void job_report_ended(struct job_report *r, const struct plan *p, const struct job_report_end *end)
{
    if (!r)
        return;
    report_document_free(r->document);
    r->document = report_document_new("drover run", NULL);
    add_facts(r->document, p, end, ++r->attempts);
    add_plan(r->document, p);
    report_document_heading(r->document, "First failure");
    if (*end->failure)
        report_document_code(r->document, end->failure);
    else
        report_document_text(r->document, "No rank has failed.");
}

int job_report_finish(struct job_report *r, const char *usage, struct err *e)
{
    if (!r || !r->document)
        return 0;
    report_document_heading(r->document, "Usage");
    if (*usage)
        report_document_code(r->document, usage);
    else
        report_document_text(r->document, "The job used no GPU, or was too short to measure.");
    return report_file_document(r->path, r->document, e) < 0 ? err_wrap(e, "--report") : 0;
}
