/* test_job_advice - advice for recorded series of samples, and at its thresholds. */
#include "launcher/watch/job_advice.h"

#include "tests/unit/test.h"

enum { GB = 1000000000, MB = 1000000, MIB = 1 << 20 };

struct links {
    double pcie, nvlink, net;
};

static void add_gpu_line(struct job_usage *u, const char *line, const struct links *l)
{
    double at, total, power, limit, pcie_sent, pcie_received, sent, received, used;
    int busy;
    CHECK_INT(sscanf(line, "gpu %lf %d %lf %lf %lf %lf %lf %lf %lf %lf", &at, &busy, &used, &total,
                     &power, &limit, &pcie_sent, &pcie_received, &sent, &received),
              10);
    const struct {
        enum gpu_fact fact;
        double value;
    } values[] = {{GPU_FACT_BUSY, busy},
                  {GPU_FACT_MEMORY_USED, used * MIB},
                  {GPU_FACT_MEMORY_TOTAL, total * MIB},
                  {GPU_FACT_POWER, power * 1000},
                  {GPU_FACT_POWER_LIMIT, limit * 1000},
                  {GPU_FACT_PCIE_TX, pcie_sent * MB},
                  {GPU_FACT_PCIE_RX, pcie_received * MB},
                  {GPU_FACT_NVLINK_TX, sent * GB},
                  {GPU_FACT_NVLINK_RX, received * GB},
                  {GPU_FACT_PCIE_CAPACITY, l->pcie * GB},
                  {GPU_FACT_NVLINK_CAPACITY, l->nvlink * GB}};
    struct gpu_sample s = {.gpu = {.uuid = "GPU-aa"}};
    for (size_t i = 0; i < COUNT_OF(values); i++)
        if (values[i].value >= 0)
            gpu_sample_set(&s, values[i].fact, (int64_t)values[i].value);
    job_usage_add(u, at, &s, 1);
}

static void add_host_line(struct job_usage *u, const char *line, const struct links *l)
{
    double at, received, sent;
    struct host_sample h = {.disk_read_bytes = JOB_USAGE_UNKNOWN,
                            .disk_written_bytes = JOB_USAGE_UNKNOWN,
                            .net_max_bytes_per_s = (int64_t)(l->net * GB)};
    CHECK_INT(sscanf(line, "host %lf %lf %lf %lf %lf %lf", &at, &h.cpu_s, &h.cpu_busy_s,
                     &h.cpu_wait_s, &received, &sent),
              6);
    h.net_received_bytes = (int64_t)(received * GB);
    h.net_sent_bytes = (int64_t)(sent * GB);
    job_usage_add_host(u, at, &h);
}

/* Returns the advice for a file of series/, which is described in each file. */
static unsigned advice_for(const char *name)
{
    AUTO(free) char *path = xasprintf("tests/unit/launcher/watch/series/%s.txt", name);
    AUTO(file) FILE *f = fopen(path, "r");
    AUTO(job_usage) struct job_usage *u = job_usage_new();
    struct links l = {0};
    char line[256];
    if (!f)
        FAIL("%s: %s (the tests run in the source directory)", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "links", 5) == 0)
            CHECK_INT(sscanf(line, "links %lf %lf %lf", &l.pcie, &l.nvlink, &l.net), 3);
        else if (strncmp(line, "gpu", 3) == 0)
            add_gpu_line(u, line, &l);
        else if (strncmp(line, "host", 4) == 0)
            add_host_line(u, line, &l);
        else
            CHECK_INT(line[0], '#');
    }
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    unsigned advice = job_advice(&s);
    job_usage_summary_end(&s);
    return advice;
}

TEST(each_recorded_series_gets_exactly_its_advice)
{
    CHECK_INT(advice_for("loader-bound"), JOB_ADVICE_LOADER);
    CHECK_INT(advice_for("communication-bound"), JOB_ADVICE_COMMUNICATION);
    CHECK_INT(advice_for("small-batch"), JOB_ADVICE_BATCH);
    CHECK_INT(advice_for("full"), JOB_ADVICE_MEMORY);
    CHECK_INT(advice_for("healthy"), 0);
}

/* A job that gets no advice, and whose figures a test changes. */
static struct job_usage_gpu gpu;
static struct job_usage_summary ordinary(void)
{
    gpu = (struct job_usage_gpu){.utilisation = 0.2};
    return (struct job_usage_summary){.gpus = &gpu,
                                      .count = 1,
                                      .samples = 60,
                                      .memory_share = 0.70,
                                      .utilisation = 0.2,
                                      .power_share = 0.5,
                                      .cpu_busy = 0.5,
                                      .cpu_wait = 0,
                                      .link_share = 0.1};
}

TEST(advice_begins_at_its_threshold)
{
    struct job_usage_summary s = ordinary();
    CHECK_INT(job_advice(&s), 0);
    s.cpu_busy = 0.7;
    CHECK_INT(job_advice(&s), JOB_ADVICE_LOADER);
    s.link_share = 0.3; /* ranks that wait for each other spin */
    CHECK_INT(job_advice(&s), JOB_ADVICE_COMMUNICATION);
    s.samples = 59;
    CHECK_INT(job_advice(&s), 0);

    s = ordinary();
    s.cpu_wait = 0.2;
    CHECK_INT(job_advice(&s), JOB_ADVICE_LOADER);
    s.utilisation = 0.3;
    CHECK_INT(job_advice(&s), 0);

    s = ordinary();
    s.memory_share = 0.49;
    CHECK_INT(job_advice(&s), JOB_ADVICE_BATCH);
    s.memory_share = 0.50;
    CHECK_INT(job_advice(&s), 0);
    s.memory_share = 0.95;
    CHECK_INT(job_advice(&s), 0);
    s.memory_share = 0.96;
    CHECK_INT(job_advice(&s), JOB_ADVICE_MEMORY);
}

TEST(kernels_that_use_little_power_between_busy_links_wait_for_each_other)
{
    struct job_usage_summary s = ordinary();
    s.utilisation = 0.99; /* NCCL's kernels run while they wait */
    s.link_share = 0.5;
    CHECK_INT(job_advice(&s), 0);
    s.power_share = 0.39;
    CHECK_INT(job_advice(&s), JOB_ADVICE_COMMUNICATION);
}

TEST(unknown_figures_support_no_advice)
{
    struct job_usage_summary s = ordinary();
    s.memory_share = s.utilisation = s.power_share = s.cpu_busy = s.cpu_wait = s.link_share =
        JOB_USAGE_UNKNOWN;
    CHECK_INT(job_advice(&s), 0);
    s = ordinary(); /* a MIG instance: only its memory is known */
    s.utilisation = s.power_share = JOB_USAGE_UNKNOWN;
    s.link_share = s.cpu_busy = 1;
    s.memory_share = 0.97;
    CHECK_INT(job_advice(&s), JOB_ADVICE_MEMORY);
}

TEST(each_advice_has_a_text_and_a_name)
{
    for (int i = 0; i < JOB_ADVICE_ROWS; i++) {
        CHECK(*job_advice_rows[i].text);
        CHECK(*job_advice_rows[i].name);
    }
    CHECK_INT(1 << (JOB_ADVICE_ROWS - 1), JOB_ADVICE_MEMORY);
    CHECK_STR(job_advice_rows[0].name, "loader");
    CHECK_STR(job_advice_rows[JOB_ADVICE_ROWS - 1].name, "memory");
}
