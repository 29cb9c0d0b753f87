/* test_stop_sim - early stopping on whole searches: recorded and synthetic curves, 8 workers.
 *
 * 200 trainings of 81 epochs in an order drawn by seed; an epoch is a unit of cost. The cost
 * of a rule is a share of all epochs; its result is normalised: 0 is the best training of all, 1
 * the median one. STOP_SIM=20 runs 20 seeds and prints the table. */
#include <math.h>

#include "common/json.h"
#include "common/rng.h"
#include "hpo/stoppers/stopper.h"
#include "tests/unit/kit_stopper.h"
#include "tests/unit/test.h"

enum { CURVES = 200, EPOCHS = 81, WORKERS = 8 };

static double curves[CURVES][EPOCHS];
static bool maximize;

/* ---- curves --------------------------------------------------------------------------------- */

struct law { /* of a synthetic training: its end, its gain, its speed */
    double end, gain, speed;
};

static double normal(struct rng *r)
{
    return sqrt(-2 * log(1 - rng_unit(r))) * cos(2 * M_PI * rng_unit(r));
}

static double between(struct rng *r, double low, double high)
{
    return low * pow(high / low, rng_unit(r));
}

static double power(const struct law *l, int epoch)
{
    return l->end + l->gain * pow(epoch, -l->speed);
}

static double plain(const struct law *l, int epoch, struct rng *r)
{
    return power(l, epoch);
}

static double noisy(const struct law *l, int epoch, struct rng *r)
{
    return power(l, epoch) * exp(0.05 * normal(r));
}

/* A training that learns fast ends high. */
static double crossing(const struct law *l, int epoch, struct rng *r)
{
    struct law c = *l;
    c.end = 0.05 + 0.5 * pow(l->speed / 1.3, 0.7) * (0.6 + 0.5 * fmod(l->end * 1000, 1));
    return power(&c, epoch);
}

/* The learning rate drops at epoch 51, which helps some more than others. */
static double dropping(const struct law *l, int epoch, struct rng *r)
{
    double gain = epoch > 50 ? 0.6 + 0.35 * fmod(l->end * 1000, 1) : 1;
    return power(l, epoch) * gain * exp(0.01 * normal(r));
}

static double accuracy(const struct law *l, int epoch, struct rng *r)
{
    double top = 0.99 - 0.4 * l->end;
    double y = top - fmin(top - 0.1, l->gain / 3) * pow(epoch, -l->speed) + 0.005 * normal(r);
    return fmin(fmax(y, 0), 1);
}

static double reward(const struct law *l, int epoch, struct rng *r)
{
    return -1000 * l->end - 500 * l->gain * pow(epoch, -l->speed) + 15 * normal(r);
}

static double exponential(const struct law *l, int epoch, struct rng *r)
{
    return l->end + l->gain * exp(-epoch * l->speed / 10);
}

static const struct family {
    const char *name;
    double (*at)(const struct law *l, int epoch, struct rng *r); /* NULL: the recorded ones */
    bool maximize;
} families[] = {{"digits", NULL, false},       {"power", plain, false},
                {"noisy", noisy, false},       {"crossing", crossing, false},
                {"dropping", dropping, false}, {"accuracy", accuracy, true},
                {"reward", reward, true},      {"exponential", exponential, false}};

static void read_recorded(void)
{
    AUTO(file) FILE *f = fopen("scripts/bench/data/digits_curves.txt", "re");
    if (!f)
        FAIL("no recorded curves: run it in the project's directory");
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    for (int i = 0; getline(&line, &cap, f) > 0 && i < CURVES;) {
        long sum = 0;
        char *at = line;
        for (int e = 0; e < EPOCHS && line[0] != '#'; e++)
            curves[i][e] = (double)(sum += strtol(at, &at, 10)) / 1e5;
        i += line[0] != '#';
    }
}

static void make_curves(const struct family *f, int seed)
{
    maximize = f->maximize;
    if (!f->at) {
        read_recorded();
        return;
    }
    struct rng r;
    rng_seed(&r, (uint64_t)seed, 77);
    for (int i = 0; i < CURVES; i++) {
        struct law l = {between(&r, 0.05, 0.8), between(&r, 0.5, 3), between(&r, 0.2, 1.3)};
        for (int e = 0; e < EPOCHS; e++)
            curves[i][e] = f->at(&l, e + 1, &r);
    }
}

/* ---- a search ------------------------------------------------------------------------------- */

static struct search {
    struct stopper *rule;
    struct trial *trials[CURVES];
    int order[CURVES], count;
    struct turn {
        int at, worker;
        struct trial *trial; /* NULL: the worker idles */
    } turns[WORKERS];
    int used;
    double best;
} s;

static struct trial_view view(void)
{
    return (struct trial_view){(const struct trial *const *)s.trials, (size_t)s.count};
}

static struct trial *new_trial(void)
{
    AUTO(json) json_t *params = json_object();
    struct trial *t = s.trials[s.count] = trial_new(s.count, params, 0);
    s.count++;
    t->lease = 1;
    return t;
}

/* The trial that a free worker gets; NULL: none. */
static struct trial *next_trial(void)
{
    struct trial_view v = view();
    int id = stopper_resume(s.rule, maximize, &v, false);
    if (id < 0 && s.count < CURVES)
        return new_trial();
    if (id < 0)
        id = stopper_resume(s.rule, maximize, &v, true);
    if (id < 0)
        return NULL;
    s.trials[id]->resumed_at = s.trials[id]->curve.points[s.trials[id]->curve.count - 1].step;
    return s.trials[id];
}

