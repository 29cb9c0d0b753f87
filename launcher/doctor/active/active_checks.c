#include "launcher/doctor/active/active_checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/active/active_internal.h"

const struct check active_checks[] = {
    {"act.mem", "copies within memory", CHECK_LONG, .needs = {"gpu.answers"},
     .why = "A GPU or a processor whose memory is slow makes all ranks wait.",
     .advice = "look for other load, power limits and memory errors on this node: nvidia-smi -q"},
    {"act.pcie", "copies over PCIe", CHECK_LONG, .needs = {"gpu.answers", "gpu.pcie"},
     .why = "Batches and checkpoints cross this link, and gradients do too without GPUDirect.",
     .advice = "look at the slot and the riser (lspci -vv: LnkSta), at the BIOS, and at other load "
               "on this link; drover bench copy measures it"},
    {"act.gemm", "products of matrices", CHECK_LONG, .needs = {"gpu.answers"},
     .why = "A training step ends when the slowest GPU has multiplied, and a wrong product spoils "
            "the model.",
     .advice = "look at clocks, power limits and temperatures under load: nvidia-smi -q -d "
               "PERFORMANCE; drover bench gemm measures it"},
    {"act.allreduce", "all-reduce", CHECK_STOP /* of --preflight full */, .needs = {"net.back"},
     .why = "Most training jobs spend their communication in this collective.",
     .advice = "drover bench all_reduce --verdict -H NODE, which says what is slow"},
    {"act.bits", "equal results", CHECK_LONG, .needs = {"gpu.answers"},
     .why = "A GPU with silent faults computes wrong gradients, and a job does not converge.",
     .advice = "take the node out, and have the GPU tested: dcgmi diag -r 3"},
    {"act.pair", "pairs of nodes", CHECK_REPORT, .needs = {"act.allreduce"},
     .why = "One slow link slows down every collective that uses it.",
     .advice = "look at cable, port and switch: drover bench all_reduce --pairs --hostfile FILE"},
    {0},
};

/* ---- judgement ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double active_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void active_checks_find_slow(bool *slow, const double *values, int count)
{
    AUTO(free) double *others = xcalloc((size_t)count + 1, sizeof *others);
    AUTO(free) double *away = xcalloc((size_t)count + 1, sizeof *away);
    for (int i = 0; i < count; i++) {
        int n = 0;
        for (int k = 0; k < count; k++)
            if (k != i && values[k] > 0)
                others[n++] = values[k];
        slow[i] = false;
        if (n < 2 || values[i] <= 0)
            continue;
        double m = active_median(others, n);
        for (int k = 0; k < n; k++)
            away[k] = fabs(others[k] - m);
        slow[i] = values[i] < m - fmin(m / 2, fmax(5 * 1.4826 * active_median(away, n), m / 10));
    }
}

/* ---- drover bench --------------------------------------------------------------------------- */

struct check_result *active_result(const struct active_measurement *m, int node, const char *id)
{
    return &m->report->nodes[m->nodes[node]].results[check_find(id) - check_table()];
}

void active_fail_all(const struct active_measurement *m, const char *id, const char *source,
                     const struct child_result *c)
{
    AUTO(free) char *why = own_command_error(c);
    for (int i = 0; i < m->count; i++)
        check_bad(active_result(m, i, id), CHECK_FAIL, "a result", source, "%s", why);
}

int active_bench(json_t **out, struct child_result *c, const struct active_measurement *m,
                 const struct hosts *hosts, int per_node, char *const *options)
{
    AUTO(fd) int fd = hosts ? own_command_hosts(hosts, m->e) : -1;
    AUTO(strv) char **argv = NULL;
    if (hosts && fd < 0)
        return fd;
    strv_push(&argv, xstrdup("bench"));
    for (; *options; options++)
        strv_push(&argv, xstrdup(*options));
    strv_push(&argv, xstrdup("--json"));
    strv_push(&argv, xstrdup("--oversubscribe"));
    strv_push(&argv, xstrdup("--timeout=30"));
    if (hosts)
        strv_push(&argv, xasprintf("--hostfile=/proc/self/fd/%d", fd));
    strv_push(&argv, xasprintf(hosts ? "--npernode=%d" : "--np=%d", per_node));
    int rc = own_command_run(c, argv, m->opts->env, m->e);
    if (rc < 0)
        return rc;
    /* A failure may have a document, too: slow pairs, or one line per rank without CUDA's
     * library */
    const char *text = strbuf_str(&c->out);
    if (json_parse(out, text, c->out.len, NULL) < 0)
        (void)json_parse(out, text, strcspn(text, "\n"), NULL);
    return 0;
}

