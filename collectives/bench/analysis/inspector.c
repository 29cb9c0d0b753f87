#include "collectives/bench/analysis/inspector.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/analysis/stats.h"

static const double LATE = 0.8; /* share of the median time per operation */

/* ---- records -------------------------------------------------------------------------------- */

/* The keys of a record's operation. */
struct kind {
    const char *perf, *bytes, *time_us, *busbw;
};
static const struct kind kinds[] = {
    {"coll_perf", "coll_msg_size_bytes", "coll_exec_time_us", "coll_busbw_gbs"},
    {"p2p_perf", "p2p_msg_size_bytes", "p2p_exec_time_us", "p2p_busbw_gbs"},
};

struct record {
    const char *comm, *name, *host; /* borrowed */
    int64_t rank, ranks, pid, bytes, time_us;
    double busbw;
    bool p2p;
};

static int read_record(struct record *r, const json_t *line, struct err *e)
{
    const json_t *head = json_object_get(line, "header"), *meta = json_object_get(line, "metadata");
    r->p2p = !json_object_get(line, kinds[0].perf);
    const struct kind *k = &kinds[r->p2p];
    const json_t *perf = json_object_get(line, k->perf);
    r->name = "unknown";
    if (json_require_str(&r->comm, head, "id", e) < 0 ||
        json_optional_str(&r->name, head, "comm_name", e) < 0 ||
        json_require_int(&r->rank, head, "rank", e) < 0 ||
        json_require_int(&r->ranks, head, "n_ranks", e) < 0 ||
        json_require_str(&r->host, meta, "hostname", e) < 0 ||
        json_require_int(&r->pid, meta, "pid", e) < 0 ||
        json_require_int(&r->bytes, perf, k->bytes, e) < 0 ||
        json_require_int(&r->time_us, perf, k->time_us, e) < 0)
        return e->code;
    if (r->rank < 0 || r->rank >= r->ranks || r->bytes < 0 || r->time_us < 0)
        return err_set(e, -EINVAL, "a number is out of range");
    /* The plug-in writes "nan" as a string. */
    if (json_as_number(&r->busbw, json_object_get(perf, k->busbw)) < 0)
        return err_set(e, -EINVAL, "'%s' is missing", k->busbw);
    return r->busbw < 0 ? err_set(e, -EINVAL, "'%s' is negative", k->busbw) : 0;
}

/* Returns the row of a record. A process writes one file, so its rows are the last ones. */
static struct inspector_row *row_of(struct inspector *t, const struct record *r)
{
    for (size_t i = t->count; i-- > 0;) {
        struct inspector_row *row = &t->rows[i];
        if (row->rank == r->rank && row->p2p == r->p2p && row->pid == r->pid &&
            strcmp(row->comm, r->comm) == 0 && strcmp(row->host, r->host) == 0)
            return row;
    }
    t->rows = xgrow(t->rows, t->count, sizeof *t->rows);
    t->rows[t->count] = (struct inspector_row){.comm = xstrdup(r->comm),
                                               .name = xstrdup(r->name),
                                               .host = xstrdup(r->host),
                                               .rank = r->rank,
                                               .ranks = r->ranks,
                                               .pid = r->pid,
                                               .p2p = r->p2p};
    return &t->rows[t->count++];
}

int inspector_add(struct inspector *t, const char *line, size_t len, struct err *e)
{
    struct record r;
    AUTO(json) json_t *o = NULL;
    t->lines++;
    int rc = json_parse(&o, line, len, e);
    rc = rc < 0 ? rc : read_record(&r, o, e);
    if (rc < 0) {
        t->broken++;
        return rc;
    }
    if ((double)r.bytes < t->min_bytes) {
        t->left_out++;
        return 0;
    }
    struct inspector_row *row = row_of(t, &r);
    row->ops++;
    row->bytes += (double)r.bytes;
    if (r.time_us == 0 || !isfinite(r.busbw))
        return 0;
    double seconds = (double)r.time_us / 1e6;
    row->seconds += seconds;
    row->traffic_gb += r.busbw * seconds;
    return 0;
}

void inspector_free(struct inspector *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->rows[i].comm);
        free(t->rows[i].name);
        free(t->rows[i].host);
    }
    free(t->rows);
}

/* ---- conclusions ---------------------------------------------------------------------------- */

static int compare_groups(const struct inspector_row *a, const struct inspector_row *b)
{
    int c = strcmp(a->name, b->name);
    c = c ? c : strcmp(a->comm, b->comm);
    return c ? c : a->p2p - b->p2p;
}

static int compare(const void *left, const void *right)
{
    const struct inspector_row *a = left, *b = right;
    int c = compare_groups(a, b);
    c = c ? c : (a->rank > b->rank) - (a->rank < b->rank);
    return c ? c : (a->pid > b->pid) - (a->pid < b->pid);
}

void inspector_sort(struct inspector *t)
{
    if (t->count)
        qsort(t->rows, t->count, sizeof *t->rows, compare);
}

double inspector_busbw(const struct inspector_row *r)
{
    return r->seconds > 0 ? r->traffic_gb / r->seconds : 0;
}

