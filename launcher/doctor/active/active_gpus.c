#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/active/active_internal.h"

/* A link that is healthy carries some 80 % of what its lanes do, in virtual machines less. */
static const double LINK_SHARE = 0.6;

/* A figure of a device, and the check to which it belongs. */
struct figure {
    const char *id, *key, *unit, *after;
    bool over_link;
};

static const struct figure copy_figures[] = {
    {"act.mem", "within_gbps", "GB/s", "", false},
    {"act.pcie", "to_gbps", "GB/s", " to the GPU", true},
    {"act.pcie", "from_gbps", "GB/s", " from the GPU", true},
};
static const struct figure gemm_figures[] = {{"act.gemm", "tflops", "TFLOP/s", "", false}};

/* What `drover bench` measures for which checks. */
static const struct {
    const char *ids[CHECK_NEEDS_MAX];
    const char *options; /* of drover bench, separated by spaces */
    const struct figure *figures;
    size_t figure_count;
    const char *wrong_id, *wrong_what; /* the check that counts wrong results, and what they are */
    const char *source;
} benches[] = {
    [ACTIVE_GPUS_COPY] = {{"act.mem", "act.pcie"},
                          "copy -n 20",
                          copy_figures,
                          COUNT_OF(copy_figures),
                          "act.mem",
                          "wrong bytes",
                          "drover bench copy"},
    [ACTIVE_GPUS_GEMM] = {{"act.gemm"},
                          "gemm -n 50 -w 5",
                          gemm_figures,
                          COUNT_OF(gemm_figures),
                          "act.gemm",
                          "wrong rows",
                          "drover bench gemm"},
    [ACTIVE_GPUS_BITS] = {{"act.bits"},
                          "gemm -n 1 -w 0 --check=200",
                          NULL,
                          0,
                          "act.bits",
                          "wrong elements",
                          "drover bench gemm --check"},
};

/* ---- judgement ------------------------------------------------------------------------------ */

/* What is found on each node, by the number of the node in the output. */
struct findings {
    const struct active_measurement *m;
    const json_t *rows;
    const int *nodes;
    int count, per_node;
    struct strbuf *bad, *ok; /* per node */
    char *want;              /* what the first finding should have been */
};

static int node_of(const struct findings *f, const json_t *row)
{
    int node = (int)json_integer_value(json_object_get(row, "rank")) / f->per_node;
    return node < f->count ? node : f->count - 1;
}

/* Appends a text to the findings of the row's node, with its GPU. */
static void add(const struct findings *f, struct strbuf *to, const json_t *row, const char *text)
{
    struct strbuf *b = &to[node_of(f, row)];
    if (b->len)
        strbuf_puts(b, "; ");
    if (json_object_get(row, "pci") || f->m->opts->gpus)
        strbuf_printf(b,
                      "GPU %lld: ", (long long)json_integer_value(json_object_get(row, "device")));
    strbuf_puts(b, text);
}

static double figure_of(const json_t *row, const struct figure *g)
{
    return json_number_value(json_object_get(row, g->key));
}

/* Writes "25.2 ± 0.3 GB/s": the median of the known figures, and 1.4826 times their median
 * distance from it. */
static char *usual(const double *values, int count, const char *unit)
{
    AUTO(free) double *v = xcalloc((size_t)count + 1, sizeof *v);
    int n = 0;
    for (int i = 0; i < count; i++)
        if (values[i] > 0)
            v[n++] = values[i];
    double m = active_median(v, n);
    for (int i = 0; i < n; i++)
        v[i] = fabs(v[i] - m);
    return xasprintf("%.3g ± %.2g %s", m, 1.4826 * active_median(v, n), unit);
}

/* Judges the figure of a device against its link. Returns true if it is too low. */
static bool judge_link(struct findings *f, const json_t *row, const struct figure *g)
{
    const json_t *link = json_object_get(row, "link");
    double gbps = json_number_value(json_object_get(link, "gbps")), is = figure_of(row, g);
    if (!g->over_link || gbps <= 0 || is <= 0 || is >= LINK_SHARE * gbps)
        return false;
    AUTO(free)
    char *text =
        xasprintf("%.3g %s%s over generation %lld x%lld, which carries %.3g", is, g->unit, g->after,
                  (long long)json_integer_value(json_object_get(link, "generation")),
                  (long long)json_integer_value(json_object_get(link, "width")), gbps);
    add(f, f->bad, row, text);
    if (!f->want)
        f->want = xasprintf("%.0f %% of the link's rate or more", 100 * LINK_SHARE);
    return true;
}

