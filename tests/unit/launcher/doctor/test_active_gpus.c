/* active_gpus: what `drover bench gemm` and `copy` say about the GPUs of three nodes. */
#include "launcher/doctor/active/active_internal.h"

#include "common/mem.h"

#include "tests/unit/test.h"

enum { NODES = 3, PER_NODE = 2 };

static struct check_result results[NODES][80];
static struct doctor_node nodes[NODES];
static const int numbers[NODES] = {0, 1, 2};

static struct active_measurement measurement(const struct active_opts *o)
{
    static struct doctor_report report = {.nodes = nodes, .count = NODES};
    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct doctor_node){.name = "n", .results = results[i]};
    return (struct active_measurement){
        .report = &report, .opts = o, .nodes = numbers, .count = NODES};
}

/* Judges rows of six GPUs: JSON without their rank and device. */
static struct active_measurement judge(enum active_gpus_what what, const char *const *rows,
                                       const struct active_opts *o)
{
    struct active_measurement m = measurement(o);
    AUTO(json) json_t *root = json_pack("{s:[]}", "rows");
    for (int i = 0; i < NODES * PER_NODE; i++) {
        json_t *row = json_loads(rows[i], 0, NULL);
        CHECK(row);
        json_object_set_new(row, "rank", json_integer(i));
        json_object_set_new(row, "device", json_integer(i % PER_NODE));
        json_array_append_new(json_object_get(root, "rows"), row);
    }
    active_gpus_judge(&m, what, root, numbers, NODES, PER_NODE);
    return m;
}

static const struct check_result *on(const struct active_measurement *m, int node, const char *id)
{
    return active_result(m, node, id);
}

TEST(a_gpu_that_multiplies_slowly_is_named_beside_its_peers)
{
    static const char *const rows[] = {"{\"tflops\": 700, \"wrong\": 0}",
                                       "{\"tflops\": 705}",
                                       "{\"tflops\": 702}",
                                       "{\"tflops\": 430}",
                                       "{\"tflops\": 698}",
                                       "{\"tflops\": 701}"};
    const struct active_opts o = {.gpus = true};
    struct active_measurement m = judge(ACTIVE_GPUS_GEMM, rows, &o);
    CHECK_INT(on(&m, 1, "act.gemm")->state, CHECK_FAIL);
    CHECK_STR(on(&m, 1, "act.gemm")->value, "GPU 1: 430 TFLOP/s");
    CHECK_STR(on(&m, 1, "act.gemm")->want, "as fast as the others: 700 ± 3 TFLOP/s");
    CHECK_INT(on(&m, 0, "act.gemm")->state, CHECK_OK);
    CHECK_STR(on(&m, 0, "act.gemm")->value, "702 ± 3.7 TFLOP/s");
    CHECK_INT(on(&m, 2, "act.gemm")->state, CHECK_OK);
}

TEST(a_wrong_product_fails_also_on_a_fast_gpu)
{
    static const char *const rows[] = {"{\"tflops\": 700}", "{\"tflops\": 705, \"wrong\": 3}",
                                       "{\"tflops\": 702}", "{\"tflops\": 701}",
                                       "{\"tflops\": 698}", "{\"tflops\": 701}"};
    const struct active_opts o = {.gpus = true};
    struct active_measurement m = judge(ACTIVE_GPUS_GEMM, rows, &o);
    CHECK_INT(on(&m, 0, "act.gemm")->state, CHECK_FAIL);
    CHECK_STR(on(&m, 0, "act.gemm")->value, "GPU 1: 3 wrong rows");
    m = judge(ACTIVE_GPUS_BITS, rows, &o);
    CHECK_STR(on(&m, 0, "act.bits")->value, "GPU 1: 3 wrong elements");
    CHECK_STR(on(&m, 1, "act.bits")->value, "200 equal results");
}

#define COPY(to, from, generation, width, gbps)                           \
    "{\"within_gbps\": 1500, \"to_gbps\": " #to ", \"from_gbps\": " #from \
    ", \"link\": {\"generation\": " #generation ", \"width\": " #width ", \"gbps\": " #gbps "}}"

