/* test_top_model - whose process it is, and the rows of nodes. */
#include "launcher/top/top_model.h"

#include "common/strbuf.h"
#include "tests/unit/launcher/top/kit_top.h"
#include "tests/unit/test.h"

/* Returns the rows of a section, one per line, with '|' between the cells. The caller frees it. */
static char *rows_of(const struct top_node *nodes, int count, enum top_sort sort,
                     enum top_section section)
{
    AUTO(top_view) struct top_view v = {0};
    AUTO(strbuf) struct strbuf b = {0};
    top_model_view(&v, nodes, count, sort);
    for (int r = 0; r < v.count; r++) {
        struct top_column columns[TOP_COLUMNS_MAX];
        CHECK_INT((int)strv_len(v.rows[r].cells), top_model_columns(columns, v.rows[r].section));
        for (char **cell = v.rows[r].cells; *cell && v.rows[r].section == section; cell++)
            strbuf_printf(&b, "%s%c", *cell, cell[1] ? '|' : '\n');
    }
    return strbuf_take(&b);
}

static void check_rows(const struct top_node *nodes, int count, enum top_sort sort,
                       enum top_section section, const char *want)
{
    AUTO(free) char *rows = rows_of(nodes, count, sort, section);
    CHECK_STR(rows, want);
}

/* ---- whose process it is -------------------------------------------------------------------- */

static struct registry_job registered[] = {
    {.id = (char *)"drover-10-aa", .kind = REGISTRY_JOB, .pid = 10},
    {.id = (char *)"sweep-s.20", .kind = REGISTRY_SWEEP, .sweep = (char *)"s", .pid = 20},
    {.id = (char *)"trial-s.3.30",
     .kind = REGISTRY_TRIAL,
     .sweep = (char *)"s",
     .trial = 3,
     .pid = 30},
    {.id = (char *)"trial-s.4.40",
     .kind = REGISTRY_TRIAL,
     .sweep = (char *)"s",
     .trial = 4,
     .pid = 40},
    {.id = (char *)"trial-s.5.40",
     .kind = REGISTRY_TRIAL,
     .sweep = (char *)"s",
     .trial = 5,
     .pid = 40},
};

TEST(a_process_belongs_to_the_job_of_its_environment_or_else_of_its_nearest_ancestor)
{
    static const struct {
        const char *job_id, *rank, *sweep, *trial;
        pid_t ancestors[3];
        const char *want_job, *want_sweep;
        int want_trial, want_rank;
    } rows[] = {
        {"drover-10-aa", "2", NULL, NULL, {12, 11, 10}, "drover-10-aa", "", -1, 2},
        {"drover-77-bb", "0", NULL, NULL, {9}, "drover-77-bb", "", -1, 0}, /* of another node */
        {"job-1", "1", "s", "4", {40}, "job-1", "s", 4, 1},
        {NULL, "2", NULL, NULL, {12, 11, 10}, "drover-10-aa", "", -1, -1}, /* RANK of another
                                                                              program */
        {NULL, NULL, NULL, NULL, {31, 30, 20}, "trial-s.3.30", "s", 3, -1},
        {NULL, NULL, NULL, NULL, {41, 40, 20}, "", "", -1, -1}, /* one of two trials */
        {NULL, NULL, NULL, NULL, {9, 8}, "", "", -1, -1},
        {"drover-10-aa", "x", "s", NULL, {10}, "drover-10-aa", "", -1, -1},
    };
    const struct registry_list jobs = {registered, COUNT_OF(registered)};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct top_process p = {.trial = TOP_UNKNOWN, .rank = TOP_UNKNOWN};
        const struct top_origin from = {rows[i].job_id, rows[i].rank,      rows[i].sweep,
                                        rows[i].trial,  rows[i].ancestors, 3};
        top_model_assign(&p, &from, &jobs);
        CHECK_STR(p.job, rows[i].want_job);
        CHECK_STR(p.sweep, rows[i].want_sweep);
        CHECK_INT(p.trial, rows[i].want_trial);
        CHECK_INT(p.rank, rows[i].want_rank);
    }
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

