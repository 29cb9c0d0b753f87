/* test_warm_start - observations of one sweep from which another learns. */
#include "hpo/samplers/warm_start.h"

#include <math.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sampler.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/space/space.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/test.h"

enum { TRIALS = 64 };

static struct trial *trials[TRIALS];
static size_t count;

static struct trial_view view(void)
{
    return (struct trial_view){(const struct trial *const *)trials, count};
}

static struct spec *spec(const char *yaml)
{
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    struct spec *s = NULL;
    struct err e = {0};
    if (yaml_read(&d, yaml, strlen(yaml), "s.yaml", "command", &e) < 0 ||
        sweep_file_read(&s, d, &e) < 0)
        FAIL("%s\n%s", e.text, yaml);
    return s;
}

/* ---- another sweep's trials ----------------------------------------------------------------- */

/* A trial that reported each of `values`, a list of objects, with m as its metric, minimised. */
static struct trial *told(const char *params, const char *values, enum trial_state state)
{
    AUTO(json) json_t *p = json_loads(params, 0, NULL), *all = json_loads(values, 0, NULL);
    CHECK(p && all);
    struct trial *t = trials[count] = trial_new((int)count, p, 0);
    count++;
    for (size_t i = 0; i < json_array_size(all); i++)
        trial_report(t, (double)i, json_array_get(all, i), "m", false);
    t->state = state;
    return t;
}

static void free_trials(void)
{
    while (count > 0)
        trial_free(trials[--count]);
}

static void check_taken(const char *yaml, const char *want)
{
    AUTO(spec) struct spec *s = spec(yaml);
    AUTO(json) json_t *got = json_array();
    struct trial_view v = view();
    struct warm_start_counts n = warm_start_import(got, s, &v, "m");
    AUTO(free) char *line = json_line(got);
    CHECK_STR(line, want);
    CHECK_INT(n.taken, json_array_size(got));
    json_int_t left_out = 0;
    const char *reason;
    json_t *times;
    json_object_foreach (n.left_out, reason, times)
        left_out += json_integer_value(times);
    CHECK_INT((json_int_t)n.taken + left_out, (json_int_t)n.done);
    json_decref(n.left_out);
}

#define HEAD "method: bayes\nprogram: t\nparameters: {x: {min: 0.0, max: 1.0}, k: {value: 3}}\n"

TEST(done_trials_in_the_space_with_a_finite_value_are_taken_and_others_counted)
{
    told("{\"x\":0.5}", "[{\"m\":2},{\"m\":1},{\"m\":3}]", TRIAL_DONE);
    told("{\"x\":0.5,\"k\":4}", "[{\"m\":2}]", TRIAL_DONE); /* another constant */
    told("{\"x\":1.5}", "[{\"m\":2}]", TRIAL_DONE);         /* out of bounds */
    told("{\"x\":0.5,\"y\":1}", "[{\"m\":2}]", TRIAL_DONE); /* one more parameter */
    told("{\"x\":0.9}", "[{\"m\":2}]", TRIAL_DONE);         /* breaks the constraint */
    told("{\"x\":0.25}", "[{\"m\":\"nan\"}]", TRIAL_DONE);  /* no value */
    told("{\"x\":0.25}", "[{\"other\":1}]", TRIAL_DONE);    /* the same */
    told("{\"x\":0.25}", "[{\"m\":2}]", TRIAL_PRUNED);      /* not done */
    told("{\"x\":0.25}", "[{\"m\":2}]", TRIAL_FAILED);      /* the same */
    told("{\"k\":3,\"x\":0.125}", "[{\"m\":4,\"z\":5}]", TRIAL_DONE);
    AUTO(spec)
    struct spec *s = spec(HEAD "metric: {name: m}\ndrover: {constraints: [x < 0.8]}\n");
    AUTO(json) json_t *got = json_array();
    struct trial_view v = view();
    struct warm_start_counts n = warm_start_import(got, s, &v, "m");
    AUTO(free) char *line = json_line(got);
    CHECK_STR(line, "[{\"params\":{\"k\":3,\"x\":0.5},\"values\":{\"m\":1.0}},"
                    "{\"params\":{\"k\":3,\"x\":0.125},\"values\":{\"m\":4.0}}]");
    CHECK_INT(n.done, 8);
    CHECK_INT(n.taken, 2);
    AUTO(json) json_t *left_out = n.left_out;
    AUTO(free) char *why = json_line(left_out);
    CHECK_STR(why, "{\"'k' cannot be 4: the distribution does not give it\":1,"
                   "\"'x' is outside its range\":1,"
                   "\"unknown key 'y' in a set of parameters\":1,"
                   "\"this set violates the constraint 'x < 0.8'\":1,"
                   "\"without a finite value of 'm'\":2}");
    free_trials();
}

