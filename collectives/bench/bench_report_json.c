#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/bench/bench.h"
#include "common/json.h"

enum { NCCL_TESTS_VERSION = 3 }; /* of -J's keys */

extern char **environ;

struct bench_report_json {
    const struct bench_report_head *h;
    json_t *head, *more; /* more: keys that were set, which follow the rows */
    bool nccl_tests;
};

static json_t *devices_json(const struct bench_report_head *h,
                            const struct bench_report_device *devices, bool nccl_tests)
{
    json_t *list = json_array();
    for (int r = 0; r < h->ranks; r++) {
        const struct bench_report_device *d = &devices[r];
        char hex[32];
        snprintf(hex, sizeof hex, "%04x:%02x:%02x", (unsigned)d->is.pci_domain,
                 (unsigned)d->is.pci_bus, (unsigned)d->is.pci_device);
        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:s, s:i, s:s*, s:s}", "rank",
                                              d->rank, "group", d->group, "pid", d->pid,
                                              nccl_tests ? "hostname" : "host", d->host, "device",
                                              d->is.index, "device_hex", nccl_tests ? hex : NULL,
                                              nccl_tests ? "device_info" : "name", d->is.name));
    }
    return list;
}

static json_t *drover_document(const struct bench_report_head *h,
                               const struct bench_report_device *devices)
{
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:{s:i, s:i, s:i, s:i}, s:o}", "schema",
                     1, "drover", DROVER_VERSION, "collective", bench_name(h->o), "backend",
                     h->backend, "library", h->version, "ranks", h->ranks, "groups", h->groups,
                     "iterations", "warmup", h->o->warmups, "timed", h->o->iters, "checked",
                     h->o->checks, "together", h->o->agg, "devices",
                     devices_json(h, devices, false));
}

/* ---- nccl-tests' document: keys, and booleans as strings (its src/util.cu at a0b82b2) ------- */

static json_t *now_json(void)
{
    char text[BENCH_REPORT_TIME_BYTES];
    bench_report_time(text);
    return json_string(text);
}

static json_t *words_json(char *const *words)
{
    json_t *list = json_array();
    for (size_t i = 0; i < strv_len(words); i++)
        json_array_append_new(list, json_string(words[i]));
    return list;
}

static json_t *env_json(void)
{
    json_t *list = json_array();
    for (char **v = environ; v && *v; v++)
        if (strncmp(*v, "NCCL_", 5) == 0 || strncmp(*v, "CUDA_", 5) == 0)
            json_array_append_new(list, json_string(*v));
    return list;
}

static json_t *bool_json(bool value)
{
    return json_string(value ? "true" : "false");
}

static json_t *config_json(const struct bench_report_head *h,
                           const struct bench_report_device *devices)
{
    const struct bench_opts *o = h->o;
    return json_pack(
        "{s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:i, s:o, s:o}", "nthreads",
        1, "ngpus", 1, "minimum_bytes", (json_int_t)o->min_bytes, "maximum_bytes",
        (json_int_t)o->max_bytes, o->factor ? "step_factor" : "step_bytes",
        (json_int_t)(o->factor ? (uint64_t)o->factor : o->step_bytes), "warmup_iters", o->warmups,
        "iterations", o->iters, "aggregated_iterations", o->agg, "validation", o->checks, "graph",
        o->graph, "blocking_collectives", bool_json(o->blocking > 0), "per_iter_timing",
        bool_json(h->per_iter), "per_iter_skip", h->skip, "parallel_init", bool_json(false),
        "devices", devices_json(h, devices, true));
}

static json_t *nccl_tests_document(const struct bench_report_head *h,
                                   const struct bench_report_device *devices)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:i, s:o}", "version", NCCL_TESTS_VERSION, "start_time",
                     now_json(), "args", words_json(h->args), "env", env_json(), "nccl_version",
                     bench_report_nccl(h), "config", config_json(h, devices), "results");
}

