/* test_metric_parse - reports in a program's output lines. */
#include "hpo/trial/metric_parse.h"

#include <malloc.h>
#include <time.h>

#include "common/json.h"
#include "common/strbuf.h"
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
    json_t *r = metric_parse_from_pattern(m, line, strlen(line), NULL);
    metric_parse_free(m);
    return said(r);
}

TEST(a_pattern_finds_the_value)
{
    CHECK_STR(found("accuracy[:=] *([0-9.eE+-]+)", "epoch 1 accuracy: 0.75 loss: 2"),
              "{\"acc\":0.75}");
    CHECK_STR(found("[0-9]+$", "took 12"), "{\"acc\":12.0}");
    CHECK_STR(found("Acc: [0-9.]+", "Acc: 0.25, loss 3"), "{\"acc\":0.25}");
    CHECK_STR(found("acc=[0-9.]+ *", "acc=0.25  "), "{\"acc\":0.25}");
    CHECK_STR(found("acc=[a-z]+", "acc=soon"), "none");
    CHECK_STR(found("acc=(.*)", "acc=nan"), "{\"acc\":\"nan\"}");
    CHECK_STR(found("acc=(.*)", "acc=-inf"), "{\"acc\":\"-inf\"}");
    CHECK_STR(found("acc=(.*)", "acc=soon"), "none");
    CHECK_STR(found("acc=(.*)", "loss=1"), "none");
    CHECK_STR(found("(x.)|acc", "acc"), "none");
    CHECK_STR(found(NULL, "acc=1"), "none");
}