/* The other sweep minimised m. */
TEST(the_new_goal_says_which_of_a_trials_values_counts)
{
    told("{\"x\":0.5}", "[{\"m\":2,\"z\":7},{\"m\":1,\"z\":9},{\"m\":3,\"z\":8}]", TRIAL_DONE);
#define WITH(metric, value) \
    "[{\"params\":{\"k\":3,\"x\":0.5},\"values\":{\"" metric "\":" value "}}]"
    check_taken(HEAD "metric: {name: m}\n", WITH("m", "1.0"));
    check_taken(HEAD "metric: {name: m, goal: maximize}\n", WITH("m", "3.0"));
    check_taken(HEAD "metric: {name: m}\ndrover: {value: last}\n", WITH("m", "3.0"));
    check_taken(HEAD "metric: {name: z}\n", WITH("z", "8.0"));
    check_taken(HEAD "metrics: [{name: z}, {name: m}]\n",
                "[{\"params\":{\"k\":3,\"x\":0.5},\"values\":{\"z\":8.0,\"m\":3.0}}]");
    check_taken(HEAD "metrics: [{name: z}, {name: w}]\n", "[]");
    free_trials();
}

/* ---- bayes with observations ---------------------------------------------------------------- */

static const char branin_space[] =
    "{\"x\":{\"min\":-5.0,\"max\":10.0},\"y\":{\"min\":0.0,\"max\":15.0}}";

/* Dixon & Szegö 1978; its least value is 0.397887. */
static double branin(const json_t *params)
{
    double x = json_number_value(json_object_get(params, "x"));
    double y = json_number_value(json_object_get(params, "y"));
    double a = y - 5.1 * x * x / (4 * M_PI * M_PI) + 5 * x / M_PI - 6;
    return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10;
}

