/* test_sampler_bayes_finds - how near the Bayesian sampler gets to known optima. */
#include "common/rng.h"
#include "hpo/samplers/sampler.h"
#include "tests/unit/kit_hypervolume.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/kit_trials.h"

static const struct sampler_objective objectives[] = {
    {.metric = "y"}, {.metric = "z"}, {.metric = "w"}};

struct run {
    struct space *space;
    struct sampler_task task;
    struct sampler *sampler;
};

static void begin(struct run *w, const struct sampler_ops *ops, const char *space,
                  size_t objective_count, uint64_t seed)
{
    w->space = kit_space(space, NULL);
    w->task = (struct sampler_task){.space = w->space,
                                    .seed = seed,
                                    .objectives = objectives,
                                    .objective_count = objective_count};
    w->sampler = sampler_new(ops, &w->task);
}

static void end(struct run *w)
{
    sampler_free(w->sampler);
    space_free(w->space);
    kit_clear();
}

static struct trial *ask(struct run *w)
{
    struct trial_view v = kit_view();
    json_t *p = sampler_next(w->sampler, &v);
    CHECK(p != NULL);
    return kit_add(p);
}

struct problem {
    const char *space;
    int trials, batch; /* trials at once */
    double (*fn)(const json_t *params);
};

/* The best value of `trials` trials. */
static double search(const struct problem *p, const struct sampler_ops *ops, uint64_t seed)
{
    enum { BATCH_MAX = 8 };
    struct run w;
    struct trial *t[BATCH_MAX];
    double best = INFINITY;
    begin(&w, ops, p->space, 1, seed);
    for (int i = 0; i < p->trials; i += p->batch) {
        for (int k = 0; k < p->batch; k++)
            t[k] = ask(&w);
        for (int k = 0; k < p->batch; k++) {
            double v = p->fn(t[k]->params);
            best = fmin(best, v);
            kit_done(t[k], v);
        }
    }
    end(&w);
    return best;
}

static double branin(const json_t *p)
{
    double x = kit_number(p, "x"), y = kit_number(p, "y");
    double a = y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6;
    return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10 - 0.39788735772973816;
}

TEST(the_least_of_branin_is_found_to_a_thousandth_in_40_trials_from_any_seed)
{
    struct problem p = {"[{'name':'x','type':'float','low':-5,'high':10},"
                        "{'name':'y','type':'float','low':0,'high':15}]",
                        40, 1, branin};
    for (uint64_t seed = 0; seed < KIT_SEEDS; seed++) {
        double best = search(&p, kit_sampler("bayes"), seed);
        printf("# seed %d: regret %.2e\n", (int)seed, best);
        CHECK(best < 1e-3);
    }
}

static double sphere(const json_t *p)
{
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        char name[] = {(char)('a' + i), 0};
        sum += pow(kit_number(p, name) - 0.1 - 0.08 * i, 2);
    }
    return sum;
}

static double search_sphere(const struct sampler_ops *ops, int trials, int batch, uint64_t seed)
{
    AUTO(json) json_t *list = json_array();
    for (int i = 0; i < 10; i++) {
        char name[] = {(char)('a' + i), 0};
        json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:i}", "name", name, "type", "float",
                                              "low", 0, "high", 1));
    }
    AUTO(free) char *space = json_line(list);
    return search(&(struct problem){space, trials, batch, sphere}, ops, seed);
}

TEST(the_least_of_a_sphere_in_ten_dimensions_is_found_in_60_trials)
{
    double best = search_sphere(kit_sampler("bayes"), 60, 1, 1);
    printf("# seed 1: %.2e, at random %.2e\n", best,
           search_sphere(kit_sampler("random"), 60, 1, 1));
    CHECK(best < 1e-2);
}

/* A search that also looks near its running trials for better points, and not only far from them:
 * .0084 in the geometric mean; it was .041 without. */
TEST(eight_at_a_time_its_least_is_nearly_found_in_48_trials)
{
    double sum = 0;
    for (uint64_t seed = 0; seed < KIT_SEEDS; seed++) {
        double best = search_sphere(kit_sampler("bayes"), 48, 8, seed);
        printf("# seed %d: %.2e\n", (int)seed, best);
        sum += log(best);
    }
    CHECK(exp(sum / KIT_SEEDS) < 0.02);
}