struct bench_report_json *bench_report_json_new(const struct bench_report_head *h,
                                                const struct bench_report_device *devices,
                                                bool nccl_tests)
{
    struct bench_report_json *j = xzalloc(sizeof *j);
    j->h = h;
    j->nccl_tests = nccl_tests;
    j->head = nccl_tests ? nccl_tests_document(h, devices) : drover_document(h, devices);
    j->more = json_object();
    return j;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static json_t *wrong_json(const struct bench_report_placement *h)
{
    static const char *const causes[] = {
        [VERIFY_UNKNOWN] = "unknown",      [VERIFY_UNTOUCHED] = "untouched",
        [VERIFY_MISSING] = "missing",      [VERIFY_COUNTED_TWICE] = "twice",
        [VERIFY_FROM_OTHER] = "another's",
    };
    const struct buffers_wrong *w = &h->first_wrong;
    json_t *o = json_pack("{s:i, s:I, s:I}", "rank", h->wrong_rank, "elements",
                          (json_int_t)w->elements, "bytes_outside", (json_int_t)w->canaries);
    if (w->elements)
        json_object_update_new(
            o, json_pack("{s:I, s:o, s:o, s:s, s:i, s:i}", "index", (json_int_t)w->index,
                         "expected", json_number(w->first.expected), "got",
                         json_number(w->first.got), "cause", causes[w->diagnosis.cause],
                         "cause_rank", w->diagnosis.rank, "cause_ranks", w->diagnosis.ranks));
    return o;
}

/* The times of each stride-th value from values[0] on, in microseconds. */
static json_t *times_json(const double *values, size_t n, size_t stride)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(values[i * stride] * 1e6));
    return list;
}

static json_t *samples_json(const struct bench_report_placement *h)
{
    const struct stats *s = &h->stats;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:b, s:o}", "min_us", s->min * 1e6, "median_us",
                     s->median * 1e6, "median_low_us", s->low * 1e6, "median_high_us",
                     s->high * 1e6, "p99_us", s->p99 * 1e6, "stable", !h->unstable, "samples_us",
                     times_json(h->samples, s->n, 1));
}

static json_t *placement_json(const struct bench_report_placement *h, bool cpu_time)
{
    json_t *wrong = h->checked ? json_integer((json_int_t)h->wrong) : json_null();
    json_t *o =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "time_us", h->seconds * 1e6, "algbw_gbps",
                  h->algbw, "busbw_gbps", h->busbw, "rank_min_us", h->rank_min_seconds * 1e6,
                  "rank_max_us", h->rank_max_seconds * 1e6, "wrong", wrong);
    if (cpu_time)
        json_object_set_new(o, "cpu_time_us", json_real(h->cpu_seconds * 1e6));
    if (h->wrong_rank >= 0)
        json_object_set_new(o, "first_wrong", wrong_json(h));
    if (h->stats.n)
        json_object_update_new(o, samples_json(h));
    return o;
}

static json_t *nccl_tests_placement(const struct bench_report_placement *h, bool cpu_time)
{
    return json_pack("{s:f, s:f, s:f, s:o}", cpu_time ? "cpu_time" : "time",
                     (cpu_time ? h->cpu_seconds : h->seconds) * 1e6, "alg_bw", h->algbw, "bus_bw",
                     h->busbw, "nwrong", h->checked ? json_real((double)h->wrong) : json_null());
}

/* The values of nccl-tests' -I. */
static json_t *nccl_tests_iterations(const struct bench_report_placement *h, int skip, int ranks)
{
    struct stats s = stats_of(h->samples + skip, h->stats.n - (size_t)skip);
    json_t *o =
        json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "skipped_iterations", skip,
                  "min_us", s.min * 1e6, "max_us", s.max * 1e6, "avg_us", s.mean * 1e6, "p50_us",
                  s.median * 1e6, "p95_us", s.p95 * 1e6, "p99_us", s.p99 * 1e6, "stdev_us",
                  s.deviation * 1e6, "cv_pct", s.mean > 0 ? 100 * s.deviation / s.mean : 0,
                  "times_us", times_json(h->samples, h->stats.n, 1));
    if (ranks == 1 || !h->rank_samples)
        return o;
    json_t *lists = json_array();
    for (int r = 0; r < ranks; r++)
        json_array_append_new(lists, times_json(h->rank_samples + r, h->stats.n, (size_t)ranks));
    json_object_set_new(o, "per_process_max_times_us", lists);
    return o;
}