static struct space *branin_new(void)
{
    AUTO(json) json_t *v = json_loads(branin_space, 0, NULL);
    struct config_node n = config_node_of_json(v);
    struct space *s = NULL;
    AUTO(strv) char **notices = NULL;
    struct err e = {0};
    if (space_read(&s, &n, false, &notices, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

/* Random points and their values; if the goal is to maximise, the negative values. */
static json_t *observed(const struct space *space, size_t n, uint64_t seed, bool maximize)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        struct rng r;
        double u[2];
        rng_seed(&r, seed, i);
        space_draw(space, &r, u);
        AUTO(json) json_t *params = space_sample(space, u);
        double y = branin(params);
        json_array_append_new(
            list, json_pack("{s:O,s:{s:f}}", "params", params, "values", "m", maximize ? -y : y));
    }
    return list;
}

/* Proposes a trial and ends it as done. Returns its value of Branin. */
static double step(struct sampler *s, bool maximize)
{
    struct trial_view v = view();
    AUTO(json) json_t *params = sampler_next(s, &v);
    AUTO(json) json_t *report = json_pack("{s:f}", "m", (maximize ? -1 : 1) * branin(params));
    struct trial *t = trials[count] = trial_new((int)count, params, 0);
    count++;
    trial_report(t, 0, report, "m", maximize);
    t->state = TRIAL_DONE;
    t->end_order = (int)count;
    return branin(params);
}

static struct sampler *bayes(const struct space *space, const json_t *prior, bool maximize)
{
    static struct sampler_objective objective;
    objective = (struct sampler_objective){.metric = "m", .maximize = maximize};
    struct sampler_task task = {.space = space,
                                .seed = 1,
                                .objectives = &objective,
                                .objective_count = 1,
                                .warm_start = prior};
    return sampler_new(kit_sampler("bayes"), &task);
}

TEST(with_thirty_observations_of_branin_the_first_suggestions_are_good)
{
    struct space *space = branin_new();
    for (uint64_t seed = 0; seed < 5; seed++) {
        bool maximize = seed % 2;
        AUTO(json) json_t *prior = observed(space, 30, seed, maximize);
        AUTO(sampler) struct sampler *s = bayes(space, prior, maximize);
        double best = INFINITY;
        for (int i = 0; i < 6; i++) {
            double y = step(s, maximize);
            printf("# seed %d, trial %d: %.4f\n", (int)seed, i, y);
            best = fmin(best, y);
        }
        CHECK(best < 0.6);
        free_trials();
    }
    space_free(space);
}

TEST(too_few_observations_are_filled_up_with_even_points)
{
    struct space *space = branin_new();
    AUTO(json) json_t *five = observed(space, 5, 3, false);
    AUTO(sampler) struct sampler *s = bayes(space, five, false);
    AUTO(sampler) struct sampler *cold = bayes(space, NULL, false);
    for (int i = 0; i < 6; i++) { /* the first 8 observations: 5 and 3 */
        struct trial_view v = view();
        AUTO(json) json_t *even = sampler_next(cold, &v);
        step(s, false);
        CHECK_INT(json_equal(even, trials[i]->params), i < 3);
    }
    free_trials();
    space_free(space);
}

TEST(the_best_is_a_trial_and_no_observation_of_others)
{
    struct space *space = branin_new();
    AUTO(json) json_t *prior = observed(space, 20, 5, false);
    for (size_t i = 0; i < 20; i++) { /* noise, without which the model is not used */
        AUTO(json) json_t *again = json_deep_copy(json_array_get(prior, i));
        json_t *values = json_object_get(again, "values");
        double y = json_number_value(json_object_get(values, "m"));
        json_object_set_new(values, "m", json_real(y + (i % 2 ? 30 : -30)));
        json_array_append(prior, again);
    }
    AUTO(sampler) struct sampler *s = bayes(space, prior, false);
    struct trial_view none = view();
    CHECK_INT(sampler_best(s, &none), -1);
    AUTO(json) json_t *bad = json_pack("{s:f,s:f}", "x", -5.0, "y", 0.0); /* 308, the worst */
    AUTO(json) json_t *report = json_pack("{s:f}", "m", branin(bad));
    struct trial *t = trials[count++] = trial_new(0, bad, 0);
    trial_report(t, 0, report, "m", false);
    t->state = TRIAL_DONE;
    t->end_order = 1;
    struct trial_view one = view();
    CHECK_INT(sampler_best(s, &one), 0);
    free_trials();
    space_free(space);
}

TEST(a_restart_goes_on_with_the_same_suggestions)
{
    struct space *space = branin_new();
    AUTO(json) json_t *prior = observed(space, 12, 2, false), *learnt = NULL;
    AUTO(sampler) struct sampler *s = bayes(space, prior, false);
    for (int i = 0; i < 10; i++) {
        AUTO(sampler) struct sampler *again = bayes(space, prior, false);
        sampler_restore(again, learnt);
        struct trial_view v = view();
        AUTO(json) json_t *same = sampler_next(again, &v);
        step(s, false);
        CHECK(json_equal(same, trials[i]->params));
        json_t *news = sampler_save(s);
        if (news) {
            json_decref(learnt);
            learnt = news;
        }
    }
    free_trials();
    space_free(space);
}

TEST(what_makes_no_sense_is_passed_over)
{
    struct space *space = branin_new();
    AUTO(json)
    json_t *odd =
        json_loads("[3, {}, {\"params\":{\"x\":0}}, {\"params\":{\"x\":99,\"y\":0},"
                   "\"values\":{\"m\":1}}, {\"params\":{\"x\":0,\"y\":0},\"values\":"
                   "{\"m\":\"inf\"}}, {\"params\":{\"x\":0,\"y\":0},\"values\":{\"n\":1}}]",
                   0, NULL);
    AUTO(sampler) struct sampler *s = bayes(space, odd, false);
    AUTO(sampler) struct sampler *cold = bayes(space, NULL, false);
    for (int i = 0; i < 10; i++) {
        struct trial_view v = view();
        AUTO(json) json_t *want = sampler_next(cold, &v);
        step(s, false);
        CHECK(json_equal(want, trials[i]->params));
    }
    free_trials();
    space_free(space);
}
