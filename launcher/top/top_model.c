#include "launcher/top/top_model.h"

#include <stdio.h>

#include "common/duration.h"
#include "common/opt.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/gpu/gpu_facts.h"

static const double gib = 1 << 30;

/* ---- whose process it is -------------------------------------------------------------------- */

static int read_number(const char *text)
{
    int n = TOP_UNKNOWN;
    return text && opt_int(&n, "", text, 0, INT_MAX, NULL) == 0 ? n : TOP_UNKNOWN;
}

/* Returns the only job whose drover is this process; NULL: none, or several trials of a worker. */
static const struct registry_job *only_job(const struct registry_list *jobs, pid_t drover,
                                           bool *any)
{
    const struct registry_job *found = NULL;
    int n = 0;
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->at[i].pid == drover && n++ == 0)
            found = &jobs->at[i];
    *any = n > 0;
    return n == 1 ? found : NULL;
}

void top_model_assign(struct top_process *p, const struct top_origin *from,
                      const struct registry_list *jobs)
{
    if (from->job_id)
        snprintf(p->job, sizeof p->job, "%s", from->job_id);
    if (from->job_id)
        p->rank = read_number(from->rank); /* torchrun and others set RANK, too */
    if (from->sweep && from->trial) {
        snprintf(p->sweep, sizeof p->sweep, "%s", from->sweep);
        p->trial = read_number(from->trial);
    }
    bool any = p->job[0] || p->sweep[0];
    for (int i = 0; i < from->ancestor_count && !any; i++) {
        const struct registry_job *j = only_job(jobs, from->ancestors[i], &any);
        if (!j)
            continue;
        snprintf(p->job, sizeof p->job, "%s", j->id);
        snprintf(p->sweep, sizeof p->sweep, "%s", j->sweep ? j->sweep : "");
        p->trial = j->kind == REGISTRY_TRIAL ? j->trial : TOP_UNKNOWN;
    }
}

/* ---- columns -------------------------------------------------------------------------------- */

static const struct top_column gpu_columns[] = {
    /* before those of the values */
    {.title = "NODE", .priority = 1},
    {.title = "GPU", .right = true},
    {.title = "MODEL", .priority = 6},
};

static const struct top_column process_columns[] = {
    {.title = "NODE", .priority = 1},
    {.title = "GPU", .right = true},
    {.title = "PID", .right = true},
    {.title = "USER", .priority = 6},
    {.title = "MEMORY", .least = 8, .priority = 4, .right = true},
    {.title = "JOB", .priority = 2},
    {.title = "RANK/TRIAL", .priority = 3},
    {.title = "COMMAND", .priority = 5, .fills = true},
};

static const struct top_column job_columns[] = {
    {.title = "NODE", .priority = 1},
    {.title = "JOB"},
    {.title = "RUNNING", .priority = 2},
    {.title = "GPUS", .priority = 3, .right = true},
    {.title = "UTIL", .least = 5, .priority = 4, .right = true},
    {.title = "FOR", .least = 6, .priority = 6, .right = true},
    {.title = "COMMAND", .priority = 5, .fills = true},
};

int top_model_columns(struct top_column out[TOP_COLUMNS_MAX], enum top_section section)
{
    static const struct {
        const struct top_column *at;
        int count;
    } sections[TOP_SECTIONS] = {
        [TOP_GPUS] = {gpu_columns, COUNT_OF(gpu_columns)},
        [TOP_PROCESSES] = {process_columns, COUNT_OF(process_columns)},
        [TOP_JOBS] = {job_columns, COUNT_OF(job_columns)},
    };
    int n = sections[section].count;
    memcpy(out, sections[section].at, (size_t)n * sizeof *out);
    for (int f = 0; section == TOP_GPUS && f < GPU_FACTS && n < TOP_COLUMNS_MAX; f++) {
        const struct gpu_column *c = &gpu_rows[f].column;
        if (c->title)
            out[n++] = (struct top_column){.title = c->title,
                                           .least = c->least,
                                           .priority = c->priority,
                                           .right = c->format != NULL};
    }
    return n;
}

const char *const top_model_sort_names[TOP_SORTS] = {"index", "utilisation", "memory", "power"};

/* ---- cells ---------------------------------------------------------------------------------- */

/* Starts a row with the cell of the column NODE. */
static char ***add_row(struct top_view *v, enum top_section section, const struct top_node *n)
{
    v->rows = xrealloc(v->rows, (size_t)v->count + 1, sizeof *v->rows);
    struct top_row *r = &v->rows[v->count++];
    *r = (struct top_row){.section = section};
    strv_push(&r->cells, xstrdup(v->several_nodes ? n->name : ""));
    return &r->cells;
}

