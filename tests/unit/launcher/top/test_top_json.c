/* test_top_json - a node as JSON, and back. */
#include "launcher/top/top_json.h"

#include "tests/unit/launcher/top/kit_top.h"
#include "tests/unit/test.h"

TEST(a_node_is_the_same_after_a_way_over_json)
{
    AUTO(top_node) struct top_node n = {.name = "a01", .problem = "late", .age_ms = 250};
    kit_gpu(&n, "GPU-0", 71, 20);
    kit_add_gpu(&n)->gpu.index = 1;
    struct top_process *p = kit_process(&n, "GPU-0", 4711, "python\xff");
    snprintf(p->job, sizeof p->job, "drover-1-a");
    p->rank = 3;
    *kit_add_process(&n) = (struct top_process){.memory_bytes = -1, .trial = 4, .rank = -1};
    kit_job(&n, REGISTRY_TRIAL, "trial-s.4.1", "s", 4, 2);
    kit_job(&n, REGISTRY_SWEEP, "sweep-s.1", "s", -1, 0);
    AUTO(json) json_t *j = top_json(&n);
    AUTO(free) char *line = json_line(j);
    CHECK(!strchr(line, '\n') && strstr(line, "\"utilisation_percent\":null"));
    AUTO(json) json_t *read = NULL;
    AUTO(top_node) struct top_node m = {0};
    CHECK_INT(json_parse(&read, line, strlen(line), NULL), 0);
    CHECK_INT(top_json_read(&m, read, NULL), 0);
    AUTO(json) json_t *again = top_json(&m);
    AUTO(free) char *second = json_line(again);
    CHECK_STR(second, line);
    CHECK(!m.gpus[1].known[GPU_FACT_BUSY]);
    CHECK_INT(gpu_sample_value(&m.gpus[0], GPU_FACT_POWER, -1), 300000);
    CHECK_STR(m.processes[0].command, "python?");
    CHECK(m.processes[0].visible && !m.processes[1].visible);
    CHECK_INT(m.jobs[1].kind, REGISTRY_SWEEP);
}

TEST(other_json_is_rejected_or_read_as_unknown)
{
    static const char *const bad[] = {"[]", "{}", "{\"node\":1,\"age_ms\":2}", "{\"node\":\"a\"}"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(json) json_t *j = NULL;
        AUTO(top_node) struct top_node n = {0};
        struct err e = {0};
        CHECK_INT(json_parse(&j, bad[i], strlen(bad[i]), NULL), 0);
        CHECK_INT(top_json_read(&n, j, &e), -EINVAL);
    }
    static const char odd[] = "{\"node\":\"a\",\"age_ms\":2,\"gpus\":[1,{\"index\":\"x\"}],"
                              "\"processes\":{},\"jobs\":[null]}";
    AUTO(json) json_t *j = NULL;
    AUTO(top_node) struct top_node n = {0};
    CHECK_INT(json_parse(&j, odd, strlen(odd), NULL), 0);
    CHECK_INT(top_json_read(&n, j, NULL), 0);
    CHECK_INT(n.gpu_count, 2);
    CHECK(!n.gpus[1].known[GPU_FACT_BUSY]);
    CHECK_INT(n.job_count, 1);
}