TEST(an_unknown_value_is_a_dash_and_never_zero)
{
    AUTO(top_node) struct top_node n = {.name = "a01"};
    kit_add_gpu(&n)->gpu.index = 0;
    kit_gpu(&n, "GPU-1", 0, 0)->known[GPU_FACT_POWER_LIMIT] = false;
    kit_gpu(&n, "GPU-2", 71, 20)->known[GPU_FACT_MEMORY_TOTAL] = false;
    n.gpus[2].known[GPU_FACT_POWER] = false;
    check_rows(&n, 1, TOP_BY_INDEX, TOP_GPUS,
               "|0|-|-|-|-|-|-|-\n"
               "|1|A100|0 %|0.0/40.0 GiB|300 W|1410 MHz|50 C|no\n"
               "|2|A100|71 %|20.0 GiB|-/400 W|1410 MHz|50 C|no\n");
}

TEST(the_strongest_reason_for_a_lower_clock_is_named)
{
    static const struct {
        int64_t reasons;
        const char *want;
    } rows[] = {{-1, "-"},      {0, "no"},      {1, "no"},       {0x4, "cap"},   {0x8, "slowdown"},
                {0x48, "heat"}, {0x24, "heat"}, {0x80, "brake"}, {0x88, "brake"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(top_node) struct top_node n = {.name = "a01"};
        struct gpu_sample *g = kit_gpu(&n, "GPU-0", 1, 0);
        gpu_sample_set(g, GPU_FACT_THROTTLE, rows[i].reasons);
        g->known[GPU_FACT_THROTTLE] = rows[i].reasons >= 0;
        AUTO(free)
        char *want =
            xasprintf("|0|A100|1 %%|0.0/40.0 GiB|300/400 W|1410 MHz|50 C|%s\n", rows[i].want);
        check_rows(&n, 1, TOP_BY_INDEX, TOP_GPUS, want);
    }
}

TEST(gpus_are_sorted_over_all_nodes_with_unknown_values_last)
{
    AUTO(top_node) struct top_node a = {.name = "a"};
    AUTO(top_node) struct top_node b = {.name = "b"};
    kit_gpu(&a, "GPU-0", -1, 3);
    kit_gpu(&a, "GPU-1", 5, 9);
    kit_gpu(&b, "GPU-2", 90, 3);
    static const struct {
        enum top_sort sort;
        const char *want;
    } rows[] = {{TOP_BY_INDEX, "a0 a1 b0 "},
                {TOP_BY_UTILISATION, "b0 a1 a0 "},
                {TOP_BY_MEMORY, "a1 a0 b0 "},
                {TOP_BY_POWER, "a0 a1 b0 "}};
    const struct top_node nodes[] = {a, b};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(top_view) struct top_view v = {0};
        AUTO(strbuf) struct strbuf order = {0};
        top_model_view(&v, nodes, 2, rows[i].sort);
        for (int r = 0; r < 3; r++)
            strbuf_printf(&order, "%s%s ", v.rows[r].cells[0], v.rows[r].cells[1]);
        CHECK_STR(strbuf_str(&order), rows[i].want);
    }
}

/* ---- processes ------------------------------------------------------------------------------ */

TEST(processes_have_the_order_of_their_gpus_and_show_their_job)
{
    AUTO(top_node) struct top_node n = {.name = "a"};
    kit_gpu(&n, "GPU-0", 1, 3);
    kit_gpu(&n, "GPU-1", 2, 3);
    struct top_process *p = kit_process(&n, "GPU-0", 12, "python x.py");
    snprintf(p->job, sizeof p->job, "drover-1-a");
    p->rank = 5;
    p = kit_process(&n, "GPU-1", 14, "t");
    snprintf(p->sweep, sizeof p->sweep, "s");
    p->trial = 3;
    p->rank = 0;
    p = kit_process(&n, "GPU-1", 13, "t");
    snprintf(p->sweep, sizeof p->sweep, "s");
    p->trial = 4;
    p->rank = 1;
    kit_process(&n, "GPU-1", 16, "jupyter")->memory_bytes = TOP_UNKNOWN;
    kit_process(&n, "GPU-1", 15, "")->memory_bytes = INT64_C(2) << 30;
    kit_job(&n, REGISTRY_TRIAL, "trial-s.3.1", "s", 3, 1);
    kit_job(&n, REGISTRY_TRIAL, "trial-s.4.1", "s", 4, 2);
    check_rows(&n, 1, TOP_BY_UTILISATION, TOP_PROCESSES,
               "|1|15|ada|2.0 GiB|-|-|-\n"
               "|1|13|ada|1.0 GiB|s|trial 4.1|t\n"
               "|1|14|ada|1.0 GiB|s|trial 3|t\n"
               "|1|16|ada|-|-|-|jupyter\n"
               "|0|12|ada|1.0 GiB|drover-1-a|rank 5|python x.py\n");
}

