/* test_progress_text - a sweep's state as text for people. */
#include "hpo/coordinator/progress_text.h"

#include "common/json.h"
#include "common/mem.h"
#include "hpo/spec/spec.h"
#include "tests/unit/test.h"

static json_t *trial(int id, const char *state, const char *params, json_t *value)
{
    json_t *t = json_pack("{s:i,s:s,s:o,s:o,s:f}", "id", id, "state", state, "params",
                          json_loads(params, 0, NULL), "value", value, "seconds", 3.25);
    CHECK(t != NULL);
    return t;
}

/* Compares the text, and empties it. */
#define CHECK_TEXT(b, want)              \
    do {                                 \
        CHECK_STR(strbuf_str(&b), want); \
        strbuf_reset(&b);                \
    } while (0)

TEST(counts_of_zero_are_omitted)
{
    AUTO(strbuf) struct strbuf b = {0};
    struct scheduler_counts c = {.done = 9, .pruned = 2, .oom = 1, .running = 2, .stopping = 1};
    c.total_wanted = 40;
    progress_text_counts(&b, &c);
    CHECK_TEXT(b, "12 of 40 trials: 9 done, 2 pruned, 1 out of memory, 3 running");
    c = (struct scheduler_counts){.done = 1, .total_wanted = -1};
    progress_text_counts(&b, &c);
    CHECK_TEXT(b, "1 trial: 1 done");
    c = (struct scheduler_counts){.total_wanted = 4};
    progress_text_counts(&b, &c);
    CHECK_TEXT(b, "0 of 4 trials");
}

TEST(an_ended_trial_is_one_line)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *t =
        trial(17, "done", "{\"lr\":0.1,\"act\":\"relu\",\"n\":3,\"amp\":true}", json_real(0.41));
    progress_text_ended(&b, t, "loss", true);
    CHECK_TEXT(b, "trial 17  done  loss 0.41  lr=0.1 act=relu n=3 amp=true  3.2 s  best so far\n");
    json_decref(t);
    t = trial(3, "failed", "{\"o\":{\"lr\":0.5}}", json_null());
    json_object_set_new(t, "error", json_string("exit 1:\nno such file"));
    json_object_set_new(t, "seconds", json_real(3725));
    progress_text_ended(&b, t, "loss", false);
    CHECK_TEXT(b, "trial 3  failed  o={\"lr\": 0.5}  1 h 02 min  (exit 1:\\nno such file)\n");
    json_decref(t);
}

static void add_fault(struct strbuf *b, const char *state, int failures)
{
    AUTO(json)
    json_t *fault = json_pack("{s:s,s:s,s:i,s:i}", "state", state, "error", "disk\nfull",
                              "failures", failures, "due_ms", 3500);
    progress_text_fault(b, "w1", "c03", fault, 1000);
}

TEST(a_worker_that_cannot_run_trials_is_one_line_with_the_cause_and_the_time)
{
    AUTO(strbuf) struct strbuf b = {0};
    add_fault(&b, "backing off", 1);
    CHECK_TEXT(b, "worker w1 on c03 cannot run trials: disk\\nfull; it gets none for 2.5 s");
    add_fault(&b, "excluded", 3);
    CHECK_TEXT(b, "worker w1 on c03 cannot run trials: disk\\nfull; it gets none until a self-test "
                  "passes, the next in 2.5 s");
    add_fault(&b, "suspect", 3);
    CHECK_TEXT(b, "worker w1 on c03 has passed its self-test: it gets trials again");
    add_fault(&b, "good", 0);
    CHECK_TEXT(b, "worker w1 on c03 runs trials again");
    add_fault(&b, "suspect", 1);
    add_fault(&b, "testing", 3);
    CHECK_TEXT(b, "");
}