TEST(copies_are_judged_against_the_link_also_if_all_are_slow)
{
    static const char *const rows[] = {COPY(55, 54, 5, 16, 63), COPY(55, 55, 5, 16, 63),
                                       COPY(30, 29, 5, 16, 63), COPY(54, 54, 5, 16, 63),
                                       COPY(55, 31, 5, 16, 63), COPY(55, 54, 5, 16, 63)};
    static const char *const slow[] = {COPY(12, 54, 5, 16, 63), COPY(12, 54, 5, 16, 63),
                                       COPY(12, 54, 5, 16, 63), COPY(12, 54, 5, 16, 63),
                                       COPY(12, 54, 5, 16, 63), COPY(12, 54, 5, 16, 63)};
    const struct active_opts o = {.gpus = true};
    struct active_measurement m = judge(ACTIVE_GPUS_COPY, rows, &o);
    CHECK_INT(on(&m, 0, "act.pcie")->state, CHECK_OK);
    CHECK_STR(on(&m, 0, "act.pcie")->value,
              "55 ± 0 GB/s to the GPU, 54.5 ± 0.74 GB/s from the GPU");
    CHECK_STR(on(&m, 1, "act.pcie")->value,
              "GPU 0: 30 GB/s to the GPU over generation 5 x16, which carries 63; GPU 0: 29 GB/s "
              "from the GPU over generation 5 x16, which carries 63");
    CHECK_STR(on(&m, 1, "act.pcie")->want, "60 % of the link's rate or more");
    CHECK_INT(on(&m, 2, "act.pcie")->state, CHECK_FAIL);
    CHECK_INT(on(&m, 2, "act.mem")->state, CHECK_OK);
    m = judge(ACTIVE_GPUS_COPY, slow, &o);
    for (int i = 0; i < NODES; i++)
        CHECK_INT(on(&m, i, "act.pcie")->state, CHECK_FAIL);
}

TEST(a_narrower_link_is_as_fast_as_it_can_be_but_slower_than_its_peers)
{
    static const char *const rows[] = {COPY(26, 26, 4, 16, 31.5), COPY(26, 26, 4, 16, 31.5),
                                       COPY(26, 26, 4, 16, 31.5), COPY(26, 26, 4, 16, 31.5),
                                       COPY(13, 13, 4, 8, 15.75), COPY(26, 26, 4, 16, 31.5)};
    const struct active_opts o = {.gpus = true};
    struct active_measurement m = judge(ACTIVE_GPUS_COPY, rows, &o);
    CHECK_STR(on(&m, 2, "act.pcie")->value,
              "GPU 0: 13 GB/s to the GPU; GPU 0: 13 GB/s from the GPU");
    CHECK_STR(on(&m, 2, "act.pcie")->want, "as fast as the others: 26 ± 0 GB/s");
}

TEST(without_gpus_the_link_is_skipped_and_the_memory_is_judged)
{
    static const char *const rows[] = {
        "{\"within_gbps\": 12, \"to_gbps\": null, \"from_gbps\": null, \"link\": null}",
        "{\"within_gbps\": 12}",
        "{\"within_gbps\": 12}",
        "{\"within_gbps\": 12}",
        "{\"within_gbps\": 12}",
        "{\"within_gbps\": 3}"};
    const struct active_opts o = {.gpus = false};
    struct active_measurement m = judge(ACTIVE_GPUS_COPY, rows, &o);
    CHECK_INT(on(&m, 0, "act.pcie")->state, CHECK_SKIP);
    CHECK_STR(on(&m, 0, "act.pcie")->value, "no GPU");
    CHECK_INT(on(&m, 0, "act.mem")->state, CHECK_OK);
    CHECK_INT(on(&m, 2, "act.mem")->state, CHECK_FAIL);
    CHECK_STR(on(&m, 2, "act.mem")->value, "3 GB/s");
}