static char *number_cell(double value, const char *format)
{
    return value < 0 ? xstrdup("-") : xasprintf(format, value);
}

static char *text_cell(const char *text)
{
    return xstrdup(*text ? text : "-");
}

/* Returns the strongest reason for a lower clock. Bits of NVML: heat 0x20 and 0x40, power brake
 * 0x80, another slowdown by the hardware 0x8, the power limit 0x4. */
static const char *throttle_word(int64_t reasons)
{
    static const struct {
        int64_t bits;
        const char *word;
    } words[] = {{0x60, "heat"}, {0x80, "brake"}, {0x8, "slowdown"}, {0x4, "cap"}};
    if (reasons < 0)
        return "-";
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (reasons & words[i].bits)
            return words[i].word;
    return "no";
}

/* Returns a number in the unit of the table; -1: unknown. */
static double number_of(const struct gpu_sample *s, enum gpu_fact f)
{
    double v = s->known[f] ? gpu_facts_number(s, f) : -1;
    return gpu_rows[f].unit == GPU_MEMORY_BYTES && v >= 0 ? v / gib : v;
}

/* Returns the cell of a value: "71 %", or "60.6/79.6 GiB" with a limit; each may be unknown. */
static char *value_cell(const struct gpu_sample *s, enum gpu_fact f)
{
    const struct gpu_column *c = &gpu_rows[f].column;
    if (!c->format)
        return xstrdup(throttle_word(gpu_sample_value(s, f, -1)));
    AUTO(free) char *value = number_cell(number_of(s, f), c->format);
    if (!c->limit)
        return TAKE(value);
    AUTO(free) char *limit = number_cell(number_of(s, c->limit), c->format);
    if (!s->known[f] && !s->known[c->limit])
        return xstrdup("-");
    return s->known[c->limit] ? xasprintf("%s/%s %s", value, limit, c->unit)
                              : xasprintf("%s %s", value, c->unit);
}

static const char *without_vendor(const char *model)
{
    static const char vendor[] = "NVIDIA ";
    size_t len = sizeof vendor - 1;
    return strncmp(model, vendor, len) == 0 ? model + len : model;
}

/* ---- GPUs and their processes --------------------------------------------------------------- */

struct gpu_at { /* for the order */
    const struct top_node *node;
    const struct gpu_sample *gpu;
    double key; /* the largest first */
    int number; /* the order of equal keys */
};

static double sort_key(const struct gpu_sample *s, enum top_sort sort)
{
    static const enum gpu_fact facts[TOP_SORTS] = {[TOP_BY_UTILISATION] = GPU_FACT_BUSY,
                                                   [TOP_BY_MEMORY] = GPU_FACT_MEMORY_USED,
                                                   [TOP_BY_POWER] = GPU_FACT_POWER};
    return sort == TOP_BY_INDEX ? 0 : number_of(s, facts[sort]);
}

static int by_key(const void *a, const void *b)
{
    const struct gpu_at *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Lists the GPUs in their order; the caller frees `*out`. */
static int sort_gpus(struct gpu_at **out, const struct top_node *nodes, int count,
                     enum top_sort sort)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += nodes[i].gpu_count;
    *out = xcalloc((size_t)n + 1, sizeof **out);
    n = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < nodes[i].gpu_count; k++, n++)
            (*out)[n] =
                (struct gpu_at){&nodes[i], &nodes[i].gpus[k], sort_key(&nodes[i].gpus[k], sort), n};
    qsort(*out, (size_t)n, sizeof **out, by_key);
    return n;
}

static void add_gpu(struct top_view *v, const struct gpu_at *at)
{
    const struct gpu_sample *g = at->gpu;
    char ***cells = add_row(v, TOP_GPUS, at->node);
    strv_push(cells, number_cell(g->gpu.index, "%.0f"));
    strv_push(cells, text_cell(without_vendor(g->gpu.name)));
    for (int f = 0; f < GPU_FACTS; f++)
        if (gpu_rows[f].column.title)
            strv_push(cells, value_cell(g, (enum gpu_fact)f));
}

/* Returns the number of ranks of the process's trial, or 0 if the trial is not listed. */
static int trial_ranks(const struct top_node *n, const struct top_process *p)
{
    for (int i = 0; i < n->job_count; i++)
        if (n->jobs[i].kind == REGISTRY_TRIAL && n->jobs[i].trial == p->trial &&
            strcmp(n->jobs[i].sweep, p->sweep) == 0)
            return n->jobs[i].ranks;
    return 0;
}

