#include "collectives/bench/bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "collectives/bench/bench.h"
#include "common/plural.h"

/* Returns the version that follows the text `before` in "NCCL 2.28.9 (headers 2.28.9)", as NCCL's
 * number (22809). Returns 0 if the version is not NCCL's. */
static int nccl_code(const char *version, const char *before)
{
    const char *at = strstr(version, before);
    int n[3] = {0};
    if (!at || sscanf(at + strlen(before), "%d.%d.%d", &n[0], &n[1], &n[2]) < 2)
        return 0;
    return n[0] * 10000 + n[1] * 100 + n[2];
}

int bench_report_nccl(const struct bench_report_head *h)
{
    return nccl_code(h->version, "NCCL ");
}

static void print_modes(struct strbuf *out, const struct bench_report_head *h)
{
    static const char *const modes[] = {
        NULL,
        "wait and barrier after each inner iteration (-m)",
        "wait after each inner iteration (-m), no barrier",
        "wait and barrier after each outer iteration (-n); time excludes barrier",
    };
    if (h->o->blocking)
        strbuf_printf(out, "# Blocking Enabled: %s \n", modes[h->o->blocking]);
    if (h->per_iter)
        strbuf_puts(out,
                    "# Per-Iteration Report: host timing of waited-for iterations; i_* uses max "
                    "over process rows");
    if (h->per_iter && h->skip)
        strbuf_printf(out, "; summary skips first %d iteration%s", h->skip, plural_s(h->skip));
    strbuf_puts(out, h->per_iter ? " \n" : "");
    strbuf_printf(out, "# Backend: %s, %s\n#\n", h->backend, h->version);
}

/* Titles of both placements, with the columns of -I. */
static void print_titles(struct strbuf *out, const struct bench_report_head *h, bool units)
{
    const char *time = units ? "(us)" : h->o->cpu_time ? "cputime" : "time";
    for (int i = 0; i < 2; i++) {
        strbuf_printf(out, "  %7s  %6s  %6s  %6s", time, units ? "(GB/s)" : "algbw",
                      units ? "(GB/s)" : "busbw", units ? "" : "#wrong");
        if (h->per_iter)
            strbuf_printf(out, "  %7s  %7s  %7s  %7s", units ? "(us)" : "i_min",
                          units ? "(us)" : "i_max", units ? "(us)" : "i_p99",
                          units ? "(%)" : "i_cv%");
    }
    strbuf_printf(out, " %*s\n", h->stamps ? 19 : 0,
                  !h->stamps ? ""
                  : units    ? "%Y-%m-%d %H:%M:%S"
                             : "timestamp");
}