TEST(awaited_workers_are_one_line)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *list = json_array();
    progress_text_awaited(&b, list, 1000);
    CHECK_TEXT(b, "");
    for (int i = 0; i < 7; i++)
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:i}", "id", "w", "node", "c03", "lost_ms", 61000));
    progress_text_awaited(&b, list, 1000);
    CHECK_TEXT(b,
               "waiting for workers of an earlier coordinator: w on c03, w on c03, w on c03, w on "
               "c03, w on c03, and 2 more; their trials are requeued in 1 min 00 s");
}

TEST(the_table_has_the_best_trial_first_and_a_column_per_parameter)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *list = json_array();
    json_array_append_new(list, trial(0, "failed", "{\"lr\":0.5}", json_null()));
    json_array_append_new(list, trial(1, "done", "{\"lr\":0.25,\"act\":\"relu\"}", json_real(2)));
    json_array_append_new(list, trial(2, "pruned", "{\"lr\":1e-5,\"act\":\"t\"}", json_real(-1)));
    static const struct spec least = {.metrics = {{.name = "loss"}}, .metric_count = 1};
    static const struct spec most = {.metrics = {{.maximize = true}}};
    progress_text_table(&b, list, &least, NULL, NULL, 20);
    CHECK_TEXT(b, "rank  trial  state   value  lr     act\n"
                  "   1      2  pruned     -1  1e-05  t\n"
                  "   2      1  done        2  0.25   relu\n"
                  "   3      0  failed      -  0.5    \n");
    progress_text_table(&b, list, &most, NULL, NULL, 1);
    CHECK_TEXT(b, "rank  trial  state  value  lr    act\n"
                  "   1      1  done       2  0.25  relu\n");
    json_decref(list);
    list = json_array();
    progress_text_table(&b, list, &most, NULL, NULL, 5);
    CHECK_TEXT(b, "rank  trial  state  value\n");
    json_decref(list);
}

TEST(a_failed_trial_ranks_after_those_with_a_result)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *list = json_array();
    json_array_append_new(list, trial(0, "failed", "{}", json_real(-9)));
    json_array_append_new(list, trial(1, "done", "{}", json_real(2)));
    json_array_append_new(list, trial(2, "running", "{}", json_null()));
    static const struct spec least = {.metrics = {{.name = "loss"}}, .metric_count = 1};
    progress_text_table(&b, list, &least, NULL, NULL, 20);
    CHECK_TEXT(b, "rank  trial  state    value\n"
                  "   1      1  done         2\n"
                  "   2      2  running      -\n"
                  "   3      0  failed      -9\n");
}

TEST(a_parameter_that_never_varies_has_the_last_column)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *list = json_array();
    static const struct spec least = {.metrics = {{.name = "loss"}}, .metric_count = 1};
    json_array_append_new(list, trial(0, "done", "{\"a\":1,\"b\":2,\"c\":3}", json_real(2)));
    json_array_append_new(list, trial(1, "done", "{\"a\":1,\"b\":2.5}", json_real(3)));
    progress_text_table(&b, list, &least, NULL, NULL, 20);
    CHECK_TEXT(b, "rank  trial  state  value  b    c  a\n"
                  "   1      0  done       2  2    3  1\n"
                  "   2      1  done       3  2.5     1\n");
}

TEST(a_failed_trial_has_its_reason_and_its_output_below_it)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *list = json_array();
    json_t *t = trial(7, "failed", "{}", json_null());
    json_object_set_new(t, "error", json_string("exit status 3: \x1b[1mboom"));
    json_array_append(list, t);
    static const struct spec least = {.metrics = {{.name = "loss"}}, .metric_count = 1};
    progress_text_table(&b, list, &least, NULL, "/w/s", 20); /* it has not run: no output */
    CHECK_TEXT(b, "rank  trial  state   value\n"
                  "   1      7  failed      -\n"
                  "             exit status 3: \\x1b[1mboom\n");
    json_object_set_new(t, "lease", json_integer(9));
    progress_text_table(&b, list, &least, NULL, "/w/s", 20);
    CHECK_HAS(strbuf_str(&b),
              "             exit status 3: \\x1b[1mboom; output: /w/s/trials/000007/9\n");
    json_decref(t);
}