TEST(memory_that_no_listed_process_uses_is_shown_as_not_visible)
{
    AUTO(top_node) struct top_node n = {.name = "a"};
    kit_gpu(&n, "GPU-0", 99, 12);
    kit_gpu(&n, "GPU-1", 0, 1); /* idle: the driver's */
    kit_gpu(&n, "GPU-2", 9, 2);
    kit_process(&n, "GPU-2", 4711, "")->visible = false;
    n.processes[0].user[0] = '\0';
    check_rows(&n, 1, TOP_BY_INDEX, TOP_PROCESSES,
               "|0|-|-|12.0 GiB|-|-|not visible\n"
               "|2|4711|-|1.0 GiB|-|-|not visible\n");
}

/* ---- jobs ----------------------------------------------------------------------------------- */

TEST(trials_follow_their_sweep_and_a_job_has_the_gpus_of_all_nodes)
{
    AUTO(top_node) struct top_node a = {.name = "a"};
    AUTO(top_node) struct top_node b = {.name = "b"};
    kit_gpu(&a, "GPU-a", 80, 3);
    kit_gpu(&b, "GPU-b", 40, 3);
    kit_gpu(&b, "GPU-c", -1, 3);
    snprintf(kit_process(&a, "GPU-a", 1, "x")->job, 96, "drover-1-a");
    snprintf(kit_process(&a, "GPU-a", 2, "x")->job, 96, "drover-1-a"); /* the GPU counts once */
    snprintf(kit_process(&b, "GPU-b", 1, "x")->job, 96, "drover-1-a");
    struct top_process *p = kit_process(&b, "GPU-c", 3, "x");
    snprintf(p->sweep, sizeof p->sweep, "s");
    p->trial = 7;
    kit_job(&a, REGISTRY_TRIAL, "trial-z.1.9", "z", 1, 2); /* its sweep is on another node */
    kit_job(&a, REGISTRY_SWEEP, "sweep-s.5", "s", -1, 0);
    kit_job(&a, REGISTRY_JOB, "drover-1-a", "", -1, 2);
    kit_job(&b, REGISTRY_TRIAL, "trial-s.7.6", "s", 7, 1);
    const struct top_node nodes[] = {a, b};
    check_rows(nodes, 2, TOP_BY_INDEX, TOP_JOBS,
               "a|sweep s|1 trial|1|-|1m01s|train\n"
               "b|  trial 7|1 rank|1|-|1m01s|train\n"
               "a|drover-1-a|2 ranks|2|60 %|1m01s|train\n"
               "a|z trial 1|2 ranks|-|-|1m01s|train\n");
    AUTO(top_view) struct top_view v = {0};
    top_model_view(&v, nodes, 2, TOP_BY_INDEX);
    CHECK_STR(v.summary, "2 nodes, 3 GPUs, 4 processes, 1 job, 1 sweep, 2 trials");
}

TEST(a_node_that_is_not_shown_has_a_note)
{
    const struct top_node nodes[] = {{.name = "a"}, {.name = "b", .problem = "no answer for 7 s"}};
    AUTO(top_view) struct top_view v = {0};
    top_model_view(&v, nodes, 2, TOP_BY_INDEX);
    CHECK_INT((int)strv_len(v.notes), 1);
    CHECK_STR(v.notes[0], "b: no answer for 7 s");
}