struct inspector_group inspector_judge(const struct inspector *t, size_t begin)
{
    struct inspector_group g = {.end = begin};
    size_t n = 0, shortest = begin;
    int64_t next = 0;
    while (g.end < t->count && compare_groups(&t->rows[begin], &t->rows[g.end]) == 0)
        g.end++;
    g.slowest = g.late = g.end;
    AUTO(free) double *busbw = xcalloc(g.end - begin, sizeof *busbw);
    AUTO(free) double *times = xcalloc(g.end - begin, sizeof *times);
    for (size_t i = begin; i < g.end; i++) {
        const struct inspector_row *r = &t->rows[i];
        if (r->rank > next && g.missing == 0)
            g.first_missing = next;
        g.missing += r->rank > next ? r->rank - next : 0;
        next = r->rank + 1;
        if (r->seconds <= 0)
            continue;
        if (n == 0 || inspector_busbw(r) < inspector_busbw(&t->rows[g.slowest]))
            g.slowest = i;
        if (n == 0 ||
            r->seconds / (double)r->ops < t->rows[shortest].seconds / (double)t->rows[shortest].ops)
            shortest = i;
        busbw[n] = inspector_busbw(r);
        times[n++] = r->seconds / (double)r->ops;
    }
    int64_t behind = t->rows[begin].ranks - next;
    g.first_missing = g.missing == 0 ? next : g.first_missing;
    g.missing += behind > 0 ? behind : 0;
    if (n == 0)
        return g;
    g.median = stats_median(busbw, n);
    double usual = stats_median(times, n);
    if (n > 1 && !t->rows[begin].p2p &&
        t->rows[shortest].seconds / (double)t->rows[shortest].ops < LATE * usual)
        g.late = shortest;
    return g;
}

/* ---- output --------------------------------------------------------------------------------- */

static void show_group(struct strbuf *out, const struct inspector *t, size_t begin,
                       const struct inspector_group *g)
{
    const struct inspector_row *first = &t->rows[begin], *r = &t->rows[g->slowest];
    const char *what = first->p2p ? "send and recv" : "collectives";
    strbuf_printf(out, "# %s %s, %s: ", first->comm, first->name, what);
    if (g->slowest == g->end)
        strbuf_puts(out, "no operation has a time");
    else
        strbuf_printf(out, "slowest rank %lld on %s, %.2f GB/s, median %.2f GB/s (%.0f %%)",
                      (long long)r->rank, r->host, inspector_busbw(r), g->median,
                      g->median > 0 ? 100 * inspector_busbw(r) / g->median : 100);
    strbuf_putc(out, '\n');
    if (g->late < g->end)
        strbuf_printf(out,
                      "#   rank %lld on %s has the shortest operations: it comes late, and the "
                      "others wait for it\n",
                      (long long)t->rows[g->late].rank, t->rows[g->late].host);
    if (g->missing && !first->p2p)
        strbuf_printf(out, "#   ranks without a record: %lld of %lld, rank %lld%s\n",
                      (long long)g->missing, (long long)first->ranks, (long long)g->first_missing,
                      g->missing > 1 ? " and others" : "");
}

void inspector_show(struct strbuf *out, const struct inspector *t)
{
    strbuf_printf(out, "# %18s  %-16s %-4s %6s  %-16s %8s %8s %12s %10s\n", "communicator", "name",
                  "kind", "rank", "host", "pid", "ops", "time (ms)", "GB/s");
    for (size_t i = 0; i < t->count; i++) {
        const struct inspector_row *r = &t->rows[i];
        strbuf_printf(out, "%20s  %-16.16s %-4s %6lld  %-16.16s %8lld %8lld %12.2f %10.2f\n",
                      r->comm, r->name, r->p2p ? "p2p" : "coll", (long long)r->rank, r->host,
                      (long long)r->pid, (long long)r->ops, 1e3 * r->seconds, inspector_busbw(r));
    }
    for (size_t i = 0; i < t->count;) {
        struct inspector_group g = inspector_judge(t, i);
        show_group(out, t, i, &g);
        i = g.end;
    }
}

static json_t *row_json(const struct inspector_row *r)
{
    return json_pack("{s:I, s:o, s:I, s:I, s:o, s:o, s:o}", "rank", (json_int_t)r->rank, "host",
                     json_text(r->host), "pid", (json_int_t)r->pid, "ops", (json_int_t)r->ops,
                     "bytes", json_number(r->bytes), "time_s", json_number(r->seconds),
                     "busbw_gbps", json_number(inspector_busbw(r)));
}

/* The number of the rank of a row, or null if there is none. */
static json_t *rank_json(const struct inspector *t, size_t row, size_t end)
{
    return row < end ? json_integer(t->rows[row].rank) : json_null();
}

json_t *inspector_json(const struct inspector *t)
{
    json_t *comms = json_array();
    for (size_t i = 0; i < t->count;) {
        struct inspector_group g = inspector_judge(t, i);
        const struct inspector_row *r = &t->rows[i];
        json_t *rows = json_array();
        for (size_t k = i; k < g.end; k++)
            json_array_append_new(rows, row_json(&t->rows[k]));
        json_array_append_new(comms,
                              json_pack("{s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "id",
                                        json_text(r->comm), "name", json_text(r->name), "kind",
                                        r->p2p ? "p2p" : "coll", "ranks", (json_int_t)r->ranks,
                                        "missing_ranks", (json_int_t)(r->p2p ? 0 : g.missing),
                                        "median_busbw_gbps", json_number(g.median), "slowest_rank",
                                        rank_json(t, g.slowest, g.end), "late_rank",
                                        rank_json(t, g.late, g.end), "rows", rows));
        i = g.end;
    }
    return json_pack("{s:i, s:I, s:I, s:I, s:o}", "schema", 1, "lines", (json_int_t)t->lines,
                     "broken", (json_int_t)t->broken, "left_out", (json_int_t)t->left_out,
                     "communicators", comms);
}