TEST(a_reason_that_several_trials_have_stands_once)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *list = json_array();
    static const char *const errors[] = {"no file", "boom", "no file", "no file"};
    for (int i = 0; i < 4; i++) {
        json_t *t = trial(i, "failed", "{}", json_null());
        json_object_set_new(t, "error", json_string(errors[i]));
        json_array_append_new(list, t);
    }
    static const struct spec least = {.metrics = {{.name = "loss"}}, .metric_count = 1};
    progress_text_table(&b, list, &least, NULL, "/w/s", 20);
    CHECK_TEXT(b, "rank  trial  state   value\n"
                  "   1      0  failed      -\n"
                  "             3 trials: no file\n"
                  "   2      1  failed      -\n"
                  "             boom\n"
                  "   3      2  failed      -\n"
                  "   4      3  failed      -\n");
}

TEST(with_several_objectives_each_has_a_column_and_the_front_is_first_with_stars)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *list = json_array();
    static const char *const metrics[] = {"{\"loss\":2,\"size\":1.5}", "{\"loss\":3,\"size\":4}",
                                          "{\"loss\":1,\"size\":3}", "{}"};
    for (int i = 0; i < 4; i++) {
        json_t *m = json_loads(metrics[i], 0, NULL), *v = json_object_get(m, "loss");
        json_t *t = trial(i, "done", "{\"size\":\"s\"}", v ? json_incref(v) : json_null());
        json_object_set_new(t, "metrics", m);
        json_array_append_new(list, t);
    }
    static const struct spec two = {.metrics = {{.name = "loss"}, {.name = "size"}},
                                    .metric_count = 2};
    json_t *front = json_pack("[i,i]", 2, 0);
    progress_text_table(&b, list, &two, front, NULL, 20);
    CHECK_TEXT(b, "rank  trial  state  loss  size  size\n"
                  "   *      2  done      1     3  s\n"
                  "   *      0  done      2   1.5  s\n"
                  "   3      1  done      3     4  s\n"
                  "   4      3  done      -     -  s\n"
                  "* no other trial is better in one objective and at least equal in all others\n");
    json_decref(front);
    json_decref(list);
}

TEST(importances_are_one_line_without_values_that_round_to_0)
{
    AUTO(strbuf) struct strbuf b = {0};
    json_t *j = json_pack("{s:f,s:f,s:f}", "lr", 0.7061, "width", 0.2897, "act", 0.0042);
    progress_text_importance(&b, j);
    CHECK_TEXT(b, "importance  lr 0.71  width 0.29\n");
    json_decref(j);
    strbuf_reset(&b);
    j = json_pack("{s:f,s:f}", "lr", 0.0, "width", 0.0); /* of equal values */
    progress_text_importance(&b, j);
    CHECK_TEXT(b, "importance  no parameter decides\n");
    json_decref(j);
}

TEST(words_are_quoted_for_a_shell)
{
    AUTO(strbuf) struct strbuf b = {0};
    progress_text_shell(&b,
                        (char *[]){"python3", "a b", "--lr=0.1", "it's", "", "{\"a\":1}", NULL});
    CHECK_TEXT(b, "python3 'a b' --lr=0.1 'it'\\''s' '' '{\"a\":1}'");
}

TEST(the_help_with_a_metric_can_be_pasted)
{
    AUTO(strbuf) struct strbuf b = {0};
    struct spec_metric metric = {.name = (char *)"val loss"};
    struct progress_text_metric m = {.metric = &metric,
                                     .line = "it's val loss: 0.5",
                                     .pattern = "it's val loss:[ \t]*([0-9.]+)"};
    progress_text_metric_help(&b, &m);
    CHECK_HAS(strbuf_str(&b), "    it's val loss: 0.5\n");
    CHECK_HAS(strbuf_str(&b),
              "    metric: {name: 'val loss', pattern: 'it''s val loss:[ \t]*([0-9.]+)'}");
    strbuf_reset(&b);
    metric.name = (char *)"loss";
    m = (struct progress_text_metric){.metric = &metric};
    progress_text_metric_help(&b, &m);
    CHECK_STR(strbuf_str(&b),
              "a trial reports 'loss' in one of three ways:\n"
              "    metric: {name: 'loss', pattern: 'loss: *([-+.0-9eE]+)'}    in the "
              "sweep file\n"
              "    print(json.dumps({\"loss\": value}))    in the program\n"
              "    drover.report({\"loss\": value})    in the program, after import "
              "drover\n");
}

