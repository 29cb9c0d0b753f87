#include "launcher/watch/job_usage.h"

#include <math.h>
#include <string.h>

#include "launcher/gpu/gpu_facts.h"

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

/* What the samples of a value have added up to; its row in gpu_facts.c says which. */
struct sum {
    struct mean mean;
    struct counter growth;
    int64_t number; /* the largest one, or the last one; UNKNOWN */
};

struct gpu_sums {
    struct job_usage_gpu known; /* names and the longest idle time; the rest is computed */
    struct sum of[GPU_FACTS];
    struct mean power_share, throttled, hot;
    int idle, samples;
    double last_s;      /* its last sample in this period; UNKNOWN: none */
    double idle_from_s; /* first sample of the present idle time; UNKNOWN: busy, or not reported */
    double idle_s;      /* length of the present idle time */
};

struct job_usage {
    struct gpu_sums *gpus;
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

static struct gpu_sums *find(struct job_usage *u, const struct gpu *gpu)
{
    for (int i = 0; i < u->count; i++)
        if (strcmp(u->gpus[i].known.uuid, gpu->uuid) == 0)
            return &u->gpus[i];
    u->gpus = xrealloc(u->gpus, (size_t)u->count + 1, sizeof *u->gpus);
    struct gpu_sums *g = &u->gpus[u->count++];
    *g = (struct gpu_sums){.last_s = UNKNOWN, .idle_from_s = UNKNOWN};
    for (int f = 0; f < GPU_FACTS; f++)
        g->of[f] = (struct sum){.growth = no_counter, .number = UNKNOWN};
    memcpy(g->known.uuid, gpu->uuid, sizeof g->known.uuid);
    memcpy(g->known.name, gpu->name, sizeof g->known.name);
    return g;
}

static void add_busy(struct gpu_sums *g, double at_s, int percent)
{
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

static void add_value(struct sum *sum, const struct gpu_sample *s, enum gpu_fact f)
{
    double number = s->known[f] ? gpu_facts_number(s, f) : UNKNOWN;
    int64_t value = gpu_sample_value(s, f, UNKNOWN);
    enum gpu_summary summary = gpu_rows[f].summary;
    if (summary == GPU_SUM_MEAN)
        mean_add(&sum->mean, number);
    else if (summary == GPU_SUM_GROWTH)
        counter_add(&sum->growth, value);
    else if ((summary == GPU_SUM_PEAK && value > sum->number) ||
             (summary == GPU_SUM_LAST && value > 0))
        sum->number = value;
}

static void add_xids(struct job_usage_gpu *g, double at_s, int64_t codes)
{
    for (; codes > 0 && g->xid_count < JOB_USAGE_XIDS; codes >>= GPU_XID_BITS)
        g->xids[g->xid_count++] =
            (struct job_usage_xid){(int)(codes & ((1 << GPU_XID_BITS) - 1)), at_s};
}

static void add_gpu(struct gpu_sums *g, double at_s, const struct gpu_sample *s)
{
    int64_t power, limit = gpu_sample_value(s, GPU_FACT_POWER_LIMIT, 0), bits;
    g->samples++;
    g->last_s = at_s;
    for (int f = 0; f < GPU_FACTS; f++)
        add_value(&g->of[f], s, (enum gpu_fact)f);
    add_busy(g, at_s, (int)gpu_sample_value(s, GPU_FACT_BUSY, UNKNOWN));
    if (limit > 0 && gpu_sample_get(&power, s, GPU_FACT_POWER))
        mean_add(&g->power_share, (double)power / (double)limit);
    if (gpu_sample_get(&bits, s, GPU_FACT_THROTTLE)) {
        mean_add(&g->throttled, (bits & GPU_THROTTLED) != 0);
        mean_add(&g->hot, (bits & GPU_HOT) != 0);
    }
    add_xids(&g->known, at_s, gpu_sample_value(s, GPU_FACT_XIDS, 0));
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
        add_gpu(find(u, &samples[i].gpu), at_s, &samples[i]);
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
        u->gpus[i].last_s = UNKNOWN;
        for (int f = 0; f < GPU_FACTS; f++)
            u->gpus[i].of[f].growth.last = UNKNOWN;
    }
    u->disk_read.last = u->disk_written.last = UNKNOWN;
    u->net_received.last = u->net_sent.last = UNKNOWN;
    u->has_host = false;
    u->last_s = UNKNOWN;
}

double job_usage_idle_s(const struct job_usage *u, int gpus)
{
    double least = INFINITY;
    int seen = 0;
    for (int i = 0; i < u->count; i++) {
        const struct gpu_sums *g = &u->gpus[i];
        if (g->last_s < 0) /* another attempt used it */
            continue;
        seen++;
        least = u->last_s - g->last_s > GAP_S ? 0 : fmin(least, g->idle_s);
    }
    return seen > 0 && seen >= gpus ? least : 0;
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

static struct job_usage_gpu summarise_gpu(const struct gpu_sums *g, double seconds)
{
    struct job_usage_gpu r = g->known;
    const struct sum *of = g->of;
    const struct mean *busy = &of[GPU_FACT_BUSY].mean;
    int64_t energy_mj = of[GPU_FACT_ENERGY].growth.total;
    r.utilisation = busy->n ? mean_of(busy) / 100 : UNKNOWN;
    r.idle_share = busy->n ? (double)g->idle / busy->n : UNKNOWN;
    if (!busy->n)
        r.longest_idle_s = UNKNOWN;
    r.all_peak_bytes = of[GPU_FACT_MEMORY_USED].number;
    r.peak_bytes = of[GPU_FACT_JOB_MEMORY].number;
    r.peak_of_all = r.peak_bytes < 0;
    if (r.peak_of_all)
        r.peak_bytes = r.all_peak_bytes;
    r.total_bytes = of[GPU_FACT_MEMORY_TOTAL].number;
    r.temperature_c = (int)of[GPU_FACT_TEMPERATURE].number;
    r.energy_j = energy_mj < 0 ? UNKNOWN : (double)energy_mj / 1000;
    r.power_share = mean_of(&g->power_share);
    r.power_w = mean_of(&of[GPU_FACT_POWER].mean);
    r.sm_mhz = mean_of(&of[GPU_FACT_SM_CLOCK].mean);
    r.throttled_share = mean_of(&g->throttled);
    r.hot_share = mean_of(&g->hot);
    r.ecc_errors = of[GPU_FACT_ECC_VOLATILE].growth.total;
    double pcie =
        share_of_link(mean_of(&of[GPU_FACT_PCIE_TX].mean), mean_of(&of[GPU_FACT_PCIE_RX].mean),
                      of[GPU_FACT_PCIE_CAPACITY].number);
    double nvlink = share_of_link(rate_of(&of[GPU_FACT_NVLINK_TX].growth, seconds),
                                  rate_of(&of[GPU_FACT_NVLINK_RX].growth, seconds),
                                  of[GPU_FACT_NVLINK_CAPACITY].number);
    r.link_share = fmax(pcie, nvlink);
    return r;
}

static double share_of_memory(int64_t bytes, const struct job_usage_gpu *g)
{
    return bytes >= 0 && g->total_bytes > 0 ? (double)bytes / (double)g->total_bytes : UNKNOWN;
}

static double fill(const struct job_usage_gpu *g)
{
    return share_of_memory(g->peak_bytes, g);
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
        out->link_share = fmax(out->link_share, g->link_share);
        out->memory_share = fmax(out->memory_share, share_of_memory(g->all_peak_bytes, g));
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
        .memory_share = UNKNOWN,
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
