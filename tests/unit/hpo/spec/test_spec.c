#include "hpo/spec/spec.h"

#include <math.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sampler.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/space/space.h"
#include "tests/unit/test.h"

static struct spec *read_spec(const char *yaml, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    struct spec *s = NULL;
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", "command", e) < 0)
        return NULL;
    (void)sweep_file_read(&s, d, e); /* s stays NULL, e says why */
    return s;
}

static struct spec *spec(const char *yaml)
{
    struct err e = {0};
    struct spec *s = read_spec(yaml, &e);
    if (!s)
        FAIL("%s\n%s", e.text, yaml);
    return s;
}

#define LEAST "method: random\nprogram: t.py\nparameters: {x: {min: 0.0, max: 1.0}}\n"

TEST(the_least_file_has_every_default)
{
    AUTO(spec) struct spec *s = spec(LEAST);
    CHECK_STR(s->method->name, "random");
    CHECK_STR(s->program, "t.py");
    CHECK(!s->command && !s->name && !s->metrics[0].name && !s->notices && !s->metrics[0].maximize);
    CHECK_INT(s->run_cap, 0);
    CHECK_INT(s->need.nodes, 1);
    CHECK_INT(s->need.ranks, 1);
    CHECK(s->need.gpus == 0 && s->need.memory_bytes == 0);
    CHECK_INT(s->retries, 3);
    CHECK_INT(s->parallel, 0);
    CHECK_INT(s->give_up_after, 5);
    CHECK_INT(s->timeout_ms, 0);
    CHECK_INT(s->grace_ms, 30000);
    CHECK_INT(s->lost_after_ms, 120000);
    CHECK(!s->value_last && !s->retry_failed && !s->wandb_real);
    CHECK_INT(json_array_size(s->start), 0);
    CHECK(!s->early_terminate);
}

static const char whole[] =
    "name: my sweep\n"
    "description: all there is\n"
    "method: grid\n"
    "program: train.py\n"
    "metric: {name: acc, goal: maximize, target: 0.99, pattern: 'acc=([0-9.]+)'}\n"
    "early_terminate: {type: hyperband, max_iter: 27, s: 2, eta: 2, strict: false}\n"
    "run_cap: 40\n"
    "command: [\"${env}\", \"${program}\", 1, true, 0.5, \"${args_json}\"]\n"
    "parameters:\n"
    "  b: {values: [x, y]}\n"
    "  a: {min: 1, max: 10}\n"
    "  n: {parameters: {c: {value: [1, 2]}}}\n"
    "drover:\n"
    "  resources: {nodes: 3, ranks: 8, gpus: 8, cpus: 2, memory: 1.5G}\n"
    "  seed: 7\n"
    "  parallel: 3\n"
    "  retries: 0\n"
    "  retry_failed: yes\n"
    "  give_up_after: 0\n"
    "  timeout: 10m\n"
    "  grace: 0.5\n"
    "  lost_after: 1h\n"
    "  value: last\n"
    "  wandb: real\n"
    "  start: [{a: 3, b: y}, {a: 4.0, b: x, n: {c: [1, 2]}}]\n";

/* `early_terminate` with every default in place. */
static void check_stop(const struct spec *s, const char *want)
{
    AUTO(json) json_t *j = json_loads(want, 0, NULL);
    AUTO(free) char *text = json_line(s->early_terminate);
    if (!json_equal(s->early_terminate, j))
        FAIL("%s", text);
}

