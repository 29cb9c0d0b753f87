#include "collectives/bench/analysis/pairs.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

enum { NODES_MAX = 40, SEEDS = 1000 };

TEST(all_pairs_meet_once_and_nobody_is_in_two_at_a_time)
{
    for (int n = 0; n <= NODES_MAX; n++) {
        int met[NODES_MAX][NODES_MAX] = {0};
        for (int round = 0; round < pairs_rounds(n); round++) {
            int idle = 0;
            for (int i = 0; i < n; i++) {
                int other = pairs_partner(n, round, i);
                idle += other < 0;
                if (other < 0)
                    continue;
                CHECK(other != i && other < n);
                CHECK_INT(pairs_partner(n, round, other), i);
                met[i][other]++;
            }
            CHECK_INT(idle, n % 2);
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                CHECK_INT(met[i][j], i != j);
    }
}

TEST(ranks_of_the_same_number_on_each_node_are_a_rail)
{
    const char *const hosts[] = {"a", "a", "b", "b", "b", "c", "c"};
    int ranks[7], n = 0;
    CHECK_INT(pairs_rails(ranks, &n, hosts, 7), 2); /* b's third rank has no counterpart */
    CHECK_INT(n, 3);
    static const int expected[] = {0, 2, 5, 1, 3, 6};
    for (int i = 0; i < 6; i++)
        CHECK_INT(ranks[i], expected[i]);
}

TEST(ranks_that_go_round_the_nodes_are_in_the_same_rails)
{
    const char *const hosts[] = {"a", "b", "a", "b"};
    int ranks[4], n = 0;
    CHECK_INT(pairs_rails(ranks, &n, hosts, 4), 2);
    static const int expected[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        CHECK_INT(ranks[i], expected[i]);
}

TEST(the_ranks_of_a_single_node_are_one_rail)
{
    const char *const hosts[] = {"a", "a", "a"};
    int ranks[3], n = 0;
    CHECK_INT(pairs_rails(ranks, &n, hosts, 3), 1);
    CHECK_INT(n, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(ranks[i], i);
    CHECK_INT(pairs_rails(ranks, &n, hosts, 1), 1);
    CHECK_INT(n, 1);
}

/* Rates around 12 GB/s with a relative deviation of `noise` (Box and Muller 1958). */
static void noisy(double *rates, int n, double noise, struct rng *r)
{
    for (int i = 0; i < n * n; i++) {
        double normal = sqrt(-2 * log(1 - rng_unit(r))) * cos(2 * M_PI * rng_unit(r));
        rates[i] = 12 * exp(noise * normal);
    }
}

static int size_of(struct rng *r)
{
    return 4 + (int)rng_below(r, 13);
}

TEST(where_nothing_is_slow_nothing_is_named_in_99_of_100)
{
    static const double noises[] = {0.005, 0.02, 0.05};
    for (size_t k = 0; k < 3; k++) {
        int named = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            double rates[NODES_MAX * NODES_MAX];
            struct rng r;
            struct pairs_slow s;
            rng_seed(&r, (uint64_t)seed, k);
            int n = size_of(&r);
            noisy(rates, n, noises[k], &r);
            pairs_judge(&s, rates, n);
            named += s.node_count + s.link_count > 0;
            pairs_slow_free(&s);
        }
        if (named >= SEEDS / 100)
            FAIL("noise %g: %d of %d", noises[k], named, SEEDS);
    }
}

TEST(a_slow_link_is_named_among_noise_and_nothing_else)
{
    int missed = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        double rates[NODES_MAX * NODES_MAX];
        struct rng r;
        struct pairs_slow s;
        rng_seed(&r, (uint64_t)seed, 3);
        int n = size_of(&r), a = (int)rng_below(&r, (uint64_t)n), b = (a + 1) % n;
        noisy(rates, n, 0.03, &r);
        rates[a * n + b] *= 0.5; /* one direction is enough */
        pairs_judge(&s, rates, n);
        bool right = s.node_count == 0 && s.link_count == 1 && s.links[0][0] == (a < b ? a : b) &&
                     s.links[0][1] == (a < b ? b : a);
        missed += !right;
        pairs_slow_free(&s);
        if (missed > SEEDS / 100)
            FAIL("seed %d: the %dth that is missed", seed, missed);
    }
}

TEST(a_slow_node_is_named_among_noise_and_none_of_its_links)
{
    int missed = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        double rates[NODES_MAX * NODES_MAX];
        struct rng r;
        struct pairs_slow s;
        rng_seed(&r, (uint64_t)seed, 4);
        int n = size_of(&r), bad = (int)rng_below(&r, (uint64_t)n);
        noisy(rates, n, 0.03, &r);
        for (int i = 0; i < n; i++) {
            rates[bad * n + i] *= 0.5;
            rates[i * n + bad] *= 0.5;
        }
        pairs_judge(&s, rates, n);
        missed += s.node_count != 1 || s.link_count != 0 || s.nodes[0] != bad;
        pairs_slow_free(&s);
        if (missed > SEEDS / 100)
            FAIL("seed %d: the %dth that is missed", seed, missed);
    }
}

TEST(a_third_of_the_rate_is_slow_however_unlike_the_others_are)
{
    static const double rates[] = {0, 22, 15, 24, 22, 0, 7, 18, 15, 7, 0, 23, 24, 18, 23, 0};
    struct pairs_slow s;
    pairs_judge(&s, rates, 4);
    CHECK_INT(s.node_count, 0);
    CHECK_INT(s.link_count, 1);
    CHECK(s.links[0][0] == 1 && s.links[0][1] == 2);
    pairs_slow_free(&s);
}

