#include "collectives/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

void report_head_text(struct strbuf *out, const struct report_head *h,
                      const struct report_device *devices)
{
    strbuf_printf(out, "# drover version %s backend=%s library=%s\n", DROVER_VERSION, h->backend,
                  h->version);
    strbuf_printf(out, "# Collective test starting: %s_perf\n", h->coll);
    strbuf_printf(out,
                  "# nThread 1 nGpus 1 minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
                  "(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: 0 "
                  "unalign: 0\n#\n",
                  h->min_bytes, h->max_bytes, h->step, h->step_is_factor ? "factor" : "bytes",
                  h->warmups, h->iters, h->checks);
    strbuf_puts(out, "# Using devices\n");
    for (int r = 0; r < h->ranks; r++) {
        const struct report_device *d = &devices[r];
        strbuf_printf(out, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n",
                      d->rank, 0, d->pid, d->host, d->index, (unsigned)d->pci_domain,
                      (unsigned)d->pci_bus, (unsigned)d->pci_device, d->name);
    }
    strbuf_puts(out, "#\n");
    strbuf_printf(out,
                  "# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
                  "in-place          \n",
                  "", "", "", "", "");
    strbuf_printf(out, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s \n",
                  "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                  "time", "algbw", "busbw", "#wrong");
    strbuf_printf(out, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s \n",
                  "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
                  "(GB/s)", "");
}

/* The first form that fits the column: two decimals, one, none, an exponent. */
static void put_number(struct strbuf *out, int width, double value)
{
    static const char *const forms[] = {"%*.2f", "%*.1f", "%*.0f"};
    char text[64];
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (snprintf(text, sizeof text, forms[i], width, value) <= width) {
            strbuf_puts(out, text);
            return;
        }
    }
    strbuf_printf(out, width >= 7 ? "%*.1e" : "%*.0e", width, value);
}

static void put_half(struct strbuf *out, const struct report_half *h)
{
    if (!h->ran) {
        strbuf_printf(out, "  %7s  %6s  %6s    N/A", "N/A", "N/A", "N/A");
        return;
    }
    strbuf_puts(out, "  ");
    put_number(out, 7, h->seconds * 1e6);
    strbuf_puts(out, "  ");
    put_number(out, 6, h->algbw);
    strbuf_puts(out, "  ");
    put_number(out, 6, h->busbw);
    if (h->checked)
        strbuf_printf(out, "  %6g", (double)h->wrong);
    else
        strbuf_puts(out, "    N/A"); /* one column short, as nccl-tests prints it */
}

void report_row_text(struct strbuf *out, const struct report_row *r)
{
    strbuf_printf(out, "%12zu  %12zu  %8s  %6s  %6d", r->bytes, r->count, r->type, r->op, r->root);
    put_half(out, &r->half[0]);
    put_half(out, &r->half[1]);
    strbuf_putc(out, '\n');
}

void report_foot_text(struct strbuf *out, const struct report_foot *f)
{
    strbuf_printf(out, "# %-20s : %" PRIu64 " %s\n", "Out of bounds values", f->bad,
                  f->bad ? "FAILED" : "OK");
    strbuf_printf(out, "# %-20s : %g \n", "Avg bus bandwidth", f->avg_busbw);
    strbuf_printf(out, "#\n# Collective test concluded: %s_perf\n", f->coll);
}

struct report_json {
    json_t *root, *rows; /* rows is borrowed from root */
};

struct report_json *report_json_new(const struct report_head *h,
                                    const struct report_device *devices)
{
    struct report_json *j = xzalloc(sizeof *j);
    j->rows = json_array();
    json_t *list = json_array();
    for (int r = 0; r < h->ranks; r++) {
        const struct report_device *d = &devices[r];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:i, s:s}", "rank", d->rank, "pid", d->pid,
                                        "host", d->host, "device", d->index, "name", d->name));
    }
    j->root =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:{s:i, s:i, s:i}, s:o, s:o}", "schema", 1,
                  "drover", DROVER_VERSION, "collective", h->coll, "backend", h->backend, "library",
                  h->version, "ranks", h->ranks, "iterations", "warmup", h->warmups, "timed",
                  h->iters, "checked", h->checks, "devices", list, "rows", j->rows);
    return j;
}

static json_t *half_json(const struct report_half *h)
{
    if (!h->ran)
        return json_null();
    json_t *wrong = h->checked ? json_integer((json_int_t)h->wrong) : json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "time_us", h->seconds * 1e6, "algbw_gbps",
                     h->algbw, "busbw_gbps", h->busbw, "rank_min_us", h->rank_min_seconds * 1e6,
                     "rank_max_us", h->rank_max_seconds * 1e6, "wrong", wrong);
}

void report_json_row(struct report_json *j, const struct report_row *r)
{
    json_array_append_new(j->rows,
                          json_pack("{s:I, s:I, s:s, s:s, s:i, s:o, s:o}", "size_bytes",
                                    (json_int_t)r->bytes, "count", (json_int_t)r->count, "type",
                                    r->type, "op", r->op, "root", r->root, "out_of_place",
                                    half_json(&r->half[0]), "in_place", half_json(&r->half[1])));
}

char *report_json_end(struct report_json *j, const struct report_foot *f)
{
    json_object_set_new(j->root, "wrong", json_integer((json_int_t)f->bad));
    json_object_set_new(j->root, "avg_busbw_gbps", json_real(f->avg_busbw));
    return json_dumps(j->root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}

void report_json_free(struct report_json *j)
{
    if (!j)
        return;
    json_decref(j->root);
    free(j);
}