json_t *bench_report_json_row(const struct bench_report_json *j, const struct bench_report_row *r)
{
    const struct bench_report_head *h = j->h;
    bool cpu_time = h->o->cpu_time;
    json_t *row;
    char root[16];
    snprintf(root, sizeof root, "%6d", r->root);
    if (j->nccl_tests)
        row = json_pack("{s:I, s:I, s:s, s:s, s:s, s:o, s:o, s:i, s:s+}", "size",
                        (json_int_t)r->bytes, "count", (json_int_t)r->count, "type", r->type,
                        "redop", r->op, "root", root, "out_of_place",
                        nccl_tests_placement(&r->placement[0], cpu_time), "in_place",
                        nccl_tests_placement(&r->placement[1], cpu_time), "actual_iterations",
                        h->o->iters, "experiment_name", bench_name(h->o), "_perf");
    else
        row = json_pack("{s:I, s:I, s:s, s:s, s:i, s:o, s:o}", "size_bytes", (json_int_t)r->bytes,
                        "count", (json_int_t)r->count, "type", r->type, "op", r->op, "root",
                        r->root, "out_of_place", placement_json(&r->placement[0], cpu_time),
                        "in_place", placement_json(&r->placement[1], cpu_time));
    static const char *const keys[] = {"out_of_place_per_iter", "in_place_per_iter"};
    for (int i = 0; i < 2 && j->nccl_tests && h->per_iter; i++)
        if (r->placement[i].stats.n > (size_t)h->skip)
            json_object_set_new(row, keys[i],
                                nccl_tests_iterations(&r->placement[i], h->skip, h->ranks));
    return row;
}

void bench_report_json_set(struct bench_report_json *j, const char *key, json_t *value)
{
    json_object_set_new(j->more, key, value);
}

const json_t *bench_report_json_head(const struct bench_report_json *j)
{
    return j->head;
}

const char *bench_report_json_list(const struct bench_report_json *j)
{
    return j->nccl_tests ? "results" : "rows";
}

json_t *bench_report_json_tail(const struct bench_report_json *j,
                               const struct bench_report_summary *f, const char *error)
{
    json_t *tail = json_copy(j->more), *last;
    json_t *why = error ? json_text(error) : NULL;
    if (j->nccl_tests) {
        json_t *okay =
            f->min_busbw <= 0 ? json_string("unchecked") : bool_json(bench_report_reaches_min(f));
        last = json_pack("{s:{s:I, s:o}, s:{s:f, s:o}, s:[o*], s:o}", "out_of_bounds", "count",
                         (json_int_t)f->bad, "okay", bool_json(f->bad == 0),
                         "average_bus_bandwidth", "bandwidth", f->avg_busbw, "okay", okay, "errors",
                         why, "end_time", now_json());
    } else {
        last = json_pack("{s:I, s:f, s:o*}", "wrong", (json_int_t)f->bad, "avg_busbw_gbps",
                         f->avg_busbw, "error", why);
    }
    json_object_update_new(tail, last);
    return tail;
}

json_t *bench_report_json_document(const struct bench_report_json *j, json_t *rows,
                                   const struct bench_report_summary *f)
{
    json_t *document = json_copy(j->head);
    AUTO(json) json_t *tail = bench_report_json_tail(j, f, NULL);
    json_object_set(document, bench_report_json_list(j), rows);
    json_object_update(document, tail);
    return document;
}

void bench_report_json_free(struct bench_report_json *j)
{
    if (!j)
        return;
    json_decref(j->head);
    json_decref(j->more);
    free(j);
}