TEST(three_nodes_are_enough_to_tell_a_link_from_a_node)
{
    struct pairs_slow s;
    pairs_judge(&s, (const double[]){0, 10, 10, 10, 0, 2, 10, 2, 0}, 3);
    CHECK_INT(s.node_count, 0);
    CHECK_INT(s.link_count, 1);
    CHECK_INT(s.links[0][0], 1);
    CHECK_INT(s.links[0][1], 2);
    pairs_slow_free(&s);
    pairs_judge(&s, (const double[]){0, 2, 2, 2, 0, 10, 2, 10, 0}, 3);
    CHECK_INT(s.node_count, 1);
    CHECK_INT(s.nodes[0], 0);
    CHECK_INT(s.link_count, 0);
    CHECK_NEAR(s.usual, 10, 0);
    pairs_slow_free(&s);
}

TEST(of_one_or_two_nodes_none_is_slow)
{
    struct pairs_slow s;
    for (int n = 0; n <= 2; n++) {
        pairs_judge(&s, (const double[]){0, 1, 100, 0}, n);
        CHECK_INT(s.node_count + s.link_count, 0);
        pairs_slow_free(&s);
    }
}

TEST(two_slow_nodes_and_a_slow_link_are_told_apart)
{
    enum { N = 8 };
    double rates[N * N];
    struct pairs_slow s;
    for (int i = 0; i < N * N; i++)
        rates[i] = 10 + 0.01 * (i * 7 % 11);
    for (int i = 0; i < N; i++)
        rates[2 * N + i] = rates[i * N + 5] = 3;
    rates[0 * N + 7] = 4;
    pairs_judge(&s, rates, N);
    CHECK_INT(s.node_count, 2);
    CHECK((s.nodes[0] == 2 && s.nodes[1] == 5) || (s.nodes[0] == 5 && s.nodes[1] == 2));
    CHECK_INT(s.link_count, 1);
    CHECK_INT(s.links[0][0], 0);
    CHECK_INT(s.links[0][1], 7);
    pairs_slow_free(&s);
}

TEST(rates_of_which_some_are_below_half_of_others_are_uneven_though_nobody_is_slow)
{
    double rates[16];
    struct pairs_slow s;
    for (int k = 0; k < 2; k++) { /* node 0 is slow, and this time two pairs of other nodes too */
        for (int i = 0; i < 16; i++)
            rates[i] = i < 4 || i % 4 == 0 ? 12 : 40;
        if (k == 0)
            rates[1 * 4 + 2] = rates[2 * 4 + 1] = rates[1 * 4 + 3] = rates[3 * 4 + 1] = 13;
        pairs_judge(&s, rates, 4);
        CHECK(s.uneven);
        CHECK_INT(s.node_count, k);
        pairs_slow_free(&s);
    }
    for (int i = 0; i < 16; i++)
        rates[i] = 40 - i;
    pairs_judge(&s, rates, 4);
    CHECK(!s.uneven);
    pairs_slow_free(&s);
}

TEST(two_verdicts_are_the_same_when_they_name_the_same)
{
    static const struct {
        double rates[9];
        bool same;
    } with[] = {{{0, 10, 10, 10, 0, 2, 10, 2, 0}, true},
                {{0, 9, 9, 9, 0, 3, 9, 3, 0}, true},
                {{0, 2, 2, 2, 0, 10, 2, 10, 0}, false},   /* a node */
                {{0, 2, 10, 2, 0, 10, 10, 10, 0}, false}, /* another link */
                {{0, 10, 10, 10, 0, 10, 10, 10, 0}, false}};
    struct pairs_slow a, b;
    pairs_judge(&a, with[0].rates, 3);
    for (size_t i = 0; i < COUNT_OF(with); i++) {
        pairs_judge(&b, with[i].rates, 3);
        CHECK_INT(pairs_same(&a, &b), with[i].same);
        CHECK_INT(pairs_same(&b, &a), with[i].same);
        pairs_slow_free(&b);
    }
    pairs_slow_free(&a);
}

TEST(the_map_has_colours_only_on_a_terminal_and_names_what_is_slow)
{
    static const double rates[] = {0, 10, 10, 10, 0, 2, 10, 3, 0}, us[9] = {0, 5, 6, 5, 0, 7, 6, 7};
    static const char *const names[] = {"c01", "c02", "c03"};
    struct pairs_map m = {rates, us, names, 3, false};
    struct pairs_slow s;
    struct strbuf b = {0};
    pairs_judge(&s, rates, 3);
    pairs_show(&b, &m, &s);
    CHECK_HAS(strbuf_str(&b), "  1        c02     10.0          .      2.000---\n");
    CHECK_HAS(strbuf_str(&b), "# slow link: 1 c02 - 2 c03: 2 and 3 GB/s, others 10 GB/s (20 %)\n");
    CHECK(!strchr(strbuf_str(&b), '\033'));
    strbuf_reset(&b);
    m.color = true;
    pairs_show(&b, &m, &s);
    CHECK_HAS(strbuf_str(&b), "\033[48;5;160;30m");
    strbuf_free(&b);
    pairs_slow_free(&s);
}