/* Appends the figures of a node on which nothing is wrong: "8 GPUs: 25.2 ± 0.3 GB/s". */
static void put_ok(struct findings *f, int node, const double *values, const struct figure *g)
{
    int n = 0, all = (int)json_array_size(f->rows);
    AUTO(free) double *own = xcalloc((size_t)all + 1, sizeof *own);
    for (int i = 0; i < all; i++)
        if (node_of(f, json_array_get(f->rows, (size_t)i)) == node && values[i] > 0)
            own[n++] = values[i];
    if (n == 0)
        return;
    AUTO(free)
    char *text = n > 1 ? usual(own, n, g->unit) : xasprintf("%.3g %s", own[0], g->unit);
    strbuf_printf(&f->ok[node], "%s%s%s", f->ok[node].len ? ", " : "", text, g->after);
}

/* Compares a figure of all devices. */
static void judge_figure(struct findings *f, const struct figure *g)
{
    int n = (int)json_array_size(f->rows);
    AUTO(free) double *values = xcalloc((size_t)n + 1, sizeof *values);
    AUTO(free) bool *slow = xcalloc((size_t)n + 1, sizeof *slow);
    for (int i = 0; i < n; i++)
        values[i] = figure_of(json_array_get(f->rows, (size_t)i), g);
    active_checks_find_slow(slow, values, n);
    AUTO(free) char *peers = usual(values, n, g->unit);
    for (int i = 0; i < n; i++) {
        const json_t *row = json_array_get(f->rows, (size_t)i);
        AUTO(free) char *text = xasprintf("%.3g %s%s", values[i], g->unit, g->after);
        if (judge_link(f, row, g) || !slow[i])
            continue;
        add(f, f->bad, row, text);
        if (!f->want)
            f->want = xasprintf("as fast as the others: %s", peers);
    }
    for (int i = 0; i < f->count; i++)
        put_ok(f, i, values, g);
}

static void judge_wrong(struct findings *f, const char *what)
{
    const json_t *row;
    size_t i;
    json_array_foreach (f->rows, i, row) {
        long long wrong = (long long)json_integer_value(json_object_get(row, "wrong"));
        AUTO(free) char *text = xasprintf("%lld %s", wrong, what);
        if (wrong <= 0)
            continue;
        add(f, f->bad, row, text);
        free(f->want);
        f->want = xasprintf("0 %s", what);
    }
}

static void judge_check(struct findings *f, enum active_gpus_what what, const char *id)
{
    const char *source = benches[what].source;
    if (strcmp(id, benches[what].wrong_id) == 0)
        judge_wrong(f, benches[what].wrong_what);
    for (size_t k = 0; k < benches[what].figure_count; k++)
        if (strcmp(benches[what].figures[k].id, id) == 0)
            judge_figure(f, &benches[what].figures[k]);
    for (int i = 0; i < f->count; i++) {
        struct check_result *r = active_result(f->m, f->nodes[i], id);
        if (f->bad[i].len)
            check_bad(r, CHECK_FAIL, f->want, source, "%s", strbuf_str(&f->bad[i]));
        else if (f->ok[i].len)
            check_ok(r, source, "%s", strbuf_str(&f->ok[i]));
        else if (what == ACTIVE_GPUS_BITS)
            check_ok(r, source, "200 equal results");
        else
            check_skip(r, "no GPU");
        strbuf_free(&f->bad[i]);
        strbuf_free(&f->ok[i]);
    }
    free(TAKE(f->want));
}

void active_gpus_judge(const struct active_measurement *m, enum active_gpus_what what,
                       const json_t *root, const int *nodes, int count, int per_node)
{
    AUTO(free) struct strbuf *bad = xcalloc((size_t)count + 1, sizeof *bad);
    AUTO(free) struct strbuf *ok = xcalloc((size_t)count + 1, sizeof *ok);
    struct findings f = {.m = m,
                         .rows = json_object_get(root, "rows"),
                         .nodes = nodes,
                         .count = count,
                         .per_node = per_node,
                         .bad = bad,
                         .ok = ok};
    for (size_t k = 0; k < CHECK_NEEDS_MAX && benches[what].ids[k]; k++)
        judge_check(&f, what, benches[what].ids[k]);
}