/* Runs `drover bench all_reduce` on some hosts (NULL: this machine). */
static int bench(json_t **out, struct child_result *c, const struct active_measurement *m,
                 const struct hosts *hosts, int per_node, const char *option)
{
    char *size = m->opts->gpus ? "32M" : "128K", *iters = m->opts->brief ? "5" : "20";
    char *options[] = {"all_reduce", "-b", size, "-e", size, "-n", iters, (char *)option, NULL};
    return active_bench(out, c, m, hosts, per_node, options);
}

/* Returns the busbw of the first row in GB/s; 0: unknown. */
static double bandwidth(const json_t *j)
{
    const json_t *row = json_array_get(json_object_get(j, "rows"), 0);
    return json_number_value(json_object_get(json_object_get(row, "out_of_place"), "busbw_gbps"));
}

static int ranks_per_node(const struct active_opts *o)
{
    return o->per_node > 1 ? o->per_node : o->hosts ? 1 : 2;
}

/* Measures each node by itself, one after the other, and compares them. */
static int run_each(const struct active_measurement *m, int per_node)
{
    static const char id[] = "act.allreduce";
    int n = m->count, rc = 0;
    AUTO(free) double *values = xcalloc((size_t)n, sizeof *values);
    AUTO(free) bool *slow = xcalloc((size_t)n, sizeof *slow);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct hosts one = {.at = m->hosts ? &m->hosts->at[i] : NULL, .count = 1};

        AUTO(child_result) struct child_result c = {0};
        AUTO(json) json_t *j = NULL;
        rc = bench(&j, &c, m, m->hosts ? &one : NULL, per_node, NULL);

        values[i] = bandwidth(j);
        AUTO(free) char *why = own_command_error(&c);
        if (rc == 0 && values[i] <= 0)
            check_bad(active_result(m, i, id), CHECK_FAIL, "a result", "drover bench", "%s", why);
    }
    active_checks_find_slow(slow, values, n);
    for (int i = 0; i < n; i++) {
        if (values[i] <= 0)
            continue;

        if (slow[i])
            check_bad(active_result(m, i, id), CHECK_FAIL, "as fast as the other nodes",
                      "drover bench", "%.3g GB/s", values[i]);
        else
            check_ok(active_result(m, i, id), "drover bench", "%.3g GB/s", values[i]);
    }
    return rc;
}

/* Runs the collective over all nodes. If it succeeds, each node runs it alone, and the nodes are
 * compared. */
static int run_allreduce(const struct active_measurement *m)
{
    static const char id[] = "act.allreduce";
    int ranks = ranks_per_node(m->opts);
    AUTO(child_result) struct child_result c = {0};
    AUTO(json) json_t *j = NULL;
    int rc = bench(&j, &c, m, m->hosts, ranks, NULL);
    if (rc < 0)
        return rc;
    double busbw = bandwidth(j);
    if (busbw <= 0) {
        active_fail_all(m, id, "drover bench", &c);
        return 0;
    }
    if (!m->opts->brief && ranks > 1 && m->count > 1)
        return run_each(m, ranks);
    for (int i = 0; i < m->count; i++)
        check_ok(active_result(m, i, id), "drover bench", "%.3g GB/s", busbw);

    return 0;
}

/* Adds a text to the findings of a node. With one node, the pairs are those of its ranks. */
static void add(struct strbuf *findings, int nodes, size_t i, const char *text)
{
    struct strbuf *b = &findings[nodes > 1 && i < (size_t)nodes ? i : 0];
    strbuf_printf(b, "%s%s", b->len ? "; " : "", text);
}

