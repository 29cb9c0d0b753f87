#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/bench/analysis/bench_diff.h"
#include "common/command.h"
#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/plural.h"
#include "common/utf8.h"

enum { DOCUMENT_MAX = 128 << 20 };

static const char *const ways[] = {"out_of_place", "in_place"};

/* Returns the row of the other document with the same size, type, operation and root, or NULL. */
static const json_t *same_row(const json_t *rows, const json_t *row)
{
    static const char *const keys[] = {"size_bytes", "type", "op", "root"};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        bool same = true;
        for (size_t k = 0; k < COUNT_OF(keys); k++)
            same &= json_equal(json_object_get(row, keys[k]), json_object_get(other, keys[k]));
        if (same)
            return other;
    }
    return NULL;
}

/* Returns the times of a row's single iterations, or NULL if it has none. The caller frees them. */
static double *samples(const json_t *row, const char *way, size_t *n)
{
    const json_t *list = json_object_get(json_object_get(row, way), "samples_us");
    *n = json_array_size(list);
    double *v = *n ? xcalloc(*n, sizeof *v) : NULL;
    for (size_t i = 0; i < *n; i++)
        v[i] = json_number_value(json_array_get(list, i));
    return v;
}

struct table {
    struct bench_diff_row *rows;
    size_t n;
};

static void table_free(struct table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free((double *)t->rows[i].before);
        free((double *)t->rows[i].after);
    }
    free(t->rows);
}

static void collect(struct table *t, const json_t *before, const json_t *after)
{
    size_t max = 2 * json_array_size(after);
    t->rows = xcalloc(max + 1, sizeof *t->rows);
    for (size_t i = 0; i < max; i++) {
        const json_t *now = json_array_get(after, i / 2), *old = same_row(before, now);
        struct bench_diff_row r = {.id = i};
        double *a = samples(old, ways[i % 2], &r.before_n);
        double *b = samples(now, ways[i % 2], &r.after_n);
        if (!a || !b) {
            free(a);
            free(b);
            continue;
        }
        r.before = a;
        r.after = b;
        t->rows[t->n++] = r;
    }
}

/* Returns how many placements of `rows` have times of iterations, but not among `others`. */
static size_t count_lone(const json_t *rows, const json_t *others)
{
    size_t lone = 0;
    for (size_t i = 0; i < 2 * json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i / 2), *other = same_row(others, row);
        const char *way = ways[i % 2];
        lone += json_array_size(json_object_get(json_object_get(row, way), "samples_us")) > 0 &&
                json_array_size(json_object_get(json_object_get(other, way), "samples_us")) == 0;
    }
    return lone;
}

/* Appends what the summary of a document says against it. Returns true if it does. */
static bool add_fault(struct strbuf *out, const char *name, const json_t *document)
{
    const char *error = json_string_value(json_object_get(document, "error"));
    bool wrong = json_number_value(json_object_get(document, "wrong")) > 0;
    if (error) {
        strbuf_printf(out, "# the run of %s failed: ", name);
        utf8_add_line(out, error);
        strbuf_putc(out, '\n');
    }
    if (wrong)
        strbuf_printf(out, "# the run of %s had wrong elements\n", name);
    return error || wrong;
}

static void print_table(struct strbuf *out, const struct table *t, const json_t *after)
{
    strbuf_printf(out, "# %10s  %8s  %6s  %4s  %12s  %10s  %10s  %8s  %8s\n", "size", "type",
                  "redop", "root", "", "before us", "after us", "change", "p");
    for (size_t i = 0; i < t->n; i++) {
        const struct bench_diff_row *r = &t->rows[i];
        const json_t *source = json_array_get(after, r->id / 2);
        strbuf_printf(out,
                      "%12" JSON_INTEGER_FORMAT
                      "  %8s  %6s  %4d  %12s  %10.2f  %10.2f  %+7.1f%%  %8.2g%s\n",
                      json_integer_value(json_object_get(source, "size_bytes")),
                      json_string_value(json_object_get(source, "type")),
                      json_string_value(json_object_get(source, "op")),
                      (int)json_integer_value(json_object_get(source, "root")), ways[r->id % 2],
                      r->before_median, r->after_median, 100 * r->change, r->p,
                      r->worse    ? "  WORSE"
                      : r->better ? "  better"
                                  : "");
    }
}