TEST(every_key_is_read)
{
    AUTO(spec) struct spec *s = spec(whole);
    CHECK_STR(s->method->name, "grid");
    CHECK_STR(s->name, "my sweep");
    CHECK_STR(s->metrics[0].name, "acc");
    CHECK(s->metrics[0].maximize && s->metrics[0].has_target);
    CHECK_NEAR(s->metrics[0].target, 0.99, 0);
    CHECK_STR(s->metrics[0].pattern, "acc=([0-9.]+)");
    check_stop(s, "{\"type\":\"hyperband\",\"max_iter\":27,\"eta\":2.0,\"s\":2,\"strict\":false}");
    CHECK_INT(s->run_cap, 40);
    CHECK_INT(strv_len(s->command), 6);
    CHECK_STR(s->command[2], "1");
    CHECK_STR(s->command[3], "true");
    CHECK_STR(s->command[4], "0.5");
    CHECK_INT(space_count(s->space), 20);
    CHECK_INT(s->need.nodes, 3);
    CHECK_INT(s->need.ranks, 8);
    CHECK(s->need.gpus == 8);
    CHECK_INT(s->need.cpus, 2);
    CHECK_INT(s->need.memory_bytes, 3LL << 29);
    CHECK_INT(s->seed, 7);
    CHECK_INT(s->parallel, 3);
    CHECK_INT(s->retries, 0);
    CHECK_INT(s->give_up_after, 0);
    CHECK(s->retry_failed && s->value_last && s->wandb_real);
    CHECK_INT(s->timeout_ms, 600000);
    CHECK_INT(s->grace_ms, 500);
    CHECK_INT(s->lost_after_ms, 3600000);
    AUTO(free) char *start = json_line(s->start);
    CHECK_STR(
        start,
        "[{\"a\":3,\"b\":\"y\",\"n\":{\"c\":[1,2]}},{\"a\":4,\"b\":\"x\",\"n\":{\"c\":[1,2]}}]");
    CHECK_INT(strv_len(s->notices), 1);
    CHECK_HAS(s->notices[0], "only 20 different points");
}

static const char several[] =
    "method: bayes\nprogram: t.py\n"
    "parameters:\n"
    "  solver: {values: [sgd, adam]}\n"
    "  momentum: {min: 0.0, max: 1.0}\n"
    "  lr: {min: 0.0, max: 1.0}\n"
    "metrics:\n"
    "  - {name: acc, goal: maximize, target: 0.9}\n"
    "  - {name: seconds}\n"
    "early_terminate: {type: curve, min_iter: 3, max_iter: 81, keep: 0.5}\n"
    "run_cap: 100\n"
    "drover:\n"
    "  seed: 4\n"
    "  parallel: 8\n"
    "  repeats: 3\n"
    "  when: {momentum: {param: solver, in: [sgd]}}\n"
    "  constraints: [lr * momentum <= 0.5]\n"
    "  start: [{solver: adam, lr: 1}]\n"
    "  prior: [{params: {solver: adam, lr: 0.5}, values: {seconds: 3, acc: 0.75}}]\n";

TEST(what_was_read_is_written_out_and_reads_back_the_same)
{
    const char *const files[] = {whole, several, LEAST,
                                 LEAST "metric: {name: m}\nearly_terminate: {type: median}\n"};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(spec) struct spec *s = spec(files[i]);
        AUTO(json) json_t *o = spec_json(s);
        if (s->parallel == 0) /* "no limit" is the key's absence */
            json_object_del(json_object_get(o, "drover"), "parallel");
        AUTO(free) char *text = json_line(o);
        AUTO(spec) struct spec *again = spec(text);
        AUTO(json) json_t *o2 = spec_json(again);
        if (s->parallel == 0)
            json_object_del(json_object_get(o2, "drover"), "parallel");
        AUTO(free) char *text2 = json_line(o2);
        CHECK_STR(text2, text);
    }
}

TEST(keys_of_where_wandb_runs_it_are_told_once_to_have_no_effect)
{
    AUTO(spec)
    struct spec *s = spec(LEAST "entity: me\nproject: p\nkind: sweep\n"
                                "controller: {type: local}\n"
                                "metric: {name: x, impute: worst}\n");
    CHECK_INT(strv_len(s->notices), 2);
    CHECK_STR(s->notices[0],
              "ignored, no effect with drover: 'entity', 'project', 'kind', 'controller'");
    CHECK_HAS(s->notices[1], "'impute' is ignored: bayes models failed trials as infeasible");
    CHECK_HAS(s->notices[1], "plus a quarter of a standard deviation");
}

TEST(median_has_defaults_and_hyperband_wandbs)
{
    AUTO(spec) struct spec *m = spec(LEAST "metric: {name: m}\nearly_terminate: {type: median}\n");
    check_stop(m, "{\"type\":\"median\",\"min_trials\":5,\"min_iter\":1}");
    AUTO(spec)
    struct spec *h =
        spec(LEAST "metric: {name: m}\nearly_terminate: {type: hyperband, min_iter: 3}\n");
    check_stop(h, "{\"type\":\"hyperband\",\"min_iter\":3,\"eta\":3.0,\"strict\":true}");
}