TEST(patterns_of_several_metrics_make_one_report_of_a_line)
{
    AUTO(json)
    json_t *patterns = json_pack("{s:s, s:s}", "acc", "acc=([0-9.]+)", "loss", "loss=([0-9.]+)");
    AUTO(metric_parse) struct metric_parse *m = NULL;
    CHECK_INT(metric_parse_new(&m, patterns, NULL), 0);
    CHECK_STR(said(metric_parse_from_pattern(m, "loss=2 acc=0.5", 14, NULL)),
              "{\"acc\":0.5,\"loss\":2.0}");
    CHECK_STR(said(metric_parse_from_pattern(m, "loss=2 acc=0.5", 6, NULL)), "{\"loss\":2.0}");
    CHECK_STR(said(metric_parse_from_pattern(m, "nothing", 7, NULL)), "none");
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

/* What Python's users write. */
TEST(a_pattern_means_what_it_means_in_python)
{
    CHECK_STR(found("acc: (\\d+\\.\\d+)", "acc: 0.75"), "{\"acc\":0.75}");
    CHECK_STR(found("(?:test|val)_acc\\s*=\\s*(\\S+)", "val_acc = 0.75"), "{\"acc\":0.75}");
    CHECK_STR(found("acc .*?([\\d.]+)", "acc of 3: 1.5 2.5"), "{\"acc\":3.0}");
    CHECK_STR(found("(?P<value>[\\d.]+) %", "acc 71.5 %"), "{\"acc\":71.5}");
    CHECK_STR(found("(?i)ACC\\b\\D*([\\d.]+)", "Acc: 0.5"), "{\"acc\":0.5}");
    CHECK_STR(found("(?<!train )acc=(\\d+)", "train acc=1 acc=2"), "{\"acc\":2.0}");
    CHECK_STR(found("(a.|ab)c? ([0-9]+)|x=([0-9]+)", "abc 1"), "none");
    CHECK_STR(found("(['\"])acc\\1", "'acc': 5"), "none");
    CHECK_STR(found("[äö]=(\\d)", "ö=3"), "{\"acc\":3.0}");
}

TEST(a_line_may_have_any_bytes)
{
    CHECK_STR(found("acc=(\\d)", "\xff\xc3 acc=3 \xe2\x82"), "{\"acc\":3.0}");
    AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", "acc=(\\d)");
    AUTO(metric_parse) struct metric_parse *m = NULL;
    CHECK_INT(metric_parse_new(&m, patterns, NULL), 0);
    CHECK_STR(said(metric_parse_from_pattern(m, "a\0acc=4", 7, NULL)), "{\"acc\":4.0}");
    AUTO(free) char *longer = xasprintf("%01020d acc=5", 0);
    CHECK_STR(said(metric_parse_from_pattern(m, longer, strlen(longer), NULL)), "none");
    CHECK_STR(said(metric_parse_from_pattern(m, longer + 2, strlen(longer) - 2, NULL)),
              "{\"acc\":5.0}");
}

/* Why the pattern is refused; "": it is accepted. */
static const char *refusal(const char *pattern)
{
    static struct err e;
    e = (struct err){0};
    AUTO(metric_parse) struct metric_parse *m = NULL;
    AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", pattern);
    int rc = metric_parse_new(&m, patterns, &e);
    rc = rc < 0 ? rc : metric_parse_check(m, &e);
    CHECK_INT(rc, e.text[0] ? -EINVAL : 0);
    return e.text;
}

TEST(a_pattern_that_can_give_no_number_is_refused)
{
    static const char *const refused[] = {"",  "^$", "acc", "(acc) ", "acc: *", "^(acc)=([0-9]+)",
                                          "()"};
    static const char *const accepted[] = {"(nan|Inf)",       "acc: (?=x)",   "acc.",
                                           "acc=1",           "(?:acc) (.*)", "[(]acc (\\d)",
                                           "\\(acc\\) (\\d)", "(?i)acc=(\\d)"};
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        CHECK_HAS(refusal(refused[i]),
                  "can give no number; a group finds one: acc: *([-+.0-9eE]+)");
    for (size_t i = 0; i < COUNT_OF(accepted); i++)
        CHECK_STR(refusal(accepted[i]), "");
}

TEST(a_pattern_that_gave_no_number_is_told)
{
    AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", "acc=(.*)");
    AUTO(metric_parse) struct metric_parse *m = NULL;
    CHECK_INT(metric_parse_new(&m, patterns, NULL), 0);
    CHECK(metric_parse_vain(NULL) == NULL && metric_parse_vain(m) == NULL);
    CHECK_STR(said(metric_parse_from_pattern(m, "acc=soon", 8, NULL)), "none");
    AUTO(free) char *vain = metric_parse_vain(m);
    CHECK_STR(vain, "the pattern of 'acc' matched 1 line and gave no number");
    CHECK_STR(said(metric_parse_from_pattern(m, "acc=3", 5, NULL)), "{\"acc\":3.0}");
    CHECK(metric_parse_vain(m) == NULL);
}

TEST(a_pattern_that_is_too_large_is_refused)
{
    AUTO(free) char *deep = xcalloc(1002, 1), *longer = xasprintf("%01025d", 0);
    memset(deep, '(', 500);
    memset(deep + 500, ')', 500);
    CHECK_HAS(refusal(deep), "nested");
    CHECK_HAS(refusal(longer), "longer than");
    CHECK_HAS(refusal("((((a{500}){500}){500}){500})"), "too large");
    CHECK_HAS(refusal("a{70000}"), "too big");
    CHECK_STR(refusal(longer + 1), "");
}

/* A search that takes too many steps ends, is said once, and has no value. */
TEST(a_search_has_limits)
{
    static const char *const costly[] = {"(a|aa|0)+$",          "(a+|0)+$",
                                         "(a*|0)*b(c)",         "(?:a|a)*?[^a]x",
                                         "(a|b|0)*a(a|b){47}c", "(?:(?=(a+))a*)*b\\1",
                                         "(a(?1)?a?)*b"};
    AUTO(free) char *line = xcalloc(1024, 1);
    int said_once = 0;
    for (size_t i = 0; i < COUNT_OF(costly); i++) {
        AUTO(metric_parse) struct metric_parse *m = NULL;
        AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", costly[i]);
        struct err e = {0}, again = {0};
        memset(line, 'a', 1023);
        line[1022] = 'x';
        CHECK_INT(metric_parse_new(&m, patterns, &e), 0);
        struct mallinfo2 before = mallinfo2();
        clock_t begin = clock();
        CHECK_STR(said(metric_parse_from_pattern(m, line, 1023, &e)), "none");
        CHECK(clock() - begin < 2 * CLOCKS_PER_SEC);
        CHECK(mallinfo2().uordblks - before.uordblks < (17u << 20));
        if (e.code)
            CHECK_HAS(e.text, "limit");
        said_once += e.code != 0;
        CHECK_STR(said(metric_parse_from_pattern(m, line, 1023, &again)), "none");
        CHECK_INT(again.code, 0);
    }
    CHECK(said_once >= 3); /* PCRE2 may know how to end the others early */
}
