/* test_metric_parse - reports in a program's output lines. */
#include "hpo/trial/metric_parse.h"

#include <malloc.h>

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

/* Why the pattern is refused; "": it is accepted. */
static const char *refusal(const char *pattern)
{
    static struct err e;
    e = (struct err){0};
    AUTO(metric_parse) struct metric_parse *m = NULL;
    AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", pattern);
    CHECK_INT(metric_parse_new(&m, patterns, &e), e.text[0] ? -EINVAL : 0);
    return e.text;
}

TEST(a_pattern_that_could_cost_too_much_is_refused)
{
    AUTO(strbuf) struct strbuf deep = {0}, wide = {0};
    for (int i = 0; i < 100000; i++)
        strbuf_putc(&deep, '(');
    CHECK_HAS(refusal(strbuf_str(&deep)), "longer than 1024 bytes");
    CHECK_HAS(refusal("(((((((((((((((((x)))))))))))))))))"), "16 nested groups");
    CHECK_HAS(refusal("(a)\\1"), "back-references");
    CHECK_HAS(refusal("(a{1,200}){1,200}"), "100 characters");
    CHECK_HAS(refusal("(a{1,11}){1,10}"), "100 characters");
    CHECK_HAS(refusal("((a|b){5}c){10}"), "100 characters");
    CHECK_HAS(refusal("(abc{0,2})*{40}"), "100 characters");
    CHECK_HAS(refusal("(((){100}){100}){100}"), "100 characters");
    CHECK_HAS(refusal("a{30000}"), "100 characters");
    AUTO(free) char *many = xasprintf("a%0500d", 0);
    memset(many + 1, '?', 500);
    CHECK_HAS(refusal(many), "100 characters");
    CHECK_HAS(refusal("a{51,}b{50}"), "100 characters");
    CHECK_HAS(refusal("a++++++++++++++++++++++++++++++++"), "100 characters");
    CHECK_HAS(refusal("(((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+"), "100 characters");
    for (int i = 0; i < 101; i++)
        strbuf_putc(&wide, '.');
    CHECK_HAS(refusal(strbuf_str(&wide)), "100 characters");
}

/* regcomp() takes more than 10 s for some of these. */
TEST(no_part_that_can_be_empty_is_repeated_without_end)
{
    static const char *const bad[] = {
        "^.*(l?????+???+????+???+())",
        "l*+*+*+*+*+",
        "((((((()+)+)+)+)+)+)+",
        "(a*)*",
        "(a*b?)+",
        "(a|b*|c)*",
        "(ab|)+",
        "(a{0,3}){2,}",
        "(^|$)*",
        "(\\b)+",
        "*",
    };
    static const char *const good[] = {"l.*?([0-9]+)", "(a*b)+",     "(a|bc*)*",
                                       "(a?){2,3}",    "((a|b)c?)+", "(\\b[a-z]+)+"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_HAS(refusal(bad[i]), "can be empty");
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK_STR(refusal(good[i]), "");
}

TEST(an_ordinary_pattern_is_accepted)
{
    CHECK_STR(refusal("((((((((((((((((x))))))))))))))))"), "");
    CHECK_STR(refusal("[]^a(\\1{200}[:digit:]] *loss\\{\\(\\) ([0-9]{1,3}(\\.[0-9]{2,})?)"), "");
    CHECK_STR(refusal("(a{1,10}){1,10}"), "");
    CHECK_STR(refusal("^val(idation)?[ _-]loss( after epoch [0-9]+/[0-9]+)?[:=] *([0-9.eE+-]+)$"),
              "");
}

/* Each line makes the matcher keep other sets of places: these lines would keep
 * some 240 MB. */
TEST(the_search_of_many_lines_keeps_little_memory)
{
    AUTO(metric_parse) struct metric_parse *m = NULL;
    AUTO(json) json_t *patterns = json_pack("{s:s}", "acc", "(a|b)*a(a|b){47}");
    CHECK_INT(metric_parse_new(&m, patterns, NULL), 0);
    struct mallinfo2 before = mallinfo2();
    unsigned short rng[3] = {1, 2, 3};
    char line[1024];
    for (int n = 0; n < 60; n++) {
        for (size_t i = 0; i < sizeof line; i++)
            line[i] = nrand48(rng) % 2 ? 'a' : 'b';
        CHECK_STR(said(metric_parse_from_pattern(m, line, sizeof line)), "none");
    }
    CHECK(mallinfo2().uordblks - before.uordblks < (120u << 20));
}