TEST(several_metrics_conditions_and_constraints_make_the_samplers_task)
{
    AUTO(spec) struct spec *s = spec(several);
    struct sampler_task task;
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    AUTO(stopper) struct stopper *stopper = NULL;
    struct config_node stop = config_node_of_json(s->early_terminate);
    CHECK_INT(stopper_new(&stopper, &stop, NULL, NULL), 0);
    sampler_task_of_spec(&task, objectives, s, stopper);
    CHECK_STR(s->method->name, "bayes");
    CHECK_INT(task.objective_count, 2);
    CHECK_STR(task.objectives[0].metric, "acc");
    CHECK(task.objectives[0].maximize && !task.objectives[1].maximize && !task.objectives[0].last);
    CHECK_STR(task.objectives[1].metric, "seconds");
    CHECK(task.space == s->space);
    CHECK_INT(task.max_iter, 81);
    CHECK_INT(task.repeats, 3);
    CHECK_INT(task.budget, 100);
    CHECK_INT(task.batch, 8);
    CHECK_INT(task.seed, 4);
    AUTO(free) char *prior = json_line(task.warm_start);
    CHECK_STR(prior, "[{\"params\":{\"lr\":0.5,\"solver\":\"adam\"},"
                     "\"values\":{\"acc\":0.75,\"seconds\":3.0}}]");
    double u[] = {0.9, 0.9, 0.1}; /* lr, momentum, solver */
    CHECK(!space_allows(s->space, u));
    u[2] = 0.9;
    CHECK(space_allows(s->space, u));
}

TEST(an_eta_that_would_make_thousands_of_rungs_is_refused)
{
    static const char *const wrong[] = {
        "{type: asha, eta: 1.000000001}",
        "{type: asha, like: ray, eta: 1.09, min_iter: 1}",
        "{type: curve, eta: 1.01}",
        "{type: hyperband, max_iter: 100, s: 101, eta: 1.000000001}",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct err e = {0};
        AUTO(free)
        char *text = xasprintf(LEAST "metric: {name: m}\nearly_terminate: %s\n", wrong[i]);
        if (read_spec(text, &e))
            FAIL("was read: %s", wrong[i]);
        CHECK_HAS(e.text, "s.yaml:5:");
        CHECK_HAS(e.text, "'eta' must be 1.1 or more");
        CHECK_HAS(e.hint, "eta: ");
    }
    static const char *const right[] = {
        "{type: asha, eta: 1.1}",
        "{type: curve, eta: 1.1}",
        "{type: hyperband, min_iter: 3, eta: 1.01}", /* W&B has 100 bands at most */
        "{type: hyperband, max_iter: 100, s: 100, eta: 1.01}",
    };
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        AUTO(free)
        char *text = xasprintf(LEAST "metric: {name: m}\nearly_terminate: %s\n", right[i]);
        AUTO(spec) struct spec *s = spec(text);
        CHECK(json_number_value(json_object_get(s->early_terminate, "eta")) <= 1.1);
    }
}

TEST(a_prior_is_said_to_have_no_effect_where_nothing_learns_from_it)
{
    AUTO(spec)
    struct spec *s =
        spec(LEAST "metric: {name: m}\ndrover: {prior: [{params: {x: 1}, value: 1}]}\n");
    CHECK_INT(strv_len(s->notices), 1);
    CHECK_HAS(s->notices[0],
              "'prior' is ignored: method random does not learn from earlier sweeps");
    CHECK_INT(json_array_size(s->warm_start), 1);
}