/* Adds what one map of the pairs names: nodes and links that are slow. */
static void read_map(struct strbuf *findings, int nodes, const json_t *names, const json_t *map)
{
    const json_t *entry, *gbps = json_object_get(map, "gbps");
    size_t k;
    json_array_foreach (json_object_get(map, "slow_nodes"), k, entry) {
        size_t i = (size_t)json_integer_value(entry);
        AUTO(free)
        char *text =
            xasprintf("%s is slow to most others", json_string_value(json_array_get(names, i)));
        add(findings, nodes, i, text);
    }
    json_array_foreach (json_object_get(map, "slow_links"), k, entry) {
        size_t i = (size_t)json_integer_value(json_array_get(entry, 0));
        size_t to = (size_t)json_integer_value(json_array_get(entry, 1));
        AUTO(free)
        char *text = xasprintf("%s to %s: %.3g GB/s", json_string_value(json_array_get(names, i)),
                               json_string_value(json_array_get(names, to)),
                               json_number_value(json_array_get(json_array_get(gbps, i), to)));
        add(findings, nodes, i, text);
    }
}

static void judge_pairs(const struct active_measurement *m, const json_t *root)
{
    static const char id[] = "act.pair";
    int n = m->count;
    const json_t *rail, *names = json_object_get(root, "nodes");
    json_t *rails = json_object_get(root, "rails");
    const json_t *first = rails ? json_array_get(rails, 0) : root;
    double usual = json_number_value(json_object_get(first, "usual_gbps"));
    AUTO(free) struct strbuf *findings = xcalloc((size_t)n, sizeof *findings);
    size_t k;
    if (!rails)
        read_map(findings, n, names, root);
    json_array_foreach (rails, k, rail)
        read_map(findings, n, names, rail);
    AUTO(free) char *want = xasprintf("%.3g GB/s, as the other pairs", usual);
    for (int i = 0; i < n; i++) {
        if (findings[i].len)
            check_bad(active_result(m, i, id), CHECK_FAIL, want, "drover bench --pairs", "%s",
                      strbuf_str(&findings[i]));
        else
            check_ok(active_result(m, i, id), "drover bench --pairs", "%.3g GB/s", usual);
        strbuf_free(&findings[i]);
    }
}

static int run_pair(const struct active_measurement *m)
{
    AUTO(child_result) struct child_result c = {0};
    AUTO(json) json_t *j = NULL;
    int ranks = ranks_per_node(m->opts);
    if (m->count * ranks < 2)
        return 0;
    int rc = bench(&j, &c, m, m->hosts, ranks, "--pairs");
    if (rc < 0)
        return rc;
    if (json_is_array(json_object_get(j, "nodes")))
        judge_pairs(m, j);
    else
        active_fail_all(m, "act.pair", "drover bench", &c);
    return 0;
}

static bool failed_anywhere(const struct active_measurement *m, const char *id)
{
    for (int i = 0; i < m->count; i++)
        if (active_result(m, i, id)->state == CHECK_FAIL)
            return true;
    return false;
}

/* Sets a skip on all nodes. */
static void skip_all(const struct active_measurement *m, const char *id, const char *needed)
{
    for (int i = 0; i < m->count; i++)
        check_skip(active_result(m, i, id), "needs %s", needed);
}

/* Runs the collective over all nodes, and if it works all pairs. */
static int run_collectives(const struct active_measurement *m)
{
    if (failed_anywhere(m, "net.back")) {
        skip_all(m, "act.allreduce", "net.back");
        skip_all(m, "act.pair", "act.allreduce");
        return 0;
    }
    int rc = run_allreduce(m);
    if (rc == 0 && active_result(m, 0, "act.allreduce")->state != CHECK_FAIL)
        return run_pair(m);
    skip_all(m, "act.pair", "act.allreduce");
    return rc;
}

int active_checks_run(struct doctor_report *r, const struct active_opts *o, struct err *e)
{
    AUTO(free) int *nodes = xcalloc((size_t)r->count + 1, sizeof *nodes);
    AUTO(free) bool *answered = xcalloc((size_t)r->count + 1, sizeof *answered);
    struct active_measurement m = {.report = r, .opts = o, .nodes = nodes, .e = e};
    for (int i = 0; i < r->count; i++)
        if ((answered[i] = r->nodes[i].results != NULL))
            nodes[m.count++] = i;
    if (m.count == 0)
        return 0;
    AUTO(hosts) struct hosts *hosts = o->hosts ? hosts_select(o->hosts, answered) : NULL;
    m.hosts = hosts;
    int rc = active_ring_run(&m);
    rc = rc < 0 ? rc : run_collectives(&m);
    return rc < 0 || o->brief ? rc : active_gpus_run(&m);
}
