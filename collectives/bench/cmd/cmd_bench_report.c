#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/json.h"
#include "common/redact.h"
#include "launcher/report/report_chart.h"
#include "launcher/report/report_document.h"
#include "launcher/report/report_file.h"

static const struct {
    const char *key, *name;
} placements[] = {{"out_of_place", "out of place"}, {"in_place", "in place"}};

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static double number_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static int64_t integer_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* argv[0] is this program, argv[1] is "bench". */
static void add_facts(struct report_document *d, const json_t *doc, char *const *argv)
{
    AUTO(strbuf) struct strbuf command = {0};
    const json_t *n = json_object_get(doc, "iterations");
    strbuf_puts(&command, "drover ");
    redact_command(&command, argv + 1);
    report_document_table(d);
    report_document_head(d, "collective", false);
    report_document_head(d, text_of(doc, "collective"), false);
    report_document_fact(d, "ranks", "%" PRId64, integer_of(doc, "ranks"));
    report_document_fact(d, "backend", "%s, %s", text_of(doc, "backend"), text_of(doc, "library"));
    report_document_fact(d, "iterations", "%" PRId64 " after %" PRId64 " for warm-up",
                         integer_of(n, "timed"), integer_of(n, "warmup"));
    report_document_fact(d, "mean bus bandwidth", "%.2f GB/s", number_of(doc, "avg_busbw_gbps"));
    report_document_fact(d, "wrong elements", "%" PRId64, integer_of(doc, "wrong"));
    report_document_fact(d, "drover", "%s", text_of(doc, "drover"));
    report_document_code(d, strbuf_str(&command));
}

static void add_verdict(struct report_document *d, const json_t *v)
{
    size_t i;
    json_t *reason;
    if (!v)
        return;
    report_document_heading(d, "Verdict");
    report_document_text(
        d,
        "%s: %.2f GB/s, expected %.2f to %.2f GB/s. The limit is: %s. Expected by: "
        "%s %s.",
        json_is_true(json_object_get(v, "pass")) ? "Pass" : "Fail", number_of(v, "busbw_gbps"),
        number_of(v, "expected_low_gbps"), number_of(v, "expected_high_gbps"), text_of(v, "limit"),
        text_of(v, "source"), text_of(v, "date"));
    json_array_foreach (json_object_get(v, "reasons"), i, reason)
        report_document_text(d, "%s", json_string_value(reason));
}

/* Bus bandwidth by size. The bandwidth of one rank is 0: there is no bus, and no picture. */
static void add_picture(struct report_document *d, const json_t *rows)
{
    size_t n = json_array_size(rows);
    AUTO(free) double *x = xcalloc(n + 1, sizeof *x);
    AUTO(free) double *y = xcalloc(2 * n + 1, sizeof *y);
    struct report_axis size = {.name = "size", .lo = INFINITY, .hi = 0, .bytes = true};
    struct report_axis speed = {.name = "GB/s", .lo = 0, .hi = 0};
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        x[i] = (double)integer_of(row, "size_bytes");
        size.lo = fmin(size.lo, x[i]);
        size.hi = fmax(size.hi, x[i]);
        for (size_t k = 0; k < COUNT_OF(placements); k++) {
            y[k * n + i] = number_of(json_object_get(row, placements[k].key), "busbw_gbps");
            speed.hi = fmax(speed.hi, y[k * n + i]);
        }
    }
    if (!(size.hi > size.lo) || !(speed.hi > 0))
        return;
    size.log = size.lo > 0;
    speed.hi *= 1.05;
    struct report_chart *c = report_chart_new("Bus bandwidth by size", size, speed);
    report_chart_line(c, "series-0", x, y, n);
    report_chart_line(c, "series-1", x, y + n, n);
    report_document_figure(d, "Bus bandwidth by size: out of place (brown), in place (blue)",
                           report_chart_finish(c));
}

static void add_rows(struct report_document *d, const json_t *rows)
{
    static const char *const keys[] = {"time_us", "algbw_gbps", "busbw_gbps", "wrong"};
    static const char *const names[] = {"µs", "algbw GB/s", "busbw GB/s", "wrong"};
    size_t i;
    json_t *row;
    char size[32];
    report_document_heading(d, "Results");
    report_document_table(d);
    report_document_head(d, "size", true);
    report_document_head(d, "type", false);
    report_document_head(d, "op", false);
    for (size_t k = 0; k < COUNT_OF(placements) * COUNT_OF(keys); k++) {
        AUTO(free)
        char *name =
            xasprintf("%s, %s", names[k % COUNT_OF(keys)], placements[k / COUNT_OF(keys)].name);
        report_document_head(d, name, true);
    }
    json_array_foreach (rows, i, row) {
        report_document_cell(
            d, "%s", byte_size_format(size, sizeof size, (uint64_t)integer_of(row, "size_bytes")));
        report_document_cell(d, "%s", text_of(row, "type"));
        report_document_cell(d, "%s", text_of(row, "op"));
        for (size_t k = 0; k < COUNT_OF(placements) * COUNT_OF(keys); k++) {
            const json_t *p = json_object_get(row, placements[k / COUNT_OF(keys)].key);
            double v = number_of(p, keys[k % COUNT_OF(keys)]);
            AUTO(free)
            char *text = isnan(v) ? xstrdup("–") : xasprintf(v < 1e4 ? "%.4g" : "%.0f", v);
            report_document_cell(d, "%s", text);
        }
    }
}

static void add_devices(struct report_document *d, const json_t *devices)
{
    size_t i;
    json_t *o;
    report_document_heading(d, "Devices");
    report_document_table(d);
    report_document_head(d, "rank", true);
    report_document_head(d, "host", false);
    report_document_head(d, "device", true);
    report_document_head(d, "name", false);
    json_array_foreach (devices, i, o) {
        report_document_cell(d, "%" PRId64, integer_of(o, "rank"));
        report_document_cell(d, "%s", text_of(o, "host"));
        report_document_cell(d, "%" PRId64, integer_of(o, "device"));
        report_document_cell(d, "%s", text_of(o, "name"));
    }
}

int cmd_bench_report(const char *path, const json_t *document, char *const *argv, struct err *e)
{
    AUTO(free) char *title = xasprintf("%s · drover bench", text_of(document, "collective"));
    AUTO(report_document) struct report_document *d = report_document_new(title, NULL);
    const json_t *rows = json_object_get(document, "rows");
    add_facts(d, document, argv);
    add_verdict(d, json_object_get(document, "verdict"));
    add_picture(d, rows);
    add_rows(d, rows);
    add_devices(d, json_object_get(document, "devices"));
    return report_file_write(NULL, path, d, NULL, e) < 0 ? err_wrap(e, "--report") : 0;
}
