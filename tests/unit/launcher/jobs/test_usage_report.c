/* test_usage_report - the line at the end of a job, and the event. */
#include "launcher/jobs/usage_report.h"

#include "tests/unit/test.h"

static const double gib = 1 << 30;

static struct job_usage_gpu gpus[2];
static const int ranks[] = {2, 3};

static struct job_usage_summary example(void)
{
    gpus[0] = (struct job_usage_gpu){.uuid = "GPU-aa",
                                     .utilisation = 0.80,
                                     .peak_bytes = (int64_t)(61.2 * gib),
                                     .total_bytes = (int64_t)(79.65 * gib),
                                     .energy_j = 5e6};
    gpus[1] = gpus[0];
    gpus[1].utilisation = 0.34;
    gpus[1].peak_bytes /= 2;
    return (struct job_usage_summary){.gpus = gpus,
                                      .count = 2,
                                      .samples = 30,
                                      .utilisation = 0.57,
                                      .worst = 1,
                                      .fullest = 0,
                                      .energy_j = 3.1 * 3.6e6,
                                      .power_share = -1,
                                      .cpu_busy = -1,
                                      .cpu_wait = -1,
                                      .link_share = -1,
                                      .disk_read_bytes = -1,
                                      .disk_written_bytes = -1,
                                      .net_received_bytes = -1,
                                      .net_sent_bytes = -1};
}

static void check_text(const struct job_usage_summary *s, const struct usage_facts *f,
                       const char *expected)
{
    AUTO(strbuf) struct strbuf b = {0};
    usage_report_print(&b, "drover run", s, f);
    CHECK_STR(strbuf_str(&b), expected);
}

TEST(the_line_has_all_figures)
{
    const struct job_usage_summary s = example();
    const struct usage_facts f = {.gpus = 2, .ranks = ranks, .gpu_hours = 6.762, .price = 2.1};
    check_text(&s, &f,
               "drover run: 2 GPUs · utilisation 57 % (rank 3: 34 %) · peak 61.2 of 80 GiB · "
               "3.1 kWh · 14.20 at 2.10/GPU-h\n");
}

TEST(the_line_leaves_unknown_figures_out)
{
    struct job_usage_summary s = example();
    struct usage_facts f = {.gpus = 1, .ranks = ranks};
    s.count = 1; /* a MIG instance: only its memory is known */
    s.utilisation = s.energy_j = -1;
    s.worst = -1;
    check_text(&s, &f, "drover run: 1 GPU · peak 61.2 of 80 GiB\n");
    s.fullest = -1;
    check_text(&s, &f, "");
    f.price = 2;
    f.gpu_hours = 0.5;
    check_text(&s, &f, "drover run: 1 GPU · 1.00 at 2.00/GPU-h\n");
}

TEST(a_peak_of_all_processes_is_marked_in_the_line_and_the_event)
{
    struct job_usage_summary s = example();
    gpus[0].peak_of_all = true;
    s.utilisation = s.energy_j = -1;
    const struct usage_facts f = {.gpus = 2, .ranks = ranks};
    check_text(&s, &f, "drover run: 2 GPUs · peak 61.2 of 80 GiB (of all processes on the GPU)\n");
    gpus[1].peak_bytes = -1;
    static const char *const of[] = {"gpu", NULL};
    AUTO(json) json_t *marked = usage_report_event(&s, &f);
    for (size_t i = 0; i < 2; i++) {
        const json_t *device = json_array_get(json_object_get(marked, "devices"), i);
        const char *word = json_string_value(json_object_get(device, "peak_of"));
        if (of[i])
            CHECK_STR(word, of[i]);
        else
            CHECK(word == NULL);
    }
}

TEST(gpus_that_are_alike_need_no_rank)
{
    struct job_usage_summary s = example();
    gpus[0].utilisation = gpus[1].utilisation = s.utilisation = 0.57;
    const struct usage_facts f = {.gpus = 2, .ranks = ranks};
    s.energy_j = 3600 * 12.4;
    check_text(&s, &f, "drover run: 2 GPUs · utilisation 57 % · peak 61.2 of 80 GiB · 12 Wh\n");
    s.energy_j = 3600 * 0.25;
    check_text(&s, &f, "drover run: 2 GPUs · utilisation 57 % · peak 61.2 of 80 GiB · 0.2 Wh\n");
}

TEST(the_line_says_how_many_gpus_were_measured_if_not_all)
{
    const struct job_usage_summary s = example();
    const struct usage_facts f = {.gpus = 16, .ranks = ranks, .gpu_hours = 10, .price = 2};
    check_text(&s, &f,
               "drover run: 16 GPUs (2 measured) · utilisation 57 % (rank 3: 34 %) · "
               "peak 61.2 of 80 GiB · 3.1 kWh · 20.00 at 2.00/GPU-h\n");
}

TEST(the_event_names_the_node_of_each_gpu)
{
    static const char *const nodes[] = {"c01", NULL};
    const struct job_usage_summary s = example();
    const struct usage_facts f = {.gpus = 2, .ranks = ranks, .nodes = nodes};
    AUTO(json) json_t *o = usage_report_event(&s, &f);
    const json_t *devices = json_object_get(o, "devices");
    CHECK_STR(json_string_value(json_object_get(json_array_get(devices, 0), "node")), "c01");
    CHECK(!json_object_get(json_array_get(devices, 1), "node"));
}

TEST(advice_follows_the_line)
{
    struct job_usage_summary s = example();
    const struct usage_facts f = {.gpus = 2, .ranks = ranks};
    s.samples = 100;
    s.utilisation = 0.2;
    s.cpu_busy = 0.9;
    AUTO(strbuf) struct strbuf b = {0};
    usage_report_print(&b, "drover run", &s, &f);
    CHECK_HAS(strbuf_str(&b), "\ndrover run: the GPUs wait for data");
    AUTO(json) json_t *o = usage_report_event(&s, &f);
    CHECK_STR(json_string_value(json_array_get(json_object_get(o, "advice"), 0)), "loader");
    CHECK_INT(json_array_size(json_object_get(o, "advice")), 1);
}

TEST(the_event_has_each_gpu_and_no_unknown_figure)
{
    struct job_usage_summary s = example();
    gpus[1].utilisation = -1;
    const struct usage_facts f = {.gpus = 2, .ranks = ranks, .gpu_hours = 1};
    AUTO(json) json_t *o = usage_report_event(&s, &f);
    const json_t *devices = json_object_get(o, "devices");
    CHECK_INT(json_array_size(devices), 2);
    const json_t *second = json_array_get(devices, 1);
    CHECK_INT(json_integer_value(json_object_get(second, "rank")), 3);
    CHECK(!json_object_get(second, "utilisation"));
    CHECK_STR(json_string_value(json_object_get(second, "peak_of")), "job");
    CHECK(json_object_get(json_array_get(devices, 0), "utilisation"));
    static const char *const absent[] = {"cost", "price", "cpu_busy", "cpu_wait",
                                         "disk_read_bytes"};
    for (size_t i = 0; i < COUNT_OF(absent); i++)
        CHECK(!json_object_get(o, absent[i]));
    CHECK_INT(json_integer_value(json_object_get(o, "gpus")), 2);
}