/* ---- running -------------------------------------------------------------------------------- */

/* Sets the results if there is no measurement: without a library of CUDA nothing is known. */
static void set_unmeasured(const struct active_measurement *m, enum active_gpus_what what, int node,
                           const struct child_result *c, const json_t *root)
{
    const char *missing = json_string_value(json_object_get(root, "missing"));
    AUTO(free) char *why = own_command_error(c);
    for (size_t k = 0; k < CHECK_NEEDS_MAX && benches[what].ids[k]; k++) {
        struct check_result *r = active_result(m, node, benches[what].ids[k]);
        if (missing)
            check_skip(r, "%s", missing);
        else
            check_bad(r, CHECK_FAIL, "a result", benches[what].source, "%s", why);
    }
}

static char **options_of(const struct active_measurement *m, enum active_gpus_what what)
{
    char **options = NULL;
    AUTO(free) char *copy = xstrdup(benches[what].options);
    for (char *rest = copy, *word; (word = strsep(&rest, " "));)
        strv_push(&options, xstrdup(word));
    if (m->opts->gpus)
        strv_push(&options, xstrdup("--backend=nccl")); /* a node without its GPUs fails */
    return options;
}

/* Measures some nodes in one run. Returns 1 if that is not possible. */
static int run_nodes(const struct active_measurement *m, enum active_gpus_what what,
                     const int *nodes, int count)
{
    int per_node = m->opts->gpus && m->opts->per_node > 1 ? m->opts->per_node : 1;
    AUTO(free) bool *chosen = xcalloc((size_t)m->count + 1, sizeof *chosen);
    for (int i = 0; i < count; i++)
        chosen[nodes[i]] = true;
    AUTO(hosts) struct hosts *hosts = m->hosts ? hosts_select(m->hosts, chosen) : NULL;
    AUTO(strv) char **options = options_of(m, what);
    AUTO(child_result) struct child_result c = {0};
    AUTO(json) json_t *j = NULL;
    int rc = active_bench(&j, &c, m, hosts, per_node, options);
    if (rc < 0)
        return rc;
    if (json_array_size(json_object_get(j, "rows")) > 0)
        active_gpus_judge(m, what, j, nodes, count, per_node);
    else if (count > 1)
        return 1;
    else
        set_unmeasured(m, what, nodes[0], &c, j);
    return 0;
}

/* Returns the check that has failed on the node and that a check of the run needs; NULL: none. */
static const char *unmet(const struct active_measurement *m, enum active_gpus_what what, int node)
{
    for (size_t k = 0; k < CHECK_NEEDS_MAX && benches[what].ids[k]; k++) {
        const struct check *row = check_find(benches[what].ids[k]);
        for (size_t n = 0; n < CHECK_NEEDS_MAX && row->needs[n]; n++)
            if (active_result(m, node, row->needs[n])->state == CHECK_FAIL)
                return row->needs[n];
    }
    return NULL;
}

static int run(const struct active_measurement *m, enum active_gpus_what what)
{
    AUTO(free) int *nodes = xcalloc((size_t)m->count + 1, sizeof *nodes);
    int count = 0;
    for (int i = 0; i < m->count; i++) {
        const char *needed = unmet(m, what, i);
        if (!needed)
            nodes[count++] = i;
        for (size_t k = 0; needed && k < CHECK_NEEDS_MAX && benches[what].ids[k]; k++)
            check_skip(active_result(m, i, benches[what].ids[k]), "needs %s", needed);
    }
    int rc = count ? run_nodes(m, what, nodes, count) : 0;
    if (rc <= 0)
        return rc;
    rc = 0;
    for (int i = 0; i < count && rc == 0; i++)
        rc = run_nodes(m, what, &nodes[i], 1);
    return rc;
}

int active_gpus_run(const struct active_measurement *m)
{
    int rc = run(m, ACTIVE_GPUS_COPY);
    rc = rc < 0 ? rc : run(m, ACTIVE_GPUS_GEMM);
    return rc < 0 ? rc : run(m, ACTIVE_GPUS_BITS);
}