static char *rank_cell(const struct top_node *n, const struct top_process *p)
{
    if (!p->sweep[0] || p->trial < 0)
        return number_cell(p->rank, "rank %.0f");
    return p->rank >= 0 && trial_ranks(n, p) > 1 ? xasprintf("trial %d.%d", p->trial, p->rank)
                                                 : xasprintf("trial %d", p->trial);
}

static void add_process(struct top_view *v, const struct gpu_at *at, const struct top_process *p)
{
    char ***cells = add_row(v, TOP_PROCESSES, at->node);
    strv_push(cells, number_cell(at->gpu->gpu.index, "%.0f"));
    strv_push(cells, number_cell(p->pid > 0 ? p->pid : -1, "%.0f"));
    strv_push(cells, text_cell(p->user));
    strv_push(cells,
              number_cell(p->memory_bytes < 0 ? -1 : (double)p->memory_bytes / gib, "%.1f GiB"));
    strv_push(cells, p->sweep[0] ? xstrdup(p->sweep) : text_cell(p->job));
    strv_push(cells, rank_cell(at->node, p));
    strv_push(cells, p->visible ? text_cell(p->command) : xstrdup("not visible"));
}

static int by_memory(const void *a, const void *b)
{
    const struct top_process *const *x = a, *const *y = b;
    if ((*x)->memory_bytes != (*y)->memory_bytes)
        return (*x)->memory_bytes < (*y)->memory_bytes ? 1 : -1;
    return ((*x)->pid > (*y)->pid) - ((*x)->pid < (*y)->pid);
}

/* Adds the processes of one GPU, or a row for memory that no listed process uses. */
static int add_processes(struct top_view *v, const struct gpu_at *at)
{
    const struct top_node *n = at->node;
    const struct gpu_sample *g = at->gpu;
    int found = 0;
    AUTO(free)
    const struct top_process **list = xcalloc((size_t)n->process_count + 1, sizeof *list);
    for (int i = 0; i < n->process_count; i++)
        if (strcmp(n->processes[i].gpu_uuid, g->gpu.uuid) == 0)
            list[found++] = &n->processes[i];
    qsort(list, (size_t)found, sizeof *list, by_memory);
    for (int i = 0; i < found; i++)
        add_process(v, at, list[i]);
    if (found == 0 && gpu_sample_has_users(g))
        add_process(v, at,
                    &(struct top_process){.memory_bytes = g->value[GPU_FACT_MEMORY_USED],
                                          .trial = TOP_UNKNOWN,
                                          .rank = TOP_UNKNOWN});
    return found;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static bool is_of(const struct top_process *p, const struct top_job *j)
{
    if (j->kind == REGISTRY_JOB)
        return strcmp(p->job, j->id) == 0;
    return strcmp(p->sweep, j->sweep) == 0 && (j->kind == REGISTRY_SWEEP || p->trial == j->trial);
}

static bool uses(const struct top_node *n, const struct top_job *j, const struct gpu_sample *g)
{
    for (int i = 0; i < n->process_count; i++)
        if (strcmp(n->processes[i].gpu_uuid, g->gpu.uuid) == 0 && is_of(&n->processes[i], j))
            return true;
    return false;
}

/* Adds the cells GPUS and UTIL: the GPUs on all nodes on which the job has a process. */
static void add_usage(char ***cells, const struct top_job *j, const struct top_node *nodes,
                      int count)
{
    int gpus = 0, known = 0, busy = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < nodes[i].gpu_count; k++) {
            const struct gpu_sample *g = &nodes[i].gpus[k];
            if (!uses(&nodes[i], j, g))
                continue;
            gpus++;
            known += g->known[GPU_FACT_BUSY];
            busy += (int)gpu_sample_value(g, GPU_FACT_BUSY, 0);
        }
    strv_push(cells, number_cell(gpus ? gpus : -1, "%.0f"));
    strv_push(cells, number_cell(known ? (double)busy / known : -1, "%.0f %%"));
}

/* `sweep`: of which sweep; NULL: any. */
static int count_kind(const struct top_node *nodes, int count, enum registry_kind kind,
                      const char *sweep)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < nodes[i].job_count; k++)
            n += nodes[i].jobs[k].kind == kind &&
                 (!sweep || strcmp(nodes[i].jobs[k].sweep, sweep) == 0);
    return n;
}