TEST(times_are_read_with_their_unit)
{
    static const struct {
        const char *text;
        int ms; /* -1: refused */
    } rows[] = {{"90", 90000},  {"0.25", 250}, {"90s", 90000}, {"10m", 600000}, {"1.5h", 5400000},
                {"250ms", 250}, {"0", 0},      {"-1", -1},     {"10x", -1},     {"' 5s'", -1},
                {"'nan'", -1},  {"true", -1},  {"1e300", -1},  {"''", -1},      {".inf", -1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(free) char *yaml = xasprintf(LEAST "drover: {grace: %s}\n", rows[i].text);
        struct err e = {0};
        AUTO(spec) struct spec *s = read_spec(yaml, &e);
        CHECK_INT(s ? s->grace_ms : -1, rows[i].ms);
        if (!s)
            CHECK_HAS(e.text, "s.yaml:4:10: 'grace' must be a duration");
    }
}

TEST(what_a_start_set_lacks_is_drawn_and_the_same_each_time)
{
    static const char text[] =
        "method: bayes\nmetric: {name: x}\nprogram: p\n"
        "parameters: {a: {min: 1, max: 1000000}, b: {values: [x, y]},\n"
        "  c: {min: 0.0, max: 1.0}}\n"
        "drover: {constraints: ['a < 500000'], when: {c: {param: b, in: [x]}},\n"
        "  start: [{b: x}, {b: y}, {c: 0.5}]}\n";
    struct err e = {0};
    AUTO(spec) struct spec *s = read_spec(text, &e), *again = read_spec(text, &e);
    if (!s)
        FAIL("%s", e.text);
    CHECK(json_equal(s->start, again->start));
    for (size_t i = 0; i < 3; i++)
        CHECK(json_integer_value(json_object_get(json_array_get(s->start, i), "a")) < 500000);
    CHECK(json_object_get(json_array_get(s->start, 0), "c"));
    CHECK(!json_object_get(json_array_get(s->start, 1), "c"));
    CHECK_STR(json_string_value(json_object_get(json_array_get(s->start, 2), "b")), "x");
}

TEST(what_is_wrong_is_said_with_its_place_and_the_way_out)
{
    static const char *const rows[][3] = {
        {"- 1\n", "s.yaml:1:1: a sweep file must be a mapping", ""},
        {"program: t.py\nparameters: {x: {value: 1}}\n", "'method' is missing", "method: random"},
        {"method: randon\n", "s.yaml:1:1: unknown method 'randon'", "method: random"},
        {"method: bayes\nprogram: t\nparameters: {x: {min: 0.0, max: 1.0}}\n",
         "s.yaml:1:1: method bayes needs a 'metric'", "metric: {name"},
        {"method: custom\n", "your own optimiser", "drover suggest"},
        {"method: grid\nscheduler: {engine: optuna}\n", "s.yaml:2:1: 'scheduler'", "method"},
        {LEAST "metrics: []\n", "s.yaml:4:1: 'metrics' must be a list of at least two", "metric:"},
        {LEAST "metrics: [{name: a}]\n", "at least two", "metric:"},
        {LEAST "metrics: {name: a}\n", "at least two", "metric:"},
        {LEAST "metrics: [{name: a}, {name: b}]\nmetric: {name: c}\n", "either 'metric' or", ""},
        {LEAST "metrics: [{name: a}, {name: a}]\n", "s.yaml:4:22: the metric 'a' is given twice",
         ""},
        {LEAST "metrics: [{name: a}, {goal: maximize}]\n", "the metric's 'name' is missing", ""},
        {LEAST "metrics: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, "
               "{name: g}, {name: h}, {name: i}]\n",
         "more than 8 metrics", ""},
        {"method: grid\nparametres: {}\n", "s.yaml:2:1: unknown key 'parametres' in a sweep file",
         "parameters"},
        {"method: grid\nprogram: x\n", "'parameters' is missing", ""},
        {"method: grid\nparameters: {x: {value: 1}}\n", "neither 'program' nor",
         "program: train.py"},
        {"method: grid\nparameters:\n  x: {min: 0.0, max: 1.0}\n",
         "s.yaml:3:3: method grid has no points for 'uniform'", ""},
        {LEAST "run_cap: 0\n", "s.yaml:4:1: 'run_cap' must be from 1", ""},
        {LEAST "name: 3\n", "s.yaml:4:1: 'name' must be a string", ""},
        {LEAST "metric: {goal: maximize}\n", "s.yaml:4:1: the metric's 'name' is missing", ""},
        {LEAST "metric: {name: x, goal: max}\n",
         "s.yaml:4:19: 'goal' must be minimize or maximize, not 'max'", "goal: maximize"},
        {LEAST "metric: {name: x, goal: Minimise}\n", "not 'Minimise'", "goal: minimize"},
        {LEAST "metric: {nmae: x}\n", "unknown key 'nmae' in metric", "name"},
        {LEAST "metric: {name: x, target: low}\n", "'target' must be a number", ""},
        {LEAST "metric: {name: x, impute: first}\n", "'impute' must be latest", ""},
        {LEAST "early_terminate: {type: hyperband, min_iter: 1}\n", "needs a 'metric'", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperbond}\n",
         "s.yaml:5:19: unknown type 'hyperbond'", "type: hyperband"},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperband}\n", "needs 'min_iter'", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperband, max_iter: 9}\n",
         "needs 'min_iter', or 'max_iter' and 's'", "s: 2"},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperband, min_iter: 1, eta: 1}\n",
         "s.yaml:5:49: 'eta' must be above 1", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: median, min_iter: 0}\n",
         "'min_iter' must be from 1", ""},
        {LEAST "metric: {name: x}\nearly_terminate: hyperband\n", "a mapping with a 'type'", ""},
        {LEAST "command: python t.py\n", "s.yaml:4:1: 'command' must be a list", "command: ["},
        {LEAST "command: [\"${arg}\"]\n", "s.yaml:4:1: unknown macro '${arg}'", "${args}"},
        {LEAST "command: [a, [b]]\n", "s.yaml:4:14: a word of the command cannot be a list", ""},
        {"method: grid\nparameters: {x: {value: 1}}\ncommand: [\"${program}\"]\n",
         "there is no 'program'", ""},
        {LEAST "drover: {sead: 1}\n", "s.yaml:4:10: unknown key 'sead' in drover", "seed"},
        {LEAST "drover: {seed: -1}\n", "'seed' must be", ""},
        {LEAST "drover: {parallel: 0}\n", "'parallel' must be from 1", ""},
        {LEAST "drover: {resources: {rank: 1}}\n", "unknown key 'rank' in resources", "ranks"},
        {LEAST "drover: {resources: {nodes: 0}}\n", "'nodes' must be from 1", ""},
        {LEAST "drover: {resources: {ranks: 0}}\n", "'ranks' must be from 1", ""},
        {LEAST "drover: {resources: {gpus: 1.5}}\n", "'gpus' must be whole", "0.25"},
        {LEAST "drover: {resources: {gpus: 0.001}}\n", "'gpus' must be whole", "0.25"},
        {LEAST "drover: {resources: {gpus: -1}}\n", "'gpus' must be whole", "0.25"},
        {LEAST "drover: {resources: {memory: lots}}\n", "'memory' must be a size", "16G"},
        {LEAST "drover: {resources: {memory: -1}}\n", "'memory' must be a size", "16G"},
        {LEAST "drover: {wandb: mine}\n", "'wandb' must be drover (its stand-in) or real", ""},
        {LEAST "drover: {value: first}\n", "'value' must be best or last", ""},
        {LEAST "drover: {start: {x: 1}}\n", "'start' must be a list", ""},
        {LEAST "drover: {start: [{x: 2}]}\n", "s.yaml:4:19: 'x' cannot be 2", ""},
        {LEAST "drover: {start: [{y: 2}]}\n", "s.yaml:4:19: unknown key 'y'", ""},
        {LEAST "drover: {prior: [{params: {x: 1}, value: 1}]}\n",
         "s.yaml:4:10: 'prior' needs a 'metric'", ""},
        {LEAST "metric: {name: m}\ndrover: {prior: 3}\n",
         "s.yaml:5:10: 'prior' must be a list of observations, not", ""},
        {LEAST "metric: {name: m}\ndrover: {prior: [{value: 1}]}\n",
         "s.yaml:5:18: the observation's 'params' are missing", ""},
        {LEAST "metric: {name: m}\ndrover: {prior: [{params: {x: 2}, value: 1}]}\n",
         "s.yaml:5:28: 'x' cannot be 2", ""},
        {LEAST "metric: {name: m}\ndrover: {prior: [{params: {x: 1}}]}\n",
         "s.yaml:5:18: an observation has either 'value'", "{params: {…}, value: 0.3}"},
        {LEAST "metrics: [{name: m}, {name: n}]\ndrover: {prior: [{params: {x: 1}, value: 1}]}\n",
         "s.yaml:5:18: an observation has either 'value'", "values: {m: 0.3, …}"},
        {LEAST "metric: {name: m}\ndrover: {prior: [{params: {x: 1}, value: .nan}]}\n",
         "s.yaml:5:35: the value of 'm' must be a finite number", ""},
        {LEAST "metrics: [{name: m}, {name: n}]\n"
               "drover: {prior: [{params: {x: 1}, values: {m: 1}}]}\n",
         "s.yaml:5:35: the value of 'n' must be a finite number, not nothing", ""},
        {LEAST "metric: {name: loss}\ndrover: {prior: [{params: {x: 1}, values: {los: 1}}]}\n",
         "s.yaml:5:44: unknown key 'los' in values", "loss"},
        {LEAST "metric: {name: m}\ndrover: {prior: [{param: {x: 1}, value: 1}]}\n",
         "unknown key 'param' in an observation", "params"},
        {LEAST "drover: 3\n", "drover must be a mapping", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: asha, like: bohb}\n",
         "s.yaml:5:31: 'like' must be optuna or ray", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: asha, min_iter: 9, max_iter: 3}\n",
         "s.yaml:5:44: 'max_iter' must be 9 or more: no rung lies within 3", ""},
        {LEAST "metric: {name: x}\n"
               "early_terminate: {type: asha, min_iter: 1, s: 3, eta: 3, max_iter: 9}\n",
         "s.yaml:5:58: 'max_iter' must be 27 or more: no rung lies within 9", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: asha, s: 2, max_iter: 15}\n",
         "'max_iter' must be 16 or more", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: curve, min_iter: 4, max_iter: 4}\n",
         "'max_iter' must be 5 or more: no rung lies within 4", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperband, min_iter: 3, max_iter: 2}\n",
         "'max_iter' must be 4 or more: no rung lies within 2", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: hyperband, max_iter: 2, s: 2}\n",
         "s.yaml:5:36: 'max_iter' must be 3 or more: no rung lies within 2", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: curve, keep: 1.5}\n",
         "s.yaml:5:32: 'keep' must be above 0 and at most 1", ""},
        {LEAST "metric: {name: x}\nearly_terminate: {type: curve, strict: true}\n",
         "unknown key 'strict' in early_terminate of type curve", ""},
        {LEAST "drover: {repeats: 0}\n", "'repeats' must be from 1", ""},
        {LEAST "drover: {when: {x: {param: y, in: [1]}}}\n", "s.yaml:4:21: unknown parameter 'y'",
         ""},
        {LEAST "drover: {constraints: [x > 2]}\n", "s.yaml:4:24: found no point that satisfies",
         ""},
        {LEAST "drover: {constraints: [0.5 < X]}\n",
         "s.yaml:4:24: constraint '0.5 < X': 1:7: unknown parameter 'X'", ""},
        {LEAST "drover: {constraints: [x < 0.5], start: [{x: 0.7}]}\n",
         "s.yaml:4:42: this set violates the constraint 'x < 0.5'", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct spec *s = read_spec(rows[i][0], &e);
        if (s)
            FAIL("was read: %s", rows[i][0]);
        CHECK_HAS(e.text, rows[i][1]);
        CHECK_HAS(e.hint, rows[i][2]);
        CHECK_HAS(e.text, "s.yaml:");
    }
}

/* Values as users of W&B write them, which YAML 1.1 reads as text. */
TEST(numbers_with_an_exponent_are_numbers)
{
    AUTO(spec)
    struct spec *s = spec("method: random\nprogram: t\nparameters:\n"
                          "  lr: {distribution: log_uniform_values, min: 1e-5, max: 1e-1}\n");
    double u = 0.5;
    AUTO(json) json_t *p = space_sample(s->space, &u);
    CHECK_NEAR(json_real_value(json_object_get(p, "lr")), 1e-3, 1e-12);
}

TEST(a_stored_file_may_have_early_stopping_without_effect)
{
    static const char file[] =
        LEAST "metric: {name: m}\nearly_terminate: {type: hyperband, min_iter: 10, max_iter: 10}\n";
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    AUTO(spec) struct spec *s = NULL;
    struct err e = {0};
    CHECK(!read_spec(file, &e));
    CHECK_HAS(e.text, "no rung lies within 10");
    CHECK_INT(yaml_read(&d, file, strlen(file), "sweep.yaml", "command", NULL), 0);
    CHECK_INT(sweep_file_read_stored(&s, d, NULL), 0);
    CHECK_INT(json_integer_value(json_object_get(s->early_terminate, "max_iter")), 10);
}
