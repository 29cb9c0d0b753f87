/* test_metric_parse - reports in a program's output lines. */
#include "hpo/trial/metric_parse.h"

#include "common/json.h"
#include "tests/unit/test.h"

/* The report as text, valid until the next call. Frees the report. */
static const char *said(json_t *report)
{
    static char text[256];
    size_t len =
        report ? json_dumpb(report, text, sizeof text - 1, JSON_COMPACT | JSON_SORT_KEYS) : 0;
    text[len] = 0;
    json_decref(report);
    return len > 0 ? text : "none";
}

static const char *found(const char *pattern, const char *line)
{
    struct metric_parse *m = NULL;
    struct err e = {0};
    AUTO(json) json_t *patterns = json_pack("{s:s*}", "acc", pattern);
    if (metric_parse_new(&m, patterns, &e) < 0)
        FAIL("%s", e.text);
    json_t *r = metric_parse_from_pattern(m, line, strlen(line));
    metric_parse_free(m);
    return said(r);
}

TEST(a_pattern_finds_the_value)
{
    CHECK_STR(found("accuracy[:=] *([0-9.eE+-]+)", "epoch 1 accuracy: 0.75 loss: 2"),
              "{\"acc\":0.75}");
    CHECK_STR(found("[0-9]+$", "took 12"), "{\"acc\":12.0}");
    CHECK_STR(found("acc=(.*)", "acc=nan"), "{\"acc\":\"nan\"}");
    CHECK_STR(found("acc=(.*)", "acc=-inf"), "{\"acc\":\"-inf\"}");
    CHECK_STR(found("acc=(.*)", "acc=soon"), "none");
    CHECK_STR(found("acc=(.*)", "loss=1"), "none");
    CHECK_STR(found("(x)|acc", "acc"), "none");
    CHECK_STR(found(NULL, "acc=1"), "none");
}

TEST(patterns_of_several_metrics_make_one_report_of_a_line)
{
    AUTO(json)
    json_t *patterns = json_pack("{s:s, s:s}", "acc", "acc=([0-9.]+)", "loss", "loss=([0-9.]+)");
    AUTO(metric_parse) struct metric_parse *m = NULL;
    CHECK_INT(metric_parse_new(&m, patterns, NULL), 0);
    CHECK_STR(said(metric_parse_from_pattern(m, "loss=2 acc=0.5", 14)),
              "{\"acc\":0.5,\"loss\":2.0}");
    CHECK_STR(said(metric_parse_from_pattern(m, "loss=2 acc=0.5", 6)), "{\"loss\":2.0}");
    CHECK_STR(said(metric_parse_from_pattern(m, "nothing", 7)), "none");
}

TEST(a_pattern_that_is_none_is_refused)
{
    struct metric_parse *m = NULL;
    struct err e = {0};
    AUTO(json) json_t *bad = json_pack("{s:s, s:s}", "loss", ".", "acc", "acc=(");
    AUTO(json) json_t *number = json_pack("{s:i}", "acc", 3);
    CHECK_INT(metric_parse_new(&m, bad, &e), -EINVAL);
    CHECK_HAS(e.text, "pattern 'acc=(' of 'acc'");
    CHECK_INT(metric_parse_new(&m, number, &e), -EINVAL);
    CHECK(m == NULL);
}