/* The minimum is -3.86278 (Dixon & Szego 1978). */
static double hartmann3(const json_t *p)
{
    static const double weight[4] = {1, 1.2, 3, 3.2},
                        a[4][3] = {{3, 10, 30}, {0.1, 10, 35}, {3, 10, 30}, {0.1, 10, 35}},
                        at[4][3] = {{.3689, .1170, .2673},
                                    {.4699, .4387, .7470},
                                    {.1091, .8732, .5547},
                                    {.0381, .5743, .8828}};
    const double x[3] = {kit_number(p, "x"), kit_number(p, "y"), kit_number(p, "z")};
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        double off = 0;
        for (int k = 0; k < 3; k++)
            off += a[i][k] * pow(x[k] - at[i][k], 2);
        sum -= weight[i] * exp(-off);
    }
    return sum;
}

/* A model whose noise has no floor of 1e-6: 9e-7 in the geometric mean, 1e-5 with the floor. */
TEST(eight_at_a_time_the_least_of_hartmann_3_is_found_to_some_millionths_in_96_trials)
{
    struct problem p = {"[{'name':'x','type':'float','low':0,'high':1},"
                        "{'name':'y','type':'float','low':0,'high':1},"
                        "{'name':'z','type':'float','low':0,'high':1}]",
                        96, 8, hartmann3};
    double sum = 0;
    for (uint64_t seed = 1; seed <= KIT_SEEDS; seed++) {
        double regret = search(&p, kit_sampler("bayes"), seed) + 3.8627797874;
        printf("# seed %d: %.2e\n", (int)seed, regret);
        sum += log(fmax(regret, 1e-10));
    }
    CHECK(exp(sum / KIT_SEEDS) < 4e-6);
}

static const char mixed[] =
    "[{'name':'solver','type':'cat','choices':['sgd','adam','lbfgs','rprop']},"
    "{'name':'width','type':'cat','choices':[256,16,64,32,128]},"
    "{'name':'layers','type':'int','low':1,'high':12},"
    "{'name':'batch','type':'int','low':8,'high':1024,'log':true},"
    "{'name':'nesterov','type':'cat','choices':[true,false],"
    "'when':{'param':'solver','in':['sgd']}}]";

/* 0 at adam, 64, 7 and a batch of 100. */
static double tuning(const json_t *p)
{
    const char *solver = kit_text(p, "solver");
    double v = *solver == 'a' ? 0 : *solver == 's' ? 0.3 : 1;
    v += json_is_true(json_object_get(p, "nesterov")) ? -0.1 : 0;
    v += 0.2 * pow(log2(kit_number(p, "width") / 64), 2);
    v += 0.05 * pow(kit_number(p, "layers") - 7, 2);
    return v + 0.4 * pow(log2(kit_number(p, "batch") / 100), 2);
}

TEST(the_best_of_a_mixed_space_is_found_exactly_in_60_trials)
{
    for (uint64_t seed = 0; seed < (KIT_SEEDS + 1) / 2; seed++) {
        struct problem p = {mixed, 60, 1, tuning};
        double best = search(&p, kit_sampler("bayes"), seed);
        printf("# seed %d: %.2e\n", (int)seed, best);
        CHECK_NEAR(best, 0, 0);
    }
}

/* ---- trials that fail ----------------------------------------------------------------------- */

static const char memory[] = "[{'name':'batch','type':'int','low':1,'high':512,'log':true},"
                             "{'name':'width','type':'int','low':16,'high':4096,'log':true},"
                             "{'name':'layers','type':'int','low':1,'high':32,'log':true},"
                             "{'name':'lr','type':'float','low':0.00001,'high':0.1,'log':true}]";

struct outcome {
    int failures, late; /* late: in the second half */
    double best;
};

/* Weights and activations: a seventh of the space has no room for them. It gets better with width,
 * so that the best, 0.835, is at the edge. */