/* One epoch of a turn's trial. */
static void work(struct turn *turn)
{
    static const enum trial_state after[] = {[STOPPER_CONTINUE] = TRIAL_RUNNING,
                                             [STOPPER_STOP] = TRIAL_PRUNED,
                                             [STOPPER_PAUSE] = TRIAL_PAUSED};
    struct trial *t = turn->trial;
    int epoch = (int)t->curve.count + 1;
    double y = curves[s.order[t->id]][epoch - 1];
    AUTO(json) json_t *values = json_pack("{s:f}", "m", y);
    trial_report(t, epoch, values, "m", maximize);
    s.used++;
    struct trial_view v = view();
    t->state = after[stopper_judge(s.rule, maximize, &v, t)];
    if (epoch == EPOCHS) {
        t->state = TRIAL_DONE;
        s.best = isnan(s.best) || (maximize ? y > s.best : y < s.best) ? y : s.best;
    }
    turn->at++;
    if (t->state != TRIAL_RUNNING)
        turn->trial = NULL;
}

static void search(const char *rule, int seed)
{
    AUTO(stopper) struct stopper *stopper = kit_stopper(rule);
    s = (struct search){.rule = stopper, .best = NAN};
    struct rng r;
    rng_seed(&r, (uint64_t)seed, 5);
    for (int i = 0; i < CURVES; i++) { /* a shuffled order */
        int j = (int)rng_below(&r, (uint64_t)i + 1);
        s.order[i] = s.order[j];
        s.order[j] = i;
    }
    for (int now = 0;;) {
        struct turn *first = NULL;
        bool left = true; /* there is work for idle workers */
        for (struct turn *t = s.turns; t < s.turns + WORKERS; t++) {
            if (!t->trial && left && (left = (t->trial = next_trial()))) {
                t->trial->state = TRIAL_RUNNING;
                t->at = now + 1;
            }
            if (t->trial && (!first || t->at < first->at))
                first = t;
        }
        if (!first)
            break;
        now = first->at;
        work(first);
    }
    for (int i = 0; i < s.count; i++)
        trial_free(s.trials[i]);
}

/* ---- results -------------------------------------------------------------------------------- */

struct worth {
    double used, regret; /* means over the seeds */
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct worth worth_of(const struct family *f, const char *rule)
{
    struct worth w = {0};
    const char *table = getenv("STOP_SIM");
    int seeds = table ? atoi(table) : f->at ? 2 : 8;
    for (int seed = 0; seed < seeds; seed++) {
        double ends[CURVES];
        make_curves(f, seed);
        search(rule, seed);
        for (int i = 0; i < CURVES; i++)
            ends[i] = maximize ? -curves[i][EPOCHS - 1] : curves[i][EPOCHS - 1];
        qsort(ends, CURVES, sizeof *ends, ascending);
        double found = maximize ? -s.best : s.best;
        if (isnan(found))
            FAIL("%s, seed %d: no training went the whole way", f->name, seed);
        w.regret += (found - ends[0]) / (ends[CURVES / 2] - ends[0]) / seeds;
        w.used += (double)s.used / (CURVES * EPOCHS) / seeds;
    }
    if (table)
        printf("# %-12s %s %5.1f%% of the epochs, regret %.2f%%\n", f->name, rule, 100 * w.used,
               100 * w.regret);
    return w;
}

#define CURVE "{'type':'curve','min_iter':2,'eta':2"
static const char curve[] = CURVE ",'keep':0.33,'max_iter':81}"; /* EPOCHS */
static const char asha[] = "{'type':'asha','min_iter':3,'eta':3}";
static const char hyperband[] = "{'type':'hyperband','min_iter':3,'eta':3}";

TEST(curve_finds_the_best_recorded_training_for_a_fourteenth_of_the_epochs)
{
    struct worth c = worth_of(&families[0], curve), a = worth_of(&families[0], asha);
    CHECK(c.used < 0.07);
    CHECK_NEAR(c.regret, 0, 0);
    CHECK(a.used > 0.11 && a.regret > 0.004);
}

TEST(curve_spends_half_of_what_halving_does_on_curves_of_many_kinds)
{
    double ours = 0, theirs = 0, regret = 0;
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        struct worth c = worth_of(&families[f], curve);
        ours += c.used;
        regret += c.regret / COUNT_OF(families);
        theirs += fmin(worth_of(&families[f], asha).used, worth_of(&families[f], hyperband).used);
        CHECK(c.regret < 0.05);
    }
    CHECK(ours < 0.55 * theirs);
    CHECK(regret < 0.015);
}

static void check_all(const char *rule, double used, double regret)
{
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        struct worth w = worth_of(&families[f], rule);
        CHECK(w.used < used && w.regret < regret);
    }
}

TEST(curve_does_without_knowing_how_long_a_training_is)
{
    check_all(CURVE ",'keep':0.33}", 0.12, 0.05);
}

TEST(a_large_share_misses_next_to_nothing)
{
    check_all(CURVE ",'keep':0.6,'max_iter':81}", 0.25, 0.01);
}
