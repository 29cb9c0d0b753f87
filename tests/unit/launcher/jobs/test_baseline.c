/* test_baseline - names, comparisons, and the line that reports one. */
#include "launcher/jobs/baseline.h"

#include "tests/unit/test.h"

#define RATE(mean, deviation, n) .unit = (char *)"tokens/s", .rate = {mean, deviation, n}
#define HARDWARE .name = (char *)"train", .hardware = (char *)"8 ranks on 1 x X"

TEST(names_are_words)
{
    static const char *const good[] = {
        "a", "train", "gpt-2.small_8", "0",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const bad[] = {
        "",
        "a b",
        "a/b",
        "\xc3\xa9",
        "a\n",
        "'",
        "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK_INT(baseline_check_name(good[i], NULL), 0);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK_INT(baseline_check_name(bad[i], &e), -EINVAL);
        CHECK_HAS(e.text, "invalid baseline name");
    }
}

TEST(a_line_says_what_was_found)
{
    static const struct {
        struct baseline now, stored; /* without a name: there is no stored one */
        bool elsewhere;
        enum baseline_fate fate;
        const char *line;
    } cases[] = {
        {{HARDWARE, RATE(12800, 40, 20), .step_s = 0.0821, .cpu = 0.934, .gpu = 0.871},
         {0},
         false,
         BASELINE_STORED,
         "baseline train: 12,800 tokens/s, 82.1 ms per step, CPU 93 %, GPU 87 %, 8 ranks on 1 x X, "
         "stored\n"},
        {{HARDWARE, RATE(12800, 40, 20), .cpu = -1, .gpu = -1},
         {0},
         true,
         BASELINE_STORED,
         "baseline train: 12,800 tokens/s, 8 ranks on 1 x X, no baseline on this hardware, "
         "stored\n"},
        {{HARDWARE, RATE(12400, 100, 20), .cpu = -1, .gpu = -1},
         {HARDWARE, RATE(12800, 100, 20)},
         true,
         BASELINE_COMPARED,
         "baseline train: 12,400 tokens/s, 3.1 % below the stored 12,800 (95 % interval -3.6 to "
         "-2.6 %), 8 ranks on 1 x X\n"},
        {{HARDWARE, RATE(1234567, 100, 20), .cpu = -1, .gpu = -1},
         {HARDWARE, RATE(1000000, 100, 20)},
         true,
         BASELINE_REPLACED,
         "baseline train: 1,234,567 tokens/s, 23.5 % above the stored 1,000,000 (95 % interval "
         "23.5 to 23.5 %), 8 ranks on 1 x X, replaced the stored one\n"},
        {{HARDWARE, RATE(99, 10, 5), .step_s = 2, .cpu = -1, .gpu = -1},
         {HARDWARE, RATE(100, 10, 5)},
         true,
         BASELINE_COMPARED,
         "baseline train: 99 tokens/s, no difference found from the stored 100 (95 % interval "
         "-15.6 "
         "to 13.6 %), 2 s per step, 8 ranks on 1 x X\n"},
        {{HARDWARE, RATE(50, 0, 1), .cpu = -1, .gpu = -1},
         {HARDWARE, RATE(100, 10, 5)},
         true,
         BASELINE_COMPARED,
         "baseline train: 50 tokens/s, 50.0 % below the stored 100 (too few reports for an "
         "interval), 8 ranks on 1 x X\n"},
        {{HARDWARE, .unit = (char *)"steps/s", .rate = {5, 1, 9}, .cpu = -1, .gpu = -1},
         {HARDWARE, RATE(100, 10, 5)},
         true,
         BASELINE_COMPARED,
         "baseline train: 5 steps/s, not compared: the stored one has another unit, tokens/s, 8 "
         "ranks on 1 x X\n"},
        {{HARDWARE, .unit = (char *)"", .seconds = 12.5, .cpu = -1, .gpu = -1},
         {HARDWARE, .unit = (char *)"", .seconds = 10},
         true,
         BASELINE_COMPARED,
         "baseline train: rank 0 reported no steps, the job took 12.5 s, 25.0 % above the stored "
         "10 "
         "s (one run each), 8 ranks on 1 x X\n"},
        {{HARDWARE, RATE(100, 10, 5), .cpu = -1, .gpu = -1},
         {HARDWARE, .unit = (char *)"", .seconds = 10},
         true,
         BASELINE_COMPARED,
         "baseline train: 100 tokens/s, not compared: the stored one has no steps, 8 ranks on 1 x "
         "X\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        const struct baseline *stored = cases[i].stored.name ? &cases[i].stored : NULL;
        baseline_describe(&b, &cases[i].now, stored, cases[i].elsewhere, cases[i].fate);
        CHECK_STR(strbuf_str(&b), cases[i].line);
    }
}

TEST(json_has_null_for_what_is_unknown)
{
    const struct baseline now = {HARDWARE, .unit = (char *)"", .cpu = -1, .gpu = -1,
                                 .seconds = 1.5};
    AUTO(json) json_t *j = baseline_event(&now, NULL, BASELINE_STORED);
    AUTO(free) char *line = json_line(j);
    CHECK_STR(
        line,
        "{\"result\":\"stored\",\"now\":{\"name\":\"train\",\"hardware\":\"8 ranks on 1 x X\","
        "\"unit\":null,\"throughput\":null,\"deviation\":null,\"blocks\":0,\"step_s\":null,"
        "\"cpu\":null,\"gpu\":null,\"seconds\":1.5,\"stored_ms\":null},\"stored\":null,\"change\":"
        "null,"
        "\"low\":null,\"high\":null}");
}
