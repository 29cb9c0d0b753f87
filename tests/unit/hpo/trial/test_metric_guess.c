/* test_metric_guess - the pattern that is proposed finds the number in the line. */
#include "hpo/trial/metric_guess.h"

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/trial/metric_parse.h"
#include "tests/unit/test.h"

static void check(const char *text, const char *metric, const char *want_line, double want)
{
    AUTO(free) char *line = NULL, *pattern = NULL;
    if (!metric_guess(&line, &pattern, text, strlen(text), metric))
        FAIL("nothing is found in '%s'", text);
    CHECK_STR(line, want_line);
    AUTO(json) json_t *patterns = json_pack("{s:s}", "m", pattern);
    AUTO(metric_parse) struct metric_parse *m = NULL;
    struct err e = {0};
    if (metric_parse_new(&m, patterns, &e) < 0)
        FAIL("%s", e.text);
    AUTO(json) json_t *report = metric_parse_from_pattern(m, line, strlen(line), NULL);
    CHECK_NEAR(json_real_value(json_object_get(report, "m")), want, 0);
}

TEST(the_last_line_with_the_name_and_a_number_is_found)
{
    check("epoch 1 loss: 0.9 val_loss: 0.8\nepoch 2 loss: 0.5 val_loss: 0.4\ndone\n", "val_loss",
          "epoch 2 loss: 0.5 val_loss: 0.4", 0.4);
    check("epoch 2 val_loss: 0.4 loss: 0.5\n", "loss", "epoch 2 val_loss: 0.4 loss: 0.5", 0.5);
    check("loss = 1e-3\r\n", "loss", "loss = 1e-3", 1e-3);
    check("Test Accuracy 0.75", "accuracy", "Test Accuracy 0.75", 0.75);
    check("INFO metrics {'val/acc@1': -.5, 'n': 3}", "val/acc@1",
          "INFO metrics {'val/acc@1': -.5, 'n': 3}", -.5);
}

TEST(the_last_part_of_a_dotted_name_is_enough)
{
    check("loss: 3\n", "val.loss", "loss: 3", 3);
    check("loss: 3\nval.loss: 2\nloss: 1\n", "val.loss", "val.loss: 2", 2);
    check("train loss: 9 Val Loss: 3", "val_loss", "train loss: 9 Val Loss: 3", 3);
    check("eval loss=4", "eval/loss", "eval loss=4", 4);
}

TEST(names_without_a_number_and_parts_of_words_are_not_found)
{
    const char *const texts[] = {"",         "\n\n",       "loss",      "loss: none",
                                 "loss: 1x", "my_loss: 1", "losses: 1", "loss->1"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char *line = NULL, *pattern = NULL;
        CHECK(!metric_guess(&line, &pattern, texts[i], strlen(texts[i]), "loss"));
    }
}

TEST(the_likest_names_come_first_and_counters_last)
{
    static const struct {
        const char *metric, *names[5], *first, *second;
    } cases[] = {
        {"accuracy",
         {"epoch", "lr", "grad", "validation/accuracy", "loss"},
         "validation/accuracy",
         "lr"},
        {"val_loss", {"lr", "loss", "eval/val_loss", "val_lass"}, "eval/val_loss", "loss"},
        {"val_loss", {"eval_loss", "Val/Loss", "epoch"}, "Val/Loss", "eval_loss"},
        {"val_acc", {"step", "acc", "metrics.val_acc"}, "metrics.val_acc", "acc"},
        {"Loss", {"loss_scale", "train/loss"}, "train/loss", "loss_scale"},
        {"Accuracy", {"epoch", "validation/accuracy"}, "validation/accuracy", "epoch"},
        {"acuracy", {"epoch", "loss", "eval:accuracy"}, "eval:accuracy", "loss"},
        {"epochs/", {"a/", "loss", "epoch"}, "epoch", "a/"},
        {"reward", {"step", "train/epoch", "b", "a"}, "b", "a"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *names[5];
        size_t n = 0;
        while (n < 5 && cases[i].names[n]) {
            names[n] = cases[i].names[n];
            n++;
        }
        metric_guess_nearest(names, n, 3, cases[i].metric);
        CHECK_STR(names[0], cases[i].first);
        CHECK_STR(names[1], cases[i].second);
    }
    metric_guess_nearest(NULL, 0, 3, "loss");
}

TEST(a_number_in_quotes_is_told)
{
    const char *const texts[] = {"{'loss': 0.5}", "{\"loss\": \"0.5\"}", "{'loss': '0.5'}"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(free) char *line = NULL, *pattern = NULL;
        CHECK(metric_guess(&line, &pattern, texts[i], strlen(texts[i]), "loss"));
        CHECK_INT(metric_guess_is_quoted(pattern), i > 0);
    }
}

TEST(no_pattern_is_proposed_that_would_not_be_accepted)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, "loss");
    for (int i = 0; i < 1100; i++)
        strbuf_putc(&b, '\'');
    strbuf_puts(&b, ": 0.5\n");
    char *line = NULL, *pattern = NULL;
    CHECK(!metric_guess(&line, &pattern, strbuf_str(&b), b.len, "loss"));
    check("loss                                                              : 3\n", "loss",
          "loss                                                              : 3", 3);
}

TEST(no_pattern_is_proposed_that_would_not_find_the_number)
{
    static const char *const lines[] = {"loss 0.5.",   "loss: 1.2.3", "loss: 1e3090.5",
                                        "loss: 1e999", "loss: 0x10",  "loss: 3-4"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        AUTO(free) char *line = NULL, *pattern = NULL;
        if (metric_guess(&line, &pattern, lines[i], strlen(lines[i]), "loss"))
            FAIL("%s: %s", lines[i], pattern);
    }
}