int cmd_bench_diff_show(struct strbuf *out, const json_t *before, const json_t *after,
                        double tolerance, struct err *e)
{
    static const char *const keys[] = {"collective", "backend", "ranks", "groups"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        const json_t *was = json_object_get(before, keys[i]), *is = json_object_get(after, keys[i]);
        /* Documents of nccl-tests have no backend and no groups */
        if (was && is && !json_equal(was, is))
            return err_set(e, -EINVAL, "the documents differ in '%s'", keys[i]);
    }
    struct table t = {0};
    const json_t *old = json_object_get(before, "rows"), *new = json_object_get(after, "rows");
    collect(&t, old, new);
    (void)add_fault(out, "A", before); /* B may still be right */
    bool failed = add_fault(out, "B", after);
    if (t.n == 0 && !failed) {
        table_free(&t);
        err_set(e, -ENODATA, "the documents have no row in common with single iterations");
        return err_hint(e, "drover bench all_reduce --json >FILE");
    }
    size_t worse = bench_diff_judge(t.rows, t.n, tolerance);
    print_table(out, &t, new);
    if (!failed && !bench_diff_can_judge(t.rows, t.n)) {
        table_free(&t);
        err_set(e, -ENODATA, "no row can be judged: too few single iterations");
        return err_hint(e, "more of them: -n 20 for drover bench, -I 1 for nccl-tests");
    }
    strbuf_printf(out, "# %zu of %zu row%s worse by more than %g %%\n", worse, t.n,
                  t.n == 1 ? " is" : "s are", 100 * tolerance);
    size_t gone = count_lone(old, new), added = count_lone(new, old);
    if (gone + added > 0)
        strbuf_printf(out, "# not compared: %zu row%s only in A, %zu only in B\n", gone,
                      plural_s((long long)gone), added);
    table_free(&t);
    return (int)worse + failed;
}

/* Converts a placement of nccl-tests' -J. Its single iterations are those of -I 1. Without these,
 * the mean counts as the only iteration. */
static json_t *placement_of_nccl_tests(const json_t *placement, const json_t *iterations)
{
    json_t *times = json_object_get(iterations, "times_us");
    json_t *time = json_object_get(placement, "time");
    if (json_is_array(times))
        return json_pack("{s:O}", "samples_us", times);
    return json_is_number(time) ? json_pack("{s:[O]}", "samples_us", time) : json_object();
}

/* Returns the collective, or NULL if it is not known. It is found in drover's experiment_name, or
 * in the program's name, which nccl-tests writes to `args`. */
static json_t *collective_of_nccl_tests(const json_t *d)
{
    const json_t *row = json_array_get(json_object_get(d, "results"), 0);
    const char *name = json_string_value(json_object_get(row, "experiment_name"));
    if (!name || !*name)
        name = json_string_value(json_array_get(json_object_get(d, "args"), 0));
    const char *slash = name ? strrchr(name, '/') : NULL;
    name = slash ? slash + 1 : name;
    const char *end = name ? strstr(name, "_perf") : NULL;
    return end ? json_stringn(name, (size_t)(end - name)) : NULL;
}

/* Converts a document of nccl-tests' -J to one of --json, with the keys that are compared. */
static json_t *convert_nccl_tests(const json_t *d)
{
    const json_t *results = json_object_get(d, "results");
    json_t *rows = json_array();
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *r = json_array_get(results, i);
        const char *root = json_string_value(json_object_get(r, "root"));
        json_array_append_new(
            rows, json_pack("{s:O?, s:O?, s:O?, s:i, s:o, s:o}", "size_bytes",
                            json_object_get(r, "size"), "type", json_object_get(r, "type"), "op",
                            json_object_get(r, "redop"), "root", root ? atoi(root) : -1, ways[0],
                            placement_of_nccl_tests(json_object_get(r, ways[0]),
                                                    json_object_get(r, "out_of_place_per_iter")),
                            ways[1],
                            placement_of_nccl_tests(json_object_get(r, ways[1]),
                                                    json_object_get(r, "in_place_per_iter"))));
    }
    const json_t *devices = json_object_get(json_object_get(d, "config"), "devices");
    return json_pack("{s:o*, s:I, s:o, s:O*, s:O*}", "collective", collective_of_nccl_tests(d),
                     "ranks", (json_int_t)json_array_size(devices), "rows", rows, "error",
                     json_array_get(json_object_get(d, "errors"), 0), "wrong",
                     json_object_get(json_object_get(d, "out_of_bounds"), "count"));
}

