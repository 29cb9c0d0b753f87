#include "launcher/watch/failed_gpu.h"

#include "common/plural.h"
#include "launcher/gpu/xid.h"

enum { DAY_S = 24 * 3600 };

static const double gib = 1 << 30, least_throttled = 0.01;

static void write_xid(struct strbuf *b, const struct failed_gpu *f, const struct job_usage_xid *x)
{
    const char *meaning, *advice = xid_advice(x->code);
    long s = ((long)(x->at_s + f->epoch_s) + f->zone_s) % DAY_S;
    (void)xid_classify(x->code, &meaning);
    strbuf_printf(b, "; Xid %d at %02ld:%02ld:%02ld: %s%s%s", x->code, s / 3600, s / 60 % 60,
                  s % 60, meaning, advice ? ", " : "", advice ? advice : "");
}

void failed_gpu_write(struct strbuf *b, const struct failed_gpu *f)
{
    const struct job_usage_gpu *g = f->gpu;
    AUTO(strbuf) struct strbuf parts = {0};
    for (int i = 0; i < g->xid_count; i++)
        write_xid(&parts, f, &g->xids[i]);
    if (g->ecc_errors > 0)
        strbuf_printf(&parts, "; %lld new uncorrected ECC error%s", (long long)g->ecc_errors,
                      plural_s((int)g->ecc_errors));
    if (g->throttled_share >= least_throttled)
        strbuf_printf(&parts, "; throttled %.0f %% of the time (%s)", g->throttled_share * 100,
                      g->hot_share > 0 ? "hot" : "too little power");
    if (g->peak_bytes >= 0 && g->total_bytes > 0)
        strbuf_printf(&parts, "; memory peak %.1f of %.0f GiB%s", (double)g->peak_bytes / gib,
                      (double)g->total_bytes / gib, g->peak_of_all ? " (of all processes)" : "");
    if (parts.len > 0)
        strbuf_printf(b, "  GPU %d (%s): %s\n", f->index, g->name, strbuf_str(&parts) + 2);
}

static json_t *integer(int64_t value)
{
    return value >= 0 ? json_integer(value) : NULL;
}

static json_t *real(double value)
{
    return value >= 0 ? json_real(value) : NULL;
}

json_t *failed_gpu_json(const struct failed_gpu *f)
{
    const struct job_usage_gpu *g = f->gpu;
    json_t *xids = json_array();
    for (int i = 0; i < g->xid_count; i++) {
        const char *meaning;
        (void)xid_classify(g->xids[i].code, &meaning);
        json_array_append_new(xids, json_pack("{s:i, s:I, s:s}", "code", g->xids[i].code, "ms",
                                              (json_int_t)((g->xids[i].at_s + f->epoch_s) * 1000),
                                              "meaning", meaning));
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:o*, s:o*, s:o*, s:o*, s:o*}", "gpu", f->index, "uuid",
                     json_text(g->uuid), "name", json_text(g->name), "xids", xids, "ecc_errors",
                     integer(g->ecc_errors), "throttled_share", real(g->throttled_share),
                     "hot_share", real(g->hot_share), "peak_bytes", integer(g->peak_bytes),
                     "memory_bytes", integer(g->total_bytes));
}