static void add_job(struct top_view *v, const struct top_node *nodes, int count, int node,
                    const struct top_job *j, bool below_sweep)
{
    bool sweep = j->kind == REGISTRY_SWEEP;
    int n = sweep ? count_kind(nodes, count, REGISTRY_TRIAL, j->sweep) : j->ranks;
    char ***cells = add_row(v, TOP_JOBS, &nodes[node]);
    strv_push(cells, sweep                     ? xasprintf("sweep %s", j->sweep)
                     : j->kind == REGISTRY_JOB ? xstrdup(j->id)
                     : below_sweep             ? xasprintf("  trial %d", j->trial)
                                               : xasprintf("%s trial %d", j->sweep, j->trial));
    strv_push(cells, xasprintf("%d %s%s", n, sweep ? "trial" : "rank", plural_s(n)));
    add_usage(cells, j, nodes, count);
    char age[24];
    strv_push(cells, xstrdup(duration_format(age, sizeof age, j->age_ms / 1000)));
    strv_push(cells, text_cell(j->command));
}

/* Adds the trials of a sweep (NULL: the trials of sweeps that are coordinated on no node here). */
static void add_trials(struct top_view *v, const struct top_node *nodes, int count,
                       const char *sweep, bool **added)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < nodes[i].job_count; k++) {
            const struct top_job *j = &nodes[i].jobs[k];
            if (j->kind != REGISTRY_TRIAL || added[i][k] || (sweep && strcmp(j->sweep, sweep) != 0))
                continue;
            added[i][k] = true;
            add_job(v, nodes, count, i, j, sweep);
        }
}

static void add_jobs(struct top_view *v, const struct top_node *nodes, int count)
{
    AUTO(free) bool **added = xcalloc((size_t)count + 1, sizeof *added);
    for (int i = 0; i < count; i++)
        added[i] = xcalloc((size_t)nodes[i].job_count + 1, sizeof **added);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < nodes[i].job_count; k++) {
            const struct top_job *j = &nodes[i].jobs[k];
            if (j->kind == REGISTRY_TRIAL)
                continue;
            add_job(v, nodes, count, i, j, false);
            if (j->kind == REGISTRY_SWEEP)
                add_trials(v, nodes, count, j->sweep, added);
        }
    add_trials(v, nodes, count, NULL, added);
    for (int i = 0; i < count; i++)
        free(added[i]);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void add_count(struct strbuf *b, int n, const char *one, const char *several)
{
    strbuf_printf(b, "%s%d %s", b->len ? ", " : "", n, n == 1 ? one : several);
}

static char *summarise(const struct top_node *nodes, int count, int gpus, int processes)
{
    AUTO(strbuf) struct strbuf counts = {0};
    int sweeps = count_kind(nodes, count, REGISTRY_SWEEP, NULL);
    int trials = count_kind(nodes, count, REGISTRY_TRIAL, NULL);
    if (count > 1)
        add_count(&counts, count, "node", "nodes");
    add_count(&counts, gpus, "GPU", "GPUs");
    add_count(&counts, processes, "process", "processes");
    add_count(&counts, count_kind(nodes, count, REGISTRY_JOB, NULL), "job", "jobs");
    if (sweeps)
        add_count(&counts, sweeps, "sweep", "sweeps");
    if (trials)
        add_count(&counts, trials, "trial", "trials");
    return count == 1 ? xasprintf("%s: %s", nodes[0].name, strbuf_str(&counts))
                      : strbuf_take(&counts);
}

void top_model_view(struct top_view *out, const struct top_node *nodes, int count,
                    enum top_sort sort)
{
    *out = (struct top_view){.several_nodes = count > 1};
    AUTO(free) struct gpu_at *gpus = NULL;
    int n = sort_gpus(&gpus, nodes, count, sort), processes = 0;
    for (int i = 0; i < n; i++)
        add_gpu(out, &gpus[i]);
    for (int i = 0; i < n; i++)
        processes += add_processes(out, &gpus[i]);
    add_jobs(out, nodes, count);
    for (int i = 0; i < count; i++)
        if (nodes[i].problem[0])
            strv_push(&out->notes, xasprintf("%s: %s", nodes[i].name, nodes[i].problem));
    out->summary = summarise(nodes, count, n, processes);
}

void top_model_view_end(struct top_view *v)
{
    for (int i = 0; i < v->count; i++)
        strv_free(v->rows[i].cells);
    free(v->rows);
    strv_free(v->notes);
    free(v->summary);
    *v = (struct top_view){0};
}
