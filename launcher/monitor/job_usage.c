#include "launcher/monitor/job_usage.h"

#include <stdbool.h>
#include <string.h>

enum {
    UNKNOWN = JOB_USAGE_UNKNOWN,
    GAP_S = 10 /* without samples for this long: the driver or drover stood still */
};

/* The sum of values that are known. */
struct mean {
    double sum;
    int n;
};

/* A counter that the driver or the kernel has started before the job. */
struct counter {
    int64_t last;  /* UNKNOWN: no value in this period */
    int64_t total; /* UNKNOWN: no difference so far */
};

struct gpu_usage_sum {
    struct job_usage_gpu known; /* names, sizes, and the longest idle time; the rest is computed */
    struct mean busy, power, power_w, sm_mhz, throttled, pcie_sent, pcie_received;
    int idle, samples;
    double idle_from_s; /* first sample of the present idle time; UNKNOWN: busy, or not reported */
    double idle_s;      /* length of the present idle time */
    struct counter energy_mj, nvlink_sent, nvlink_received;
    int64_t pcie_max, nvlink_max;
};

struct job_usage {
    struct gpu_usage_sum *gpus;
    int count;
    double last_s, seconds; /* last_s is UNKNOWN before the first sample of a period */
    bool has_host;          /* `host` is a sample of this period */
    struct host_sample host;
    double host_s, host_seconds;
    double cpu_s, cpu_busy_s, cpu_wait_s;
    struct counter disk_read, disk_written, net_received, net_sent;
    int64_t net_max;
};

static const struct counter no_counter = {UNKNOWN, UNKNOWN};

struct job_usage *job_usage_new(void)
{
    struct job_usage *u = xzalloc(sizeof *u);
    u->last_s = UNKNOWN;
    u->disk_read = u->disk_written = u->net_received = u->net_sent = no_counter;
    u->net_max = UNKNOWN;
    return u;
}

struct job_usage *job_usage_copy(const struct job_usage *u)
{
    struct job_usage *copy = xzalloc(sizeof *copy);
    *copy = *u;
    copy->gpus = xcalloc((size_t)u->count, sizeof *copy->gpus);
    if (u->count)
        memcpy(copy->gpus, u->gpus, (size_t)u->count * sizeof *copy->gpus);
    return copy;
}

void job_usage_free(struct job_usage *u)
{
    if (!u)
        return;
    free(u->gpus);
    free(u);
}

/* ---- samples -------------------------------------------------------------------------------- */

static void mean_add(struct mean *m, double value)
{
    if (value < 0)
        return;
    m->sum += value;
    m->n++;
}

static double mean_of(const struct mean *m)
{
    return m->n ? m->sum / m->n : UNKNOWN;
}

/* A counter that has become smaller was reset, for example with the driver. */
static void counter_add(struct counter *c, int64_t value)
{
    if (value >= 0 && c->last >= 0 && value >= c->last)
        c->total = (c->total < 0 ? 0 : c->total) + (value - c->last);
    c->last = value;
}

static struct gpu_usage_sum *find(struct job_usage *u, const struct gpu_sample *s)
{
    for (int i = 0; i < u->count; i++)
        if (strcmp(u->gpus[i].known.uuid, s->uuid) == 0)
            return &u->gpus[i];
    u->gpus = xrealloc(u->gpus, (size_t)u->count + 1, sizeof *u->gpus);
    struct gpu_usage_sum *g = &u->gpus[u->count++];
    *g = (struct gpu_usage_sum){
        .known = {.peak_bytes = UNKNOWN, .total_bytes = UNKNOWN, .temperature_c = UNKNOWN},
        .idle_from_s = UNKNOWN,
        .energy_mj = no_counter,
        .nvlink_sent = no_counter,
        .nvlink_received = no_counter};
    memcpy(g->known.uuid, s->uuid, sizeof g->known.uuid);
    memcpy(g->known.name, s->name, sizeof g->known.name);
    return g;
}