int cmd_bench_diff_load(json_t **out, const char *path, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, DOCUMENT_MAX);
    if (rc < 0)
        return err_set(e, rc, "'%s': %s", path, strerror(-rc));
    if (json_parse(out, strbuf_str(&text), text.len, e) < 0)
        return err_wrap(e, "'%s'", path);
    if (json_is_array(json_object_get(*out, "rows")))
        return 0;
    AUTO(json) json_t *other = *out;
    *out = json_is_array(json_object_get(other, "results")) ? convert_nccl_tests(other) : NULL;
    if (*out)
        return 0;
    err_set(e, -EINVAL, "'%s' is neither a document of drover bench --json nor of nccl-tests' -J",
            path);
    return err_hint(e, "drover bench all_reduce --json >FILE");
}

char *cmd_bench_diff_path(const char *name, const char *coll,
                          const struct bench_report_device *devices, int ranks)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    uint64_t h = FNV_HASH_INIT;
    for (int r = 0; r < ranks; r++)
        h = fnv_hash_text(fnv_hash_text(h, devices[r].host), devices[r].is.name);
    AUTO(free)
    char *base = data && *data ? xstrdup(data) : xasprintf("%s/.local/share", home ? home : "");
    return xasprintf("%s/drover/bench/%s-%08" PRIx32 "/%s-%s.json", base, devices[0].host,
                     (uint32_t)(h ^ h >> 32), coll, name);
}

int cmd_bench_diff_save(const char *path, const char *document, struct err *e)
{
    AUTO(free) char *part = xstrdup(path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return err_set(e, -errno, "'%s': %s", part, strerror(errno));
        *slash = '/';
    }
    int rc = file_replace(path, document, strlen(document), 0);
    return rc < 0 ? err_set(e, rc, "'%s': %s", path, strerror(-rc)) : 0;
}

int cmd_bench_diff_parse_share(double *out, const char *what, const char *text, struct err *e)
{
    char *end = NULL;
    double value = strtod(text, &end);
    bool percent = end != text && *end == '%';
    end += percent;
    value /= percent ? 100 : 1;
    if (end == text || *end || !(value >= 0 && value <= 10)) {
        err_set(e, -EINVAL, "%s '%s': not a share (0%% to 1000%%)", what, text);
        return err_hint(e, "%s 2%%", what);
    }
    *out = value;
    return 0;
}

struct diff_options {
    const char *tolerance;
};

static const struct opt options[] = {
    OPT_STR(0, "tolerance", "SHARE", "slowdown that still passes (default: 5%)",
            struct diff_options, tolerance),
    OPT_END,
};

static int compare(const struct diff_options *o, char **files, struct err *e)
{
    AUTO(json) json_t *before = NULL, *after = NULL;
    AUTO(strbuf) struct strbuf text = {0};
    double tolerance = 0;
    int rc;
    if (strv_len(files) != 2)
        return err_set(e, -EINVAL, "expected two files, not %zu", strv_len(files));
    if ((rc = cmd_bench_diff_parse_share(&tolerance, "--tolerance", o->tolerance, e)) < 0 ||
        (rc = cmd_bench_diff_load(&before, files[0], e)) < 0 ||
        (rc = cmd_bench_diff_load(&after, files[1], e)) < 0)
        return rc;
    rc = cmd_bench_diff_show(&text, before, after, tolerance, e);
    fputs(strbuf_str(&text), stdout);
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    int rc = compare(into, words, e);
    return rc < 0 ? EXIT_STATUS_USAGE : rc > 0;
}

int cmd_bench_diff(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover bench diff",
                 .usage = "[options] A B",
                 .summary = "Compares two documents of drover bench --json, row by row. "
                            "The exit status is 1 if a row of B is slower, or if its run "
                            "failed or had wrong elements.",
                 .examples = "drover bench diff before.json after.json\n"
                             "drover bench diff --tolerance 10% before.json after.json"},
        .options = options,
        .words_max = COMMAND_WORDS_ANY,
        .run = run};
    struct diff_options o = {.tolerance = "5%"};
    return command_run(&command, &o, argc, argv);
}