static struct outcome train(uint64_t seed, int trials)
{
    struct run w;
    struct outcome o = {.best = INFINITY};
    begin(&w, kit_sampler("bayes"), memory, 1, seed);
    for (int i = 0; i < trials; i++) {
        struct trial *t = ask(&w);
        double batch = kit_number(t->params, "batch"), width = kit_number(t->params, "width");
        double layers = kit_number(t->params, "layers");
        double loss = 3 - 0.2 * log2(width) + 0.05 * pow(log2(layers) - 3, 2) +
                      0.02 * pow(log2(batch) - 5, 2) +
                      0.1 * pow(log10(kit_number(t->params, "lr")) + 3, 2);
        if (16 * layers * width * width + 8 * batch * width * layers > 3e8) {
            o.failures++;
            o.late += i >= trials / 2;
            kit_end(t, TRIAL_OOM);
        } else {
            o.best = fmin(o.best, loss);
            kit_done(t, loss);
        }
    }
    end(&w);
    return o;
}

TEST(where_memory_ends_is_learnt_and_the_search_goes_on_within)
{
    for (uint64_t seed = 0; seed < (KIT_SEEDS + 3) / 4; seed++) {
        struct outcome o = train(seed, 60);
        printf("# seed %d: %d failures of 60, %d of the last 30, best %.3f\n", (int)seed,
               o.failures, o.late, o.best);
        CHECK(o.failures <= 12 && o.best < 1.7);
    }
}

/* ---- several objectives --------------------------------------------------------------------- */

static const char cube[] = "[{'name':'a','type':'float','low':0,'high':1},"
                           "{'name':'b','type':'float','low':0,'high':1},"
                           "{'name':'c','type':'float','low':0,'high':1},"
                           "{'name':'d','type':'float','low':0,'high':1}]";

/* ZDT1 of Zitzler, Deb & Thiele 2000 in four dimensions: the front is b = c = d = 0. */
static void zdt1(const json_t *p, double y[2])
{
    double g = 1 + 3 * (kit_number(p, "b") + kit_number(p, "c") + kit_number(p, "d"));
    y[0] = kit_number(p, "a");
    y[1] = g * (1 - sqrt(y[0] / g));
}

static void done(struct trial *t, const double *y, size_t n)
{
    AUTO(json) json_t *v = json_object();
    for (size_t g = 0; g < n; g++)
        json_object_set_new(v, objectives[g].metric, json_real(y[g]));
    trial_report(t, 1, v, "y", false);
    kit_end(t, TRIAL_DONE);
}

static double volume(const struct sampler_ops *ops, size_t batch, uint64_t seed)
{
    enum { TRIALS = 48 };
    struct run w;
    double y[2 * TRIALS], ref[] = {1.1, 11};
    begin(&w, ops, cube, 2, seed);
    struct trial *t[TRIALS];
    for (size_t i = 0; i < TRIALS; i++) {
        t[i] = ask(&w);
        for (size_t k = i + 1 - batch; (i + 1) % batch == 0 && k <= i; k++) {
            zdt1(t[k]->params, y + 2 * k);
            done(t[k], y + 2 * k, 2);
        }
    }
    end(&w);
    return hypervolume(y, TRIALS, 2, ref);
}

TEST(for_two_goals_the_front_is_nearer_than_that_of_random_trials_from_any_seed)
{
    for (uint64_t seed = 0; seed < KIT_SEEDS; seed++) {
        double bayes = volume(kit_sampler("bayes"), 1, seed),
               random = volume(kit_sampler("random"), 1, seed);
        double eight = volume(kit_sampler("bayes"), 8, seed);
        printf("# seed %d: hypervolume %.3f, eight at a time %.3f, random %.3f, of 11.76 at most\n",
               (int)seed, bayes, eight, random);
        CHECK(bayes > random + 1 && eight > random + 1);
    }
}

TEST(three_goals_are_each_improved)
{
    struct run w;
    double best[3] = {INFINITY, INFINITY, INFINITY};
    begin(&w, kit_sampler("bayes"), cube, 3, 1);
    for (int i = 0; i < 40; i++) {
        struct trial *t = ask(&w);
        double y[3] = {0, 0, 0};
        for (int g = 0; g < 3; g++) {
            double to = 0.2 + 0.3 * g;
            y[g] = pow(kit_number(t->params, "a") - to, 2) +
                   pow(kit_number(t->params, "b") - to, 2) +
                   pow(kit_number(t->params, "c") - 0.5, 2) / 4;
            best[g] = fmin(best[g], y[g]);
        }
        done(t, y, 3);
    }
    printf("# best: %.4f %.4f %.4f\n", best[0], best[1], best[2]);
    for (int g = 0; g < 3; g++)
        CHECK(best[g] < 0.02);
    end(&w);
}
