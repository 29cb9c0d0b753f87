/* straggler: slow ranks are found, and healthy ones are not. */
#include "launcher/watch/straggler.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

enum { RANKS = 8, HEALTHY_STEPS = 1000, SEEDS = 5, FIND_STEPS = 20 };

/* How the times of a step vary. */
struct jitter {
    const char *name;
    double each;   /* standard deviation of each rank's time */
    double common; /* of a factor that all ranks have in a step, such as long and short batches */
    double spikes; /* share of the times that are three times as long */
};

static const struct jitter jitters[] = {
    {"exact", 0, 0, 0},        {"5 %", 0.05, 0, 0},
    {"10 %", 0.1, 0, 0},       {"long and short steps", 0.03, 0.3, 0},
    {"spikes", 0.05, 0, 0.05},
};

static double normal(struct rng *r)
{
    double u = 1 - rng_unit(r), v = rng_unit(r);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Adds one step of all ranks. Rank `slow` needs `factor` times as long. */
static void add_step(struct straggler *s, struct rng *r, const struct jitter *j, int slow,
                     double factor)
{
    double step_s = 0.314 * exp(j->common * normal(r));
    for (int i = 0; i < RANKS; i++) {
        double t = step_s * (1 + j->each * normal(r)) * (rng_unit(r) < j->spikes ? 3 : 1);
        straggler_add(s, i, "step", i == slow ? t * factor : t, 0.002);
    }
}

TEST(healthy_ranks_are_not_reported_in_a_thousand_jittery_steps)
{
    for (size_t k = 0; k < sizeof jitters / sizeof *jitters; k++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            AUTO(straggler) struct straggler *s = straggler_new(RANKS);
            struct straggler_change c;
            struct rng r;
            rng_seed(&r, seed, k);
            for (int step = 0; step < HEALTHY_STEPS; step++) {
                add_step(s, &r, &jitters[k], -1, 1);
                if (straggler_next(s, &c))
                    FAIL("%s, seed %llu: rank %d at step %d: %g", jitters[k].name,
                         (unsigned long long)seed, c.rank, step, c.ratio);
            }
        }
}

/* Returns after how many slow steps rank 3 is found, or -1. */
static int find(struct straggler *s, struct rng *r, const struct jitter *j,
                struct straggler_change *c)
{
    for (int step = 1; step <= 100; step++) {
        add_step(s, r, j, 3, 1.3);
        if (straggler_next(s, c))
            return c->rank == 3 && c->slow ? step : -1;
    }
    return -1;
}

TEST(a_rank_that_is_1_3_times_slower_is_found_within_20_steps_from_the_start_and_later)
{
    for (size_t k = 0; k < sizeof jitters / sizeof *jitters; k++)
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            for (int healthy = 0; healthy <= 200; healthy += 200) {
                AUTO(straggler) struct straggler *s = straggler_new(RANKS);
                struct straggler_change c;
                struct rng r;
                if (jitters[k].each > 0.05) /* 10 %: it takes longer */
                    continue;
                rng_seed(&r, seed, 100 + k);
                for (int step = 0; step < healthy; step++) {
                    add_step(s, &r, &jitters[k], -1, 1);
                    CHECK(!straggler_next(s, &c));
                }
                int steps = find(s, &r, &jitters[k], &c);
                if (steps < 0 || steps > FIND_STEPS)
                    FAIL("%s, seed %llu: found after %d steps", jitters[k].name,
                         (unsigned long long)seed, steps);
                CHECK_STR(c.what, "step");
                CHECK(c.ratio > 1.1 && c.ratio < 1.5 && c.spread < 0.1);
                CHECK(c.seconds > c.others && !straggler_next(s, &c));
            }
}

TEST(in_noise_a_slow_rank_is_found_from_more_steps)
{
    static const struct jitter noisy = {"15 %", 0.15, 0, 0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        AUTO(straggler) struct straggler *s = straggler_new(RANKS);
        struct straggler_change c;
        struct rng r;
        rng_seed(&r, seed, 7);
        int steps = find(s, &r, &noisy, &c);
        if (steps < 0)
            FAIL("seed %llu: not found", (unsigned long long)seed);
    }
}

TEST(each_change_is_reported_once)
{
    static const struct jitter quiet = {"2 %", 0.02, 0, 0};
    AUTO(straggler) struct straggler *s = straggler_new(RANKS);
    struct straggler_change c;
    struct rng r;
    int changes = 0;
    rng_seed(&r, 1, 1);
    for (int step = 0; step < 300; step++) {
        add_step(s, &r, &quiet, 3, step < 100 || step >= 200 ? 1.4 : 1);
        while (straggler_next(s, &c)) {
            CHECK_INT(c.rank, 3);
            CHECK(c.slow == (changes % 2 == 0));
            changes++;
        }
    }
    CHECK_INT(changes, 3);
}

TEST(the_thing_in_which_a_rank_loses_most_is_named)
{
    AUTO(straggler) struct straggler *s = straggler_new(RANKS);
    struct straggler_change c = {0};
    for (int step = 0; step < 20; step++)
        for (int i = 0; i < RANKS; i++) {
            straggler_add(s, i, "load", i == 5 ? 0.03 : 0.02, 0.002);
            straggler_add(s, i, "compute", i == 5 ? 0.5 : 0.3, 0.002);
            straggler_add(s, i, "wait", i == 5 ? 0.01 : 0.22, 0.002); /* the others wait for it */
        }
    CHECK(!straggler_next(s, &c)); /* the first look; it must last for further steps */
    for (int step = 0; step < 4; step++)
        for (int i = 0; i < RANKS; i++) {
            straggler_add(s, i, "load", i == 5 ? 0.03 : 0.02, 0.002);
            straggler_add(s, i, "compute", i == 5 ? 0.5 : 0.3, 0.002);
        }
    CHECK(straggler_next(s, &c));
    CHECK_INT(c.rank, 5);
    CHECK_STR(c.what, "compute");
    CHECK_NEAR(c.ratio, 0.5 / 0.3, 1e-9);
    CHECK(!straggler_next(s, &c));
}

TEST(groups_that_differ_and_jobs_of_two_ranks_have_no_straggler)
{
    AUTO(straggler) struct straggler *halves = straggler_new(RANKS);
    AUTO(straggler) struct straggler *two = straggler_new(2);
    AUTO(straggler) struct straggler *tiny = straggler_new(RANKS);
    struct straggler_change c;
    for (int step = 0; step < 100; step++) {
        for (int i = 0; i < RANKS; i++) {
            straggler_add(halves, i, "step", i < RANKS / 2 ? 0.2 : 0.4, 0.002);
            straggler_add(tiny, i, "step", i == 3 ? 0.002 : 0.001,
                          0.002); /* scheduling alone does this */
        }
        straggler_add(two, 0, "step", 0.2, 0.002);
        straggler_add(two, 1, "step", 0.4, 0.002);
        CHECK(!straggler_next(halves, &c) && !straggler_next(two, &c) && !straggler_next(tiny, &c));
    }
}

TEST(a_rank_that_has_ended_is_neither_slow_nor_compared_with)
{
    AUTO(straggler) struct straggler *s = straggler_new(4);
    struct straggler_change c;
    for (int step = 0; step < 50; step++) {
        for (int i = 0; i < 4; i++)
            if (i > 0 || step < 6)
                straggler_add(s, i, "step", i == 3 ? 0.5 : 0.3, 0.002);
        if (step == 6)
            straggler_end(s, 0);
        if (straggler_next(s, &c)) {
            CHECK_INT(c.rank, 3);
            straggler_end(s, 3);
        }
    }
    CHECK(!straggler_next(s, &c));
}
