#include "collectives/bench/bench.h"

#include <jansson.h>

#include "common/json.h"
#include "tests/unit/test.h"

static const struct bench_report_device devices[2] = {
    {.rank = 0, .pid = 4242, .host = "c03", .is = {.pci_bus = 0x1b, .name = "NVIDIA H200"}},
    {.rank = 1,
     .pid = 104243,
     .host = "a-long-host-name",
     .is = {.index = 1, .pci_domain = 1, .pci_bus = 0xe3, .name = "NVIDIA H200"}},
};

static const struct bench_opts opts = {
    .coll = COLLECTIVE_ALL_REDUCE,
    .min_bytes = 8,
    .max_bytes = 134217728,
    .factor = 2,
    .warmups = 1,
    .iters = 20,
    .checks = 1,
    .agg = 1,
};

static const struct bench_report_head head = {
    .o = &opts,
    .version = "NCCL 2.28.9 (headers 2.27.3)",
    .backend = "nccl",
    .ranks = 2,
};

TEST(the_head_is_laid_out_as_nccl_tests_lays_it_out)
{
    struct strbuf b = {0};
    bench_report_head_text(&b, &head, devices);
    CHECK_STR(
        strbuf_str(&b),
        "# drover version " DROVER_VERSION " nccl-headers=22703 nccl-library=22809\n"
        "# Collective test starting: all_reduce_perf\n"
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: "
        "20 "
        "agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
        "# Backend: nccl, NCCL 2.28.9 (headers 2.27.3)\n"
        "#\n"
        "# Using devices\n"
        "#  Rank  0 Group  0 Pid   4242 on        c03 device  0 [0000:1b:00] NVIDIA H200\n"
        "#  Rank  1 Group  0 Pid 104243 on a-long-host-name device  1 [0001:e3:00] NVIDIA H200\n"
        "#\n"
        "#                                                              out-of-place               "
        "        in-place          \n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
        "time   algbw   busbw  #wrong \n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
        "(us)  (GB/s)  (GB/s)         \n");
    strbuf_free(&b);
}

static struct bench_report_row row(double us, double algbw, double busbw, uint64_t wrong)
{
    struct bench_report_placement h = {
        .checked = true, .seconds = us * 1e-6, .algbw = algbw, .busbw = busbw};
    h.rank_min_seconds = h.rank_max_seconds = h.seconds;
    h.wrong = wrong;
    h.wrong_rank = -1;
    return (struct bench_report_row){8, 2, "float", "sum", -1, {h, h}, {0}};
}

static void check_row(const struct bench_report_row *r, const char *want)
{
    struct strbuf b = {0};
    bench_report_row_text(&b, &head, r);
    CHECK_STR(strbuf_str(&b), want);
    strbuf_free(&b);
}

TEST(a_row_is_laid_out_as_nccl_tests_lays_it_out)
{
    struct bench_report_row r = row(37.966, 0.00021, 0.0004, 0);
    check_row(
        &r, "           8             2     float     sum      -1    37.97    0.00    0.00       0"
            "    37.97    0.00    0.00       0\n");
    r = row(2873.4, 467.126, 817.47, 12);
    r.bytes = 1342177280;
    r.count = 335544320;
    r.type = "bfloat16";
    r.op = "none";
    r.root = 3;
    check_row(
        &r, "  1342177280     335544320  bfloat16    none       3  2873.40  467.13  817.47      12"
            "  2873.40  467.13  817.47      12\n");
}

TEST(a_number_takes_the_first_form_that_fits_its_column)
{
    struct bench_report_row r = row(12345.67, 12345.6, 1234567.8, 0);
    check_row(
        &r, "           8             2     float     sum      -1  12345.7   12346   1e+06       0"
            "  12345.7   12346   1e+06       0\n");
    r = row(1234567.8, 999.996, 99999.6, 0);
    check_row(
        &r, "           8             2     float     sum      -1  1234568  1000.0  100000       0"
            "  1234568  1000.0  100000       0\n");
    r = row(12345678.9, 0, 0, 0);
    check_row(
        &r, "           8             2     float     sum      -1  1.2e+07    0.00    0.00       0"
            "  1.2e+07    0.00    0.00       0\n");
}

TEST(what_was_not_checked_says_so)
{
    struct bench_report_row r = row(1, 2, 3, 0);
    r.placement[0].checked = r.placement[1].checked = false;
    check_row(&r,
              "           8             2     float     sum      -1     1.00    2.00    3.00    N/A"
              "     1.00    2.00    3.00    N/A\n");
}