TEST(the_help_with_a_metric_keeps_what_the_sweep_file_says_of_it)
{
    AUTO(json) json_t *others = json_pack("{s:f, s:f}", "accuracy", 0.5, "val/acc", 0.4);
    AUTO(strbuf) struct strbuf b = {0};
    const struct spec_metric metric = {
        .name = (char *)"acc", .maximize = true, .has_target = true, .target = 0.5};
    struct progress_text_metric m = {.metric = &metric, .line = "acc=1", .pattern = "^acc=(.*)"};
    progress_text_metric_help(&b, &m);
    CHECK_HAS(strbuf_str(&b), "    metric: {name: 'acc', goal: maximize, target: 0.5, pattern: "
                              "'^acc=(.*)'}    in the sweep file\n");
    m.listed = true;
    strbuf_reset(&b);
    progress_text_metric_help(&b, &m);
    CHECK_HAS(strbuf_str(&b), "    - {name: 'acc', goal: maximize, target: 0.5, pattern: "
                              "'^acc=(.*)'}    in `metrics` of the sweep file\n");
    m = (struct progress_text_metric){.metric = &metric, .others = others};
    strbuf_reset(&b);
    progress_text_metric_help(&b, &m);
    CHECK_HAS(strbuf_str(&b), "    metric: {name: 'accuracy', goal: maximize, target: 0.5}    in");
    CHECK_HAS(strbuf_str(&b), "    metric: {name: 'val/acc', goal: maximize, target: 0.5}    in");
    CHECK(!strstr(strbuf_str(&b), "pattern"));
    m = (struct progress_text_metric){
        .metric = &metric, .line = "acc=1", .pattern = "^acc=(.*)", .on_stderr = true};
    strbuf_reset(&b);
    progress_text_metric_help(&b, &m);
    CHECK_HAS(strbuf_str(&b), "this line of its stderr looks like the metric, but metrics are read "
                              "from stdout only:\n    acc=1\n");
    CHECK_HAS(strbuf_str(&b), "file=sys.stdout");
}

TEST(arguments_that_the_program_does_not_understand_name_the_command)
{
    static const struct {
        const char *says, *macro;
    } cases[] = {
        {"t.py: error: argument --amp: ignored explicit argument 'True'",
         "${args_no_boolean_flags}"},
        {"Error: Option '--amp' does not take a value.", "${args_no_boolean_flags}"},
        {"./t: option '--amp' doesn't allow an argument", "${args_no_boolean_flags}"},
        {"t.py: error: unrecognized arguments: --lr=0.1", "${args_no_hyphens}"},
        {"Could not override 'lr'.\nTo append to your config use +lr=0.1", "${args_append_hydra}"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        AUTO(free)
        char *standard = xasprintf(
            "\n    command: ['${env}', '${interpreter}', '${program}', '%s']\n", cases[i].macro);
        AUTO(free) char *own = xasprintf("\n    command: ['./it''s', '%s', 'x']\n", cases[i].macro);
        progress_text_command_help(&b, NULL, cases[i].says);
        CHECK_HAS(strbuf_str(&b), standard);
        strbuf_reset(&b);
        progress_text_command_help(&b, (char *[]){"./it's", "${args_no_equals}", "x", NULL},
                                   cases[i].says);
        CHECK_HAS(strbuf_str(&b), own);
        strbuf_reset(&b);
        progress_text_command_help(&b, (char *[]){"./t", (char *)cases[i].macro, NULL},
                                   cases[i].says);
        progress_text_command_help(&b, NULL, "another error");
        CHECK_INT(b.len, 0);
    }
}
