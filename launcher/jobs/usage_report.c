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
    if (f->node) { /* the cost is that of all nodes, and precedes what one node has measured */
        add_cost(b, f);
        if (measured.len > 0)
            strbuf_printf(b, SEPARATOR "on %s (%d GPU%s)", f->node, s->count, plural_s(s->count));
        strbuf_add(b, strbuf_str(&measured), measured.len);
    } else {
        strbuf_add(b, strbuf_str(&measured), measured.len);
        add_cost(b, f);
    }
    strbuf_puts(b, "\n");
    unsigned advice = job_advice(s);
    for (unsigned a = 1; a <= advice; a *= 2)
        if (advice & a)
            strbuf_printf(b, "%s: %s\n", program, job_advice_text((enum job_advice)a));
}

/* ---- the event ------------------------------------------------------------------------------ */

static void add_number(json_t *o, const char *key, double value)
{
    if (value >= 0)
        json_object_set_new(o, key, json_real(value));
}

static void add_count(json_t *o, const char *key, int64_t value)
{
    if (value >= 0)
        json_object_set_new(o, key, json_integer(value));
}

static json_t *gpu_json(const struct job_usage_gpu *g, int rank)
{
    json_t *o = json_pack("{s:o, s:o, s:i}", "uuid", json_text(g->uuid), "name", json_text(g->name),
                          "rank", rank);
    add_number(o, "utilisation", g->utilisation);
    add_number(o, "idle_share", g->idle_share);
    add_number(o, "longest_idle_s", g->longest_idle_s);
    add_count(o, "peak_bytes", g->peak_bytes);
    add_count(o, "memory_bytes", g->total_bytes);
    add_number(o, "energy_j", g->energy_j);
    add_number(o, "power_w", g->power_w);
    add_number(o, "power_share", g->power_share);
    add_number(o, "sm_mhz", g->sm_mhz);
    add_count(o, "temperature_c", g->temperature_c);
    add_number(o, "throttled_share", g->throttled_share);
    add_number(o, "link_share", g->link_share);
    return o;
}

json_t *usage_report_event(const struct job_usage_summary *s, const struct usage_facts *f)
{
    json_t *o = json_pack("{s:i, s:f}", "gpus", f->gpus, "gpu_hours", f->gpu_hours);
    json_t *advice = json_array(), *devices = json_array();
    unsigned bits = job_advice(s);
    for (unsigned a = 1; a <= bits; a *= 2)
        if (bits & a)
            json_array_append_new(advice, json_string(job_advice_name((enum job_advice)a)));
    for (int i = 0; i < s->count; i++)
        json_array_append_new(devices, gpu_json(&s->gpus[i], f->ranks[i]));
    if (f->node)
        json_object_set_new(o, "node", json_text(f->node));
    add_number(o, "utilisation", s->utilisation);
    add_number(o, "energy_j", s->energy_j);
    add_number(o, "cost", usage_report_cost(f));
    add_number(o, "price", f->price > 0 ? f->price : JOB_USAGE_UNKNOWN);
    add_number(o, "cpu_busy", s->cpu_busy);
    add_number(o, "cpu_wait", s->cpu_wait);
    add_count(o, "disk_read_bytes", s->disk_read_bytes);
    add_count(o, "disk_written_bytes", s->disk_written_bytes);
    add_count(o, "net_received_bytes", s->net_received_bytes);
    add_count(o, "net_sent_bytes", s->net_sent_bytes);
    json_object_set_new(o, "advice", advice);
    json_object_set_new(o, "devices", devices);
    return o;
}