/* Returns the document of n rows as text, which the caller frees. */
static char *document(const struct bench_report_json *j, const struct bench_report_row *r, int n,
                      const struct bench_report_summary *f)
{
    AUTO(json) json_t *rows = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(rows, bench_report_json_row(j, &r[i]));
    json_t *d = bench_report_json_document(j, rows, f);
    char *text = json_dumps(d, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(d);
    return text;
}

TEST(only_the_time_column_is_the_time_to_start_the_work)
{
    struct bench_report_head with = head;
    struct bench_opts own = opts;
    own.cpu_time = true;
    with.o = &own;
    struct bench_report_row r = row(10, 2, 1.5, 0);
    r.placement[0].cpu_seconds = r.placement[1].cpu_seconds = 3e-6;
    struct strbuf b = {0};
    bench_report_row_text(&b, &with, &r);
    CHECK_STR(
        strbuf_str(&b),
        "           8             2     float     sum      -1     3.00    2.00    1.50       0"
        "     3.00    2.00    1.50       0\n");
    strbuf_free(&b);
    for (int nccl_tests = 0; nccl_tests < 2; nccl_tests++) {
        struct bench_report_json *j = bench_report_json_new(&with, devices, nccl_tests == 1);
        char *text = document(j, &r, 1, &(struct bench_report_summary){0, 1.5, "all_reduce", 0});
        CHECK_HAS(text, nccl_tests ? "\"cpu_time\": 3" : "\"cpu_time_us\": 3");
        CHECK_HAS(text, nccl_tests ? "\"bus_bw\": 1.5" : "\"time_us\": 10");
        bench_report_json_free(j);
        free(text);
    }
}

TEST(the_foot_is_laid_out_as_nccl_tests_lays_it_out)
{
    struct strbuf b = {0};
    bench_report_summary_text(&b, &(struct bench_report_summary){0, 92.5155, "all_reduce", 0});
    CHECK_STR(strbuf_str(&b),
              "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 92.5155 \n#\n"
              "# Collective test concluded: all_reduce_perf\n");
    strbuf_reset(&b);
    bench_report_summary_text(&b, &(struct bench_report_summary){3, 0, "alltoall", 0});
    CHECK_HAS(strbuf_str(&b), "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 0 \n");
    static const struct {
        double average;
        const char *line;
    } want[] = {{9, "bandwidth    : 9 OK\n"}, {8.99, "bandwidth    : 8.99 FAILED\n"}};
    for (size_t i = 0; i < COUNT_OF(want); i++) { /* NCCL_TESTS_MIN_BW=10 allows 10 % less */
        struct bench_report_summary f = {0, want[i].average, "all_reduce", 10};
        strbuf_reset(&b);
        bench_report_summary_text(&b, &f);
        CHECK_HAS(strbuf_str(&b), want[i].line);
        CHECK_INT(bench_report_reaches_min(&f), i == 0);
    }
    strbuf_free(&b);
}

TEST(the_json_document_holds_the_same)
{
    struct bench_report_json *j = bench_report_json_new(&head, devices, false);
    struct bench_report_row r[2] = {row(10, 2, 1.5, 4), row(10, 2, 1.5, 4)};
    r[0].placement[1].checked = r[1].placement[0].checked = false;
    char *text = document(j, r, 2, &(struct bench_report_summary){1, 1.5, "all_reduce", 0});
    bench_report_json_free(j);
    json_t *d = json_loads(text, 0, NULL);
    CHECK(d);
    CHECK_STR(json_string_value(json_object_get(d, "collective")), "all_reduce");
    CHECK_INT(json_array_size(json_object_get(d, "devices")), 2);
    CHECK_INT(json_integer_value(json_object_get(d, "wrong")), 1);
    json_t *rows = json_object_get(d, "rows"),
           *half = json_object_get(json_array_get(rows, 0), "out_of_place");
    CHECK_INT(json_array_size(rows), 2);
    CHECK_NEAR(json_real_value(json_object_get(half, "time_us")), 10, 1e-6);
    CHECK_NEAR(json_real_value(json_object_get(half, "busbw_gbps")), 1.5, 1e-9);
    CHECK_INT(json_integer_value(json_object_get(half, "wrong")), 4);
    half = json_object_get(json_array_get(rows, 0), "in_place");
    CHECK(json_is_null(json_object_get(half, "wrong")));
    CHECK_NEAR(json_real_value(json_object_get(half, "time_us")), 10, 1e-6);
    CHECK(json_is_null(
        json_object_get(json_object_get(json_array_get(rows, 1), "out_of_place"), "wrong")));
    json_decref(d);
    free(text);
}

TEST(nccl_tests_own_json_has_its_keys_and_no_secrets)
{
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("SECRET_TOKEN", "hush", 1);
    struct bench_report_json *j = bench_report_json_new(&head, devices, true);
    struct bench_report_row r = row(10, 2, 1.5, 4);
    r.placement[1].checked = false;
    char *text = document(j, &r, 1, &(struct bench_report_summary){1, 1.5, "all_reduce", 2});
    bench_report_json_free(j);
    CHECK_HAS(text, "NCCL_DEBUG=WARN");
    CHECK(!strstr(text, "hush"));
    json_t *d = json_loads(text, 0, NULL);
    CHECK_INT(json_integer_value(json_object_get(d, "nccl_version")), 22809);
    json_t *config = json_object_get(d, "config");
    CHECK_INT(json_integer_value(json_object_get(config, "step_factor")), 2);
    CHECK_STR(json_string_value(json_object_get(config, "blocking_collectives")), "false");
    CHECK_INT(json_array_size(json_object_get(config, "devices")), 2);
    json_t *first = json_array_get(json_object_get(d, "results"), 0);
    CHECK_INT(json_integer_value(json_object_get(first, "size")), 8);
    json_t *out = json_object_get(first, "out_of_place");
    CHECK_NEAR(json_real_value(json_object_get(out, "time")), 10, 1e-9);
    CHECK_NEAR(json_real_value(json_object_get(out, "bus_bw")), 1.5, 1e-9);
    CHECK_NEAR(json_real_value(json_object_get(out, "nwrong")), 4, 0);
    CHECK(json_is_null(json_object_get(json_object_get(first, "in_place"), "nwrong")));
    CHECK_STR(json_string_value(json_object_get(json_object_get(d, "out_of_bounds"), "okay")),
              "false");
    CHECK_NEAR(
        json_real_value(json_object_get(json_object_get(d, "average_bus_bandwidth"), "bandwidth")),
        1.5, 0);
    CHECK_STR(
        json_string_value(json_object_get(json_object_get(d, "average_bus_bandwidth"), "okay")),
        "false"); /* 1.5 of 2 */
    json_decref(d);
    free(text);
}

TEST(comma_separated_values_have_as_many_as_titles)
{
    static const double samples[] = {1e-6, 2e-6, 3e-6};
    struct bench_report_row r = row(10, 2, 1.5, 4);
    r.placement[0].samples = samples;
    r.placement[0].stats = stats_of(samples, 3);
    struct strbuf b = {0};
    bench_report_csv_titles(&b);
    bench_report_csv_row(&b, &r);
    int commas[3] = {0}, line = 0;
    for (const char *p = strbuf_str(&b); *p; p++) {
        line += *p == '\n';
        commas[line < 3 ? line : 2] += *p == ',';
    }
    CHECK_INT(line, 3);
    CHECK(commas[0] == commas[1] && commas[1] == commas[2]);
    CHECK_HAS(strbuf_str(&b),
              "\n8,2,float,sum,-1,0,10.0000,2,1.5,4,10.0000,10.0000,3,1.0000,2.0000,"
              "1.0000,3.0000,3.0000\n");
    strbuf_free(&b);
}

TEST(what_is_wrong_is_told_in_words)
{
    struct bench_report_row r = row(10, 2, 1.5, 4);
    struct strbuf b = {0};
    bench_report_wrong_text(&b, &r, 4);
    CHECK_STR(strbuf_str(&b), "");
    struct bench_report_placement *h = &r.placement[1];
    h->wrong_rank = 2;
    h->first_wrong.elements = 3;
    h->first_wrong.index = 1048576;
    h->first_wrong.first.expected = 10;
    h->first_wrong.first.got = 7;
    h->first_wrong.diagnosis = (struct verify_diagnosis){VERIFY_MISSING, 3, 1};
    bench_report_wrong_text(&b, &r, 4);
    CHECK_STR(strbuf_str(&b),
              "8 B float sum, in place: rank 2 of 4 has 3 wrong elements; element 1048576 is "
              "7, not 10: rank 3's contribution is missing\n");
    strbuf_reset(&b);
    h->first_wrong.elements = 0;
    h->first_wrong.canaries = 5;
    h->first_wrong.canary_bytes = 12;
    h->first_wrong.side = BUFFERS_OUT_BEGIN;
    bench_report_wrong_text(&b, &r, 4);
    CHECK_HAS(strbuf_str(&b), "rank 2: 5 bytes were written outside, the nearest 12 before the "
                              "start of the output\n");
    strbuf_free(&b);
}