void bench_report_head_text(struct strbuf *out, const struct bench_report_head *h,
                            const struct bench_report_device *devices)
{
    const struct bench_opts *o = h->o;
    strbuf_printf(out, "# drover version %s nccl-headers=%d nccl-library=%d\n", DROVER_VERSION,
                  nccl_code(h->version, "headers "), bench_report_nccl(h));
    strbuf_printf(out, "# Collective test starting: %s_perf\n", bench_name(o));
    strbuf_printf(out,
                  "# nThread 1 nGpus 1 minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
                  "(%s) warmup iters: %d iters: %d agg iters: %d validation: %d graph: %d "
                  "unalign: %d\n",
                  o->min_bytes, o->max_bytes, o->factor ? (uint64_t)o->factor : o->step_bytes,
                  o->factor ? "factor" : "bytes", o->warmups, o->iters, o->agg, o->checks, o->graph,
                  o->unalign);
    print_modes(out, h);
    strbuf_puts(out, "# Using devices\n");
    for (int r = 0; r < h->ranks; r++) {
        const struct bench_report_device *d = &devices[r];
        strbuf_printf(out, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n",
                      d->rank, d->group, d->pid, d->host, d->is.index, (unsigned)d->is.pci_domain,
                      (unsigned)d->is.pci_bus, (unsigned)d->is.pci_device, d->is.name);
    }
    static const char *const placements[] = {
        "           out-of-place                       in-place          ",
        "              out-of-place (+ per-iteration)                                in-place (+ "
        "per-iteration)",
    };
    strbuf_printf(out, "#\n# %10s  %12s  %8s  %6s  %6s%s\n", "", "", "", "", "",
                  placements[h->per_iter]);
    strbuf_printf(out, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    print_titles(out, h, false);
    strbuf_printf(out, "# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    print_titles(out, h, true);
}

/* Prints two spaces and a number in the first form that fits the column: with two decimals, one,
 * none, or with an exponent. */
static void print_number(struct strbuf *out, int width, double value)
{
    static const char *const forms[] = {"%*.2f", "%*.1f", "%*.0f"};
    char text[64];
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (snprintf(text, sizeof text, forms[i], width, value) <= width) {
            strbuf_printf(out, "  %s", text);
            return;
        }
    }
    strbuf_printf(out, width >= 7 ? "  %*.1e" : "  %*.0e", width, value);
}

static void print_placement(struct strbuf *out, const struct bench_report_placement *h,
                            bool cpu_time)
{
    print_number(out, 7, (cpu_time ? h->cpu_seconds : h->seconds) * 1e6);
    print_number(out, 6, h->algbw);
    print_number(out, 6, h->busbw);
    if (h->checked)
        strbuf_printf(out, "  %6g", (double)h->wrong);
    else
        strbuf_puts(out, "    N/A"); /* one character too short, as in nccl-tests */
}

/* nccl-tests' columns of -I, without the first -K samples. */
static void print_iterations(struct strbuf *out, const struct bench_report_head *h,
                             const struct bench_report_placement *p)
{
    size_t skip = (size_t)h->skip;
    if (p->stats.n <= skip) {
        strbuf_printf(out, "  %7s  %7s  %7s  %7s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    struct stats s = stats_of(p->samples + skip, p->stats.n - skip);
    const double columns[] = {s.min * 1e6, s.max * 1e6, s.p99 * 1e6,
                              s.mean > 0 ? 100 * s.deviation / s.mean : 0};
    for (size_t i = 0; i < COUNT_OF(columns); i++)
        print_number(out, 7, columns[i]);
}

void bench_report_time(char out[BENCH_REPORT_TIME_BYTES])
{
    time_t now = time(NULL);
    struct tm tm;
    strftime(out, BENCH_REPORT_TIME_BYTES, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
}

void bench_report_row_text(struct strbuf *out, const struct bench_report_head *h,
                           const struct bench_report_row *r)
{
    strbuf_printf(out, "%12zu  %12zu  %8s  %6s  %6d", r->bytes, r->count, r->type, r->op, r->root);
    for (int i = 0; i < 2; i++) {
        print_placement(out, &r->placement[i], h->o->cpu_time);
        if (h->per_iter)
            print_iterations(out, h, &r->placement[i]);
    }
    char stamp[BENCH_REPORT_TIME_BYTES];
    bench_report_time(stamp);
    if (h->stamps)
        strbuf_printf(out, "%21s", stamp);
    strbuf_putc(out, '\n');
}

bool bench_report_reaches_min(const struct bench_report_summary *f)
{
    return f->avg_busbw >= 0.9 * f->min_busbw;
}

void bench_report_summary_text(struct strbuf *out, const struct bench_report_summary *f)
{
    strbuf_printf(out, "# %-20s : %" PRIu64 " %s\n", "Out of bounds values", f->bad,
                  f->bad ? "FAILED" : "OK");
    strbuf_printf(out, "# %-20s : %g %s\n", "Avg bus bandwidth", f->avg_busbw,
                  f->min_busbw <= 0             ? ""
                  : bench_report_reaches_min(f) ? "OK"
                                                : "FAILED");
    strbuf_printf(out, "#\n# Collective test concluded: %s_perf\n", f->coll);
}

void bench_report_csv_titles(struct strbuf *out)
{
    strbuf_puts(out, "size_bytes,count,type,op,root,in_place,time_us,algbw_gbps,busbw_gbps,wrong,"
                     "rank_min_us,rank_max_us,samples,min_us,median_us,median_low_us,"
                     "median_high_us,p99_us\n");
}

void bench_report_csv_row(struct strbuf *out, const struct bench_report_row *r)
{
    for (int i = 0; i < 2; i++) {
        const struct bench_report_placement *h = &r->placement[i];
        const struct stats *s = &h->stats;
        strbuf_printf(out, "%zu,%zu,%s,%s,%d,%d,%.4f,%.6g,%.6g,", r->bytes, r->count, r->type,
                      r->op, r->root, i, h->seconds * 1e6, h->algbw, h->busbw);
        if (h->checked)
            strbuf_printf(out, "%" PRIu64, h->wrong);
        strbuf_printf(out, ",%.4f,%.4f,%zu,", h->rank_min_seconds * 1e6, h->rank_max_seconds * 1e6,
                      s->n);
        if (s->n)
            strbuf_printf(out, "%.4f,%.4f,%.4f,%.4f,%.4f\n", s->min * 1e6, s->median * 1e6,
                          s->low * 1e6, s->high * 1e6, s->p99 * 1e6);
        else
            strbuf_puts(out, ",,,,\n");
    }
}

static void print_cause(struct strbuf *out, const struct verify_diagnosis *b)
{
    static const char *const texts[] = {
        [VERIFY_UNTOUCHED] = ": nothing was written there",
        [VERIFY_MISSING] = ": rank %d's contribution%s is missing",
        [VERIFY_COUNTED_TWICE] = ": rank %d's contribution%s is counted twice",
        [VERIFY_FROM_OTHER] = ": it holds rank %d's data%s",
        [VERIFY_UNKNOWN] = ": no single rank's contribution explains it",
    };
    strbuf_printf(out, texts[b->cause], b->rank, b->ranks > 1 ? " (or another rank's)" : "");
    if (b->cause == VERIFY_UNTOUCHED && b->rank >= 0)
        strbuf_printf(out, "; rank %d's data is missing", b->rank);
}

void bench_report_wrong_text(struct strbuf *out, const struct bench_report_row *r, int ranks)
{
    static const char *const sides[] = {
        [BUFFERS_OUT_END] = "after the end of the output",
        [BUFFERS_OUT_BEGIN] = "before the start of the output",
        [BUFFERS_IN_END] = "after the end of the input",
        [BUFFERS_IN_BEGIN] = "before the start of the input",
    };
    for (int i = 0; i < 2; i++) {
        const struct bench_report_placement *h = &r->placement[i];
        const struct buffers_wrong *w = &h->first_wrong;
        if (h->wrong_rank < 0)
            continue;
        strbuf_printf(out, "%zu B %s %s, %s: ", r->bytes, r->type, r->op,
                      i ? "in place" : "out of place");
        if (w->elements) {
            strbuf_printf(out,
                          "rank %d of %d has %" PRIu64 " wrong element%s; element %" PRIu64
                          " is %g, not %g",
                          h->wrong_rank, ranks, w->elements, plural_s((long long)w->elements),
                          w->index, w->first.got, w->first.expected);
            print_cause(out, &w->diagnosis);
        }
        if (w->canaries)
            strbuf_printf(out,
                          "%srank %d: %" PRIu64 " byte%s written outside, the nearest "
                          "%d %s",
                          w->elements ? "; " : "", h->wrong_rank, w->canaries,
                          w->canaries == 1 ? " was" : "s were", w->canary_bytes, sides[w->side]);
        strbuf_putc(out, '\n');
    }
}