static void add_busy(struct gpu_usage_sum *g, double at_s, int percent)
{
    mean_add(&g->busy, percent);
    bool idle = percent >= 0 && percent < JOB_USAGE_IDLE_PERCENT;
    g->idle += idle;
    if (!idle)
        g->idle_from_s = UNKNOWN;
    else if (g->idle_from_s < 0)
        g->idle_from_s = at_s;
    g->idle_s = idle ? at_s - g->idle_from_s : 0;
    if (g->idle_s > g->known.longest_idle_s)
        g->known.longest_idle_s = g->idle_s;
}

static void add_gpu(struct gpu_usage_sum *g, double at_s, const struct gpu_sample *s)
{
    g->samples++;
    add_busy(g, at_s, s->busy_percent);
    if (s->memory_used_bytes > g->known.peak_bytes)
        g->known.peak_bytes = s->memory_used_bytes;
    if (s->memory_total_bytes > 0)
        g->known.total_bytes = s->memory_total_bytes;
    if (s->power_limit_w > 0)
        mean_add(&g->power, s->power_w < 0 ? UNKNOWN : s->power_w / s->power_limit_w);
    mean_add(&g->power_w, s->power_w);
    mean_add(&g->sm_mhz, s->sm_mhz);
    if (s->throttle_reasons >= 0)
        mean_add(&g->throttled, (s->throttle_reasons & GPU_SAMPLE_THROTTLED) != 0);
    if (s->temperature_c > g->known.temperature_c)
        g->known.temperature_c = s->temperature_c;
    mean_add(&g->pcie_sent, (double)s->pcie_tx_bytes_per_s);
    mean_add(&g->pcie_received, (double)s->pcie_rx_bytes_per_s);
    counter_add(&g->energy_mj, s->energy_mj);
    counter_add(&g->nvlink_sent, s->nvlink_tx_bytes);
    counter_add(&g->nvlink_received, s->nvlink_rx_bytes);
    g->pcie_max = s->pcie_max_bytes_per_s;
    g->nvlink_max = s->nvlink_max_bytes_per_s;
}

static void end_idle_times(struct job_usage *u)
{
    for (int i = 0; i < u->count; i++) {
        u->gpus[i].idle_from_s = UNKNOWN;
        u->gpus[i].idle_s = 0;
    }
}

void job_usage_add(struct job_usage *u, double at_s, const struct gpu_sample *samples, int count)
{
    if (u->last_s >= 0 && at_s - u->last_s > GAP_S)
        end_idle_times(u);
    for (int i = 0; i < count; i++)
        add_gpu(find(u, &samples[i]), at_s, &samples[i]);
    if (u->last_s >= 0)
        u->seconds += at_s - u->last_s;
    u->last_s = at_s;
}

void job_usage_add_host(struct job_usage *u, double at_s, const struct host_sample *h)
{
    if (u->has_host) {
        u->host_seconds += at_s - u->host_s;
        if (h->cpu_s > u->host.cpu_s && u->host.cpu_s >= 0) {
            u->cpu_s += h->cpu_s - u->host.cpu_s;
            u->cpu_busy_s += h->cpu_busy_s - u->host.cpu_busy_s;
            u->cpu_wait_s += h->cpu_wait_s - u->host.cpu_wait_s;
        }
    }
    counter_add(&u->disk_read, h->disk_read_bytes);
    counter_add(&u->disk_written, h->disk_written_bytes);
    counter_add(&u->net_received, h->net_received_bytes);
    counter_add(&u->net_sent, h->net_sent_bytes);
    u->net_max = h->net_max_bytes_per_s;
    u->host = *h;
    u->host_s = at_s;
    u->has_host = true;
}

void job_usage_pause(struct job_usage *u)
{
    end_idle_times(u);
    for (int i = 0; i < u->count; i++) {
        struct gpu_usage_sum *g = &u->gpus[i];
        g->energy_mj.last = g->nvlink_sent.last = g->nvlink_received.last = UNKNOWN;
    }
    u->disk_read.last = u->disk_written.last = UNKNOWN;
    u->net_received.last = u->net_sent.last = UNKNOWN;
    u->has_host = false;
    u->last_s = UNKNOWN;
}

double job_usage_idle_s(const struct job_usage *u)
{
    double least = u->count ? u->gpus[0].idle_s : 0;
    for (int i = 1; i < u->count; i++)
        least = u->gpus[i].idle_s < least ? u->gpus[i].idle_s : least;
    return least;
}

