/* test_failed_gpu - what a failure report says about the GPU of the rank. */
#include "launcher/watch/failed_gpu.h"

#include "tests/unit/test.h"

static const double gib = 1 << 30;

static struct job_usage_gpu unknown(void)
{
    return (struct job_usage_gpu){.uuid = "GPU-aa",
                                  .name = "NVIDIA H100",
                                  .peak_bytes = -1,
                                  .total_bytes = -1,
                                  .throttled_share = -1,
                                  .hot_share = -1,
                                  .ecc_errors = -1};
}

static void check(const struct job_usage_gpu *g, const char *expected)
{
    AUTO(strbuf) struct strbuf b = {0};
    const struct failed_gpu f = {.index = 3, .gpu = g, .epoch_s = 1000000000, .zone_s = 3600};
    failed_gpu_write(&b, &f);
    CHECK_STR(strbuf_str(&b), expected);
}

TEST(the_line_has_errors_throttling_and_memory)
{
    struct job_usage_gpu g = unknown();
    g.xids[g.xid_count++] = (struct job_usage_xid){79, 37.5}; /* 01:46:40 UTC plus 37 s */
    g.xids[g.xid_count++] = (struct job_usage_xid){45, 38.0};
    g.xids[g.xid_count++] = (struct job_usage_xid){999, 39.0};
    g.ecc_errors = 2;
    g.throttled_share = 0.4;
    g.hot_share = 0.1;
    g.peak_bytes = (int64_t)(78.2 * gib);
    g.total_bytes = (int64_t)(79.65 * gib);
    check(&g,
          "  GPU 3 (NVIDIA H100): Xid 79 at 02:47:17: the GPU has fallen off the bus, restart the "
          "machine; Xid 45 at 02:47:18: a program was ended, often after another error; Xid 999 at "
          "02:47:19: see NVIDIA's catalogue of Xid errors; 2 new uncorrected ECC errors; "
          "throttled 40 % of the time (hot); memory peak 78.2 of 80 GiB\n");
}

TEST(the_line_leaves_out_what_is_unknown_or_did_not_happen)
{
    struct job_usage_gpu g = unknown();
    check(&g, "");
    g.ecc_errors = 0;
    g.throttled_share = g.hot_share = 0;
    check(&g, "");
    g.throttled_share = 1;
    check(&g, "  GPU 3 (NVIDIA H100): throttled 100 % of the time (too little power)\n");
    g.throttled_share = 0;
    g.ecc_errors = 1;
    check(&g, "  GPU 3 (NVIDIA H100): 1 new uncorrected ECC error\n");
    g.ecc_errors = 0;
    g.peak_bytes = (int64_t)gib;
    g.total_bytes = (int64_t)(80 * gib);
    g.peak_of_all = true;
    check(&g, "  GPU 3 (NVIDIA H100): memory peak 1.0 of 80 GiB (of all processes)\n");
}

TEST(the_event_has_the_same_without_unknown_figures)
{
    struct job_usage_gpu g = unknown();
    const struct failed_gpu f = {.index = 3, .gpu = &g, .epoch_s = 1000000000};
    g.ecc_errors = 0;
    g.xids[g.xid_count++] = (struct job_usage_xid){48, 37.5};
    AUTO(json) json_t *o = failed_gpu_json(&f);
    AUTO(free) char *text = json_line(o);
    CHECK_STR(text,
              "{\"gpu\":3,\"uuid\":\"GPU-aa\",\"name\":\"NVIDIA H100\",\"xids\":[{\"code\":48,"
              "\"ms\":1000000037500,\"meaning\":\"uncorrectable memory error\"}],"
              "\"ecc_errors\":0}");
}
