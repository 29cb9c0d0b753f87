#include "launcher/jobs/usage_report.h"

#include "common/plural.h"
#include "launcher/watch/job_advice.h"

#define SEPARATOR " · "

static const double gib = 1 << 30, wh = 3600;

double usage_report_cost(const struct usage_facts *f)
{
    return f->price > 0 ? f->gpu_hours * f->price : JOB_USAGE_UNKNOWN;
}

/* ---- the line ------------------------------------------------------------------------------- */

static void add_utilisation(struct strbuf *b, const struct job_usage_summary *s,
                            const struct usage_facts *f)
{
    if (s->utilisation < 0)
        return;
    strbuf_printf(b, SEPARATOR "utilisation %.0f %%", s->utilisation * 100);
    double worst = s->gpus[s->worst].utilisation;
    if (s->utilisation - worst >= 0.01)
        strbuf_printf(b, " (rank %d: %.0f %%)", f->ranks[s->worst], worst * 100);
}

static void add_peak(struct strbuf *b, const struct job_usage_summary *s)
{
    if (s->fullest < 0)
        return;
    const struct job_usage_gpu *g = &s->gpus[s->fullest];
    strbuf_printf(b, SEPARATOR "peak %.1f of %.0f GiB", (double)g->peak_bytes / gib,
                  (double)g->total_bytes / gib);
    if (g->peak_of_all)
        strbuf_puts(b, " (of all processes on the GPU)");
}

static void add_energy(struct strbuf *b, const struct job_usage_summary *s)
{
    if (s->energy_j < 0)
        return;
    double e = s->energy_j / wh;
    strbuf_printf(b,
                  e >= 999.5  ? SEPARATOR "%.1f kWh"
                  : e >= 9.95 ? SEPARATOR "%.0f Wh"
                              : SEPARATOR "%.1f Wh",
                  e >= 999.5 ? e / 1000 : e);
}

static void add_cost(struct strbuf *b, const struct usage_facts *f)
{
    if (f->price > 0)
        strbuf_printf(b, SEPARATOR "%.2f at %.2f/GPU-h", usage_report_cost(f), f->price);
}

void usage_report_print(struct strbuf *b, const char *program, const struct job_usage_summary *s,
                        const struct usage_facts *f)
{
    AUTO(strbuf) struct strbuf measured = {0};
    add_utilisation(&measured, s, f);
    add_peak(&measured, s);
    add_energy(&measured, s);
    if (measured.len == 0 && f->price <= 0)
        return;
    strbuf_printf(b, "%s: %d GPU%s", program, f->gpus, plural_s(f->gpus));
    if (measured.len > 0 && s->count < f->gpus)
        strbuf_printf(b, " (%d measured)", s->count);
    strbuf_add(b, strbuf_str(&measured), measured.len);
    add_cost(b, f);
    strbuf_puts(b, "\n");
    for (int i = 0; i < JOB_ADVICE_ROWS; i++)
        if (job_advice(s) & 1U << i)
            strbuf_printf(b, "%s: %s\n", program, job_advice_rows[i].text);
}

/* ---- the event ------------------------------------------------------------------------------ */

static json_t *real(double value)
{
    return value >= 0 ? json_real(value) : NULL;
}

static json_t *integer(int64_t value)
{
    return value >= 0 ? json_integer(value) : NULL;
}

const char *usage_report_peak_of(int64_t peak_bytes, bool of_all)
{
    return peak_bytes < 0 ? NULL : of_all ? "gpu" : "job";
}

static json_t *gpu_json(const struct job_usage_gpu *g, int rank, const char *node)
{
    return json_pack("{s:o, s:o, s:i, s:o*, s:o*, s:o*, s:o*, s:o*, s:s*, s:o*, s:o*, s:o*, s:o*, "
                     "s:o*, s:o*, s:o*, "
                     "s:o*}",
                     "uuid", json_text(g->uuid), "name", json_text(g->name), "rank", rank, "node",
                     node ? json_text(node) : NULL, "utilisation", real(g->utilisation),
                     "idle_share", real(g->idle_share), "longest_idle_s", real(g->longest_idle_s),
                     "peak_bytes", integer(g->peak_bytes), "peak_of",
                     usage_report_peak_of(g->peak_bytes, g->peak_of_all), "memory_bytes",
                     integer(g->total_bytes), "energy_j", real(g->energy_j), "power_w",
                     real(g->power_w), "power_share", real(g->power_share), "sm_mhz",
                     real(g->sm_mhz), "temperature_c", integer(g->temperature_c), "throttled_share",
                     real(g->throttled_share), "link_share", real(g->link_share));
}

json_t *usage_report_event(const struct job_usage_summary *s, const struct usage_facts *f)
{
    json_t *advice = json_array(), *devices = json_array();
    for (int i = 0; i < JOB_ADVICE_ROWS; i++)
        if (job_advice(s) & 1U << i)
            json_array_append_new(advice, json_string(job_advice_rows[i].name));
    for (int i = 0; i < s->count; i++)
        json_array_append_new(devices,
                              gpu_json(&s->gpus[i], f->ranks[i], f->nodes ? f->nodes[i] : NULL));
    return json_pack(
        "{s:i, s:f, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o, s:o}", "gpus",
        f->gpus, "gpu_hours", f->gpu_hours, "utilisation", real(s->utilisation), "energy_j",
        real(s->energy_j), "cost", real(usage_report_cost(f)), "price",
        f->price > 0 ? json_real(f->price) : NULL, "cpu_busy", real(s->cpu_busy), "cpu_wait",
        real(s->cpu_wait), "disk_read_bytes", integer(s->disk_read_bytes), "disk_written_bytes",
        integer(s->disk_written_bytes), "net_received_bytes", integer(s->net_received_bytes),
        "net_sent_bytes", integer(s->net_sent_bytes), "advice", advice, "devices", devices);
}