/* ---- the summary ---------------------------------------------------------------------------- */

/* Returns the share of a link's capacity that its direction with less traffic used. Communication
 * loads both directions; reading data loads one. */
static double share_of_link(double sent, double received, int64_t capacity)
{
    double least = sent < received ? sent : received;
    return capacity > 0 && least >= 0 ? least / (double)capacity : UNKNOWN;
}

static double rate_of(const struct counter *c, double seconds)
{
    return c->total >= 0 && seconds > 0 ? (double)c->total / seconds : UNKNOWN;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static struct job_usage_gpu summarise_gpu(const struct gpu_usage_sum *g, double seconds)
{
    struct job_usage_gpu r = g->known;
    double busy = mean_of(&g->busy);
    r.utilisation = busy < 0 ? UNKNOWN : busy / 100;
    r.idle_share = g->busy.n ? (double)g->idle / g->busy.n : UNKNOWN;
    if (!g->busy.n)
        r.longest_idle_s = UNKNOWN;
    r.energy_j = g->energy_mj.total < 0 ? UNKNOWN : (double)g->energy_mj.total / 1000;
    r.power_share = mean_of(&g->power);
    r.power_w = mean_of(&g->power_w);
    r.sm_mhz = mean_of(&g->sm_mhz);
    r.throttled_share = mean_of(&g->throttled);
    double pcie = share_of_link(mean_of(&g->pcie_sent), mean_of(&g->pcie_received), g->pcie_max);
    double nvlink = share_of_link(rate_of(&g->nvlink_sent, seconds),
                                  rate_of(&g->nvlink_received, seconds), g->nvlink_max);
    r.link_share = larger(pcie, nvlink);
    return r;
}

static double fill(const struct job_usage_gpu *g)
{
    return g->peak_bytes >= 0 && g->total_bytes > 0 ? (double)g->peak_bytes / (double)g->total_bytes
                                                    : UNKNOWN;
}

static void summarise_gpus(struct job_usage_summary *out, const struct job_usage *u)
{
    struct mean utilisation = {0}, power = {0}, energy = {0};
    for (int i = 0; i < u->count; i++) {
        struct job_usage_gpu *g = &out->gpus[i];
        *g = summarise_gpu(&u->gpus[i], u->seconds);
        mean_add(&utilisation, g->utilisation);
        mean_add(&power, g->power_share);
        mean_add(&energy, g->energy_j);
        if (g->utilisation >= 0 &&
            (out->worst < 0 || g->utilisation < out->gpus[out->worst].utilisation))
            out->worst = i;
        if (fill(g) >= 0 && (out->fullest < 0 || fill(g) > fill(&out->gpus[out->fullest])))
            out->fullest = i;
        out->link_share = larger(out->link_share, g->link_share);
        if (u->gpus[i].samples > out->samples)
            out->samples = u->gpus[i].samples;
    }
    out->utilisation = mean_of(&utilisation);
    out->power_share = mean_of(&power);
    out->energy_j = energy.n ? energy.sum : UNKNOWN;
}

void job_usage_summarise(struct job_usage_summary *out, const struct job_usage *u)
{
    *out = (struct job_usage_summary){
        .gpus = xcalloc((size_t)u->count, sizeof *out->gpus),
        .count = u->count,
        .seconds = u->seconds,
        .worst = -1,
        .fullest = -1,
        .cpu_busy = u->cpu_s > 0 ? u->cpu_busy_s / u->cpu_s : UNKNOWN,
        .cpu_wait = u->cpu_s > 0 ? u->cpu_wait_s / u->cpu_s : UNKNOWN,
        .link_share = share_of_link(rate_of(&u->net_sent, u->host_seconds),
                                    rate_of(&u->net_received, u->host_seconds), u->net_max),
        .disk_read_bytes = u->disk_read.total,
        .disk_written_bytes = u->disk_written.total,
        .net_received_bytes = u->net_received.total,
        .net_sent_bytes = u->net_sent.total};
    summarise_gpus(out, u);
}

void job_usage_summary_end(struct job_usage_summary *s)
{
    free(s->gpus);
    *s = (struct job_usage_summary){0};
}
