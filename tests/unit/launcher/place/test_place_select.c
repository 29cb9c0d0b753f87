#include "launcher/place/place_select.h"

#include <errno.h>
#include <stdint.h>

#include "common/json.h"
#include "launcher/jobs/history_jobs.h"
#include "launcher/node/topo_path.h"
#include "launcher/place/place_print.h"
#include "tests/unit/launcher/place/kit_place.h"

enum { CASES = 10000, GPUS = 8 };

static struct place_choice choose(const char *job, const struct place_gpu *gpus, int n)
{
    AUTO(place_job) struct place_job *j = kit_job_of(job);
    struct place_choice c;
    struct err e = {0};
    if (place_select(&c, j, gpus, n, false, &e) < 0)
        FAIL("%s", e.text);
    return c;
}

static void link_gpus(struct place_gpu *a, struct place_gpu *b, int links)
{
    CHECK_INT(gpu_count_nvlinks(&a->now.gpu, b->now.gpu.bus_id, links), 0);
    CHECK_INT(gpu_count_nvlinks(&b->now.gpu, a->now.gpu.bus_id, links), 0);
}

/* ---- the terms, one after the other --------------------------------------------------------- */

TEST(the_first_preferred_model_wins)
{
    struct place_gpu g[] = {kit_gpu(0, "NVIDIA GeForce RTX 3090", 24),
                            kit_gpu(1, "Tesla V100-SXM2-32GB", 32),
                            kit_gpu(2, "NVIDIA A100-SXM4-40GB", 40)};
    struct place_choice c =
        choose("preferred_devices: [A100-SXM4-40GB, V100-32GB, RTX_3090]\n", g, 3);
    CHECK_INT(c.gpus[0], 2);
    CHECK_INT(c.terms[PLACE_TERM_PREFERRED], 1000);
    g[2].used = true;
    CHECK_INT(choose("preferred_devices: [A100, V100, RTX_3090]\n", g, 3).gpus[0], 1);
    char *labels[] = {(char *)"own", NULL};
    g[0].labels = labels;
    CHECK_INT(choose("preferred_devices: [own, V100]\n", g, 3).gpus[0], 0);
}

TEST(gpus_with_nvlinks_between_them_go_together)
{
    struct place_gpu g[4];
    for (int i = 0; i < 4; i++)
        g[i] = kit_gpu(i, "A", 40);
    link_gpus(&g[1], &g[3], 4);
    link_gpus(&g[0], &g[2], 2);
    struct place_choice c = choose("num_gpus: 2\n", g, 4);
    CHECK(c.gpus[0] == 1 && c.gpus[1] == 3);
    CHECK_INT(c.terms[PLACE_TERM_NVLINK], 1000);
    g[3].locked = true;
    c = choose("num_gpus: 2\n", g, 4);
    CHECK(c.gpus[0] == 0 && c.gpus[1] == 2);
    CHECK_INT(c.terms[PLACE_TERM_NVLINK], 500);
}

TEST(a_job_that_shares_gets_the_emptiest_of_idle_gpus)
{
    struct place_gpu g[] = {kit_gpu(0, "A", 80), kit_gpu(1, "A", 80), kit_gpu(2, "A", 80)};
    for (int i = 0; i < 2; i++)
        g[i].used = true;
    kit_use(&g[0], 60 * GIB);
    kit_use(&g[1], 20 * GIB);
    CHECK_INT(choose("shared: true\nmemory: 10G\n", g, 3).gpus[0], 2);
    CHECK_INT(choose("shared: true\nmemory: 10G\n", g, 2).gpus[0], 1);
    gpu_sample_set(&g[1].now, GPU_FACT_BUSY, 95);
    CHECK_INT(choose("shared: true\nmemory: 10G\n", g, 2).gpus[0], 0);
}

TEST(a_gpu_that_an_earlier_job_waits_for_is_left_to_it)
{
    struct place_gpu g[] = {kit_gpu(0, "A", 40), kit_gpu(1, "A", 40)};
    struct place_choice c;
    struct err e = {0};
    AUTO(place_job) struct place_job *j = kit_job_of("num_gpus: 2\n");
    g[0].reserved = true;
    CHECK_INT(choose("num_gpus: 1\n", g, 2).gpus[0], 1);
    CHECK_INT(place_select(&c, j, g, 2, false, &e), -EBUSY);
    CHECK_HAS(e.text, "1 reserved for a job that waits for it");
    CHECK_INT(place_select(&c, j, g, 2, true, &e), 0);
}

TEST(shared_gpus_are_chosen_by_load_and_free_memory)
{
    struct place_gpu g[] = {kit_gpu(0, "A", 40), kit_gpu(1, "A", 40), kit_gpu(2, "A", 40)};
    for (int i = 0; i < 3; i++)
        g[i].used = true;
    gpu_sample_set(&g[0].now, GPU_FACT_BUSY, 90);
    gpu_sample_set(&g[1].now, GPU_FACT_BUSY, 20);
    kit_use(&g[2], 38 * GIB);
    struct place_choice c = choose("shared: true\nmemory: 10G\n", g, 3);
    CHECK_INT(c.gpus[0], 1);
    CHECK_INT(c.terms[PLACE_TERM_LOAD], (800 + 1000) / 2);
    CHECK_INT(c.each[2].rule, PLACE_RULE_NO_MEMORY);
    AUTO(place_job) struct place_job *alone = kit_job_of("memory: 10G\n");
    struct err e = {0};
    CHECK_INT(place_select(&c, alone, g, 3, false, &e), -EBUSY);
    CHECK_HAS(e.text, "the job needs 1 GPU: 0 of 3 can be used; 3 in use");
    CHECK_INT(place_select(&c, alone, g, 3, true, &e), 0);
}

TEST(the_goal_chooses_small_or_fast_gpus)
{
    const struct place_gpu g[] = {kit_gpu(0, "NVIDIA H100 80GB HBM3", 80),
                                  kit_gpu(1, "NVIDIA GeForce RTX 3090", 24),
                                  kit_gpu(2, "NVIDIA A100-SXM4-40GB", 40)};
    CHECK_INT(choose("memory: 10G\n", g, 3).gpus[0], 1);
    CHECK_INT(choose("memory: 30G\n", g, 3).gpus[0], 2);
    CHECK_INT(choose("memory: 10G\ngoal: performance\n", g, 3).gpus[0], 0);
}

TEST(a_job_is_packed_or_spread_over_numa_nodes)
{
    struct place_gpu g[4];
    for (int i = 0; i < 4; i++) {
        g[i] = kit_gpu(i, "A", 40);
        g[i].now.gpu.numa = i / 2;
    }
    struct place_choice c = choose("num_gpus: 2\narrangement: spread\n", g, 4);
    CHECK(c.gpus[0] == 0 && c.gpus[1] == 2);
    c = choose("num_gpus: 2\narrangement: pack\n", g, 4);
    CHECK(c.gpus[0] == 0 && c.gpus[1] == 1);
    g[3].used = true;
    CHECK_INT(choose("arrangement: pack\n", g, 4).gpus[0], 2);
    CHECK_INT(choose("arrangement: spread\n", g, 4).gpus[0], 0);
}

TEST(auto_takes_the_fewest_gpus_or_as_many_as_there_are)
{
    struct place_gpu g[4];
    for (int i = 0; i < 4; i++)
        g[i] = kit_gpu(i, "A", 40);
    CHECK_INT(choose("num_gpus: auto\n", g, 4).count, 1);
    CHECK_INT(choose("distributed: true\n", g, 4).count, 2);
    CHECK_INT(choose("num_gpus: auto\ngoal: performance\n", g, 4).count, 4);
    g[1].locked = true;
    CHECK_INT(choose("num_gpus: auto\ngoal: performance\n", g, 4).count, 3);
}

TEST(sharding_lets_a_model_fit_on_more_gpus)
{
    struct place_gpu g[8];
    for (int i = 0; i < 8; i++)
        g[i] = kit_gpu(i, "A", 40);
    /* 3e9 parameters with Adam take 48 GB of states, which ZeRO stage 3 divides. */
    struct place_choice c = choose("params: 3B\nnum_gpus: auto\ndistributed_strategy: zero3\n"
                                   "allow_mixed_precision: true\n",
                                   g, 8);
    CHECK(c.count > 2);
    CHECK(c.need.high_bytes <= 36 * GIB);
    AUTO(place_job)
    struct place_job *ddp = kit_job_of("params: 3B\nnum_gpus: auto\ndistributed_strategy: ddp\n"
                                       "allow_mixed_precision: true\n");
    struct err e = {0};
    CHECK_INT(place_select(&c, ddp, g, 8, true, &e), -EBUSY);
    CHECK_HAS(e.text, "8 too small");
    CHECK(place_select_advise(&c, ddp, g, 8, &e) < 0);
    CHECK_HAS(e.hint, "{distributed_strategy: zero");
}

TEST(measured_peaks_of_earlier_jobs_correct_what_the_job_needs)
{
    const struct place_gpu g[] = {kit_gpu(0, "A", 40)};
    AUTO(place_job)
    struct place_job *j = kit_job_of("params: 1B\nbatch_size_per_gpu: 8\nprecision: bf16\n");
    struct place_choice c;
    struct err e = {0};
    CHECK_INT(place_select(&c, j, g, 1, false, &e), -EBUSY); /* the formula: too small */
    j->earlier.at = xcalloc(2, sizeof *j->earlier.at);
    j->earlier.at[0] = (struct history_job){.batch = 4, .gpus = 1, .peak_bytes = 10 * GIB};
    j->earlier.at[1] = (struct history_job){.batch = 8, .gpus = 1, .peak_bytes = 12 * GIB};
    j->earlier.count = 2;
    CHECK_INT(place_select(&c, j, g, 1, false, &e), 0);
    CHECK(c.need.high_bytes >= 12 * GIB && c.need.high_bytes < 20 * GIB);
    AUTO(strbuf) struct strbuf b = {0};
    place_print_choice(&b, j, g, 1, &c);
    CHECK_HAS(strbuf_str(&b), "per GPU, as measured in earlier jobs\n");
}

TEST(a_set_has_one_model_unless_the_job_allows_more)
{
    const struct place_gpu g[] = {kit_gpu(0, "A", 40), kit_gpu(1, "B", 40), kit_gpu(2, "A", 80)};
    AUTO(place_job) struct place_job *one = kit_job_of("num_gpus: 2\n");
    struct place_choice c;
    struct err e = {0};
    CHECK_INT(place_select(&c, one, g, 3, false, &e), -EBUSY);
    CHECK_HAS(e.text, "2 GPUs of one model");
    CHECK_HAS(e.hint, "mixed_models");
    CHECK_INT(choose("num_gpus: 2\nmixed_models: true\n", g, 3).count, 2);
}

TEST(many_gpus_are_searched_in_a_bounded_time)
{
    struct place_gpu g[PLACE_GPUS_MAX];
    for (int i = 0; i < PLACE_GPUS_MAX; i++) {
        g[i] = kit_gpu(i, "A", 40);
        g[i].now.gpu.numa = i % 8;
    }
    for (int i = 0; i < 32; i++) /* 32 pairs, whose GPUs are far apart in the order */
        link_gpus(&g[i], &g[63 - i], 4);
    struct place_choice c = choose("num_gpus: 16\narrangement: pack\n", g, PLACE_GPUS_MAX);
    CHECK_INT(c.count, 16);
    for (int i = 0; i < 8; i++) /* whole pairs: one of a pair and its partner */
        CHECK_INT(c.gpus[i] + c.gpus[15 - i], 63);
    struct place_choice again = choose("num_gpus: 16\narrangement: pack\n", g, PLACE_GPUS_MAX);
    CHECK(memcmp(c.gpus, again.gpus, 16 * sizeof *c.gpus) == 0);
}

/* ---- random jobs and GPUs ------------------------------------------------------------------- */

static bool chance(struct rng *r, unsigned percent)
{
    return rng_below(r, 100) < percent;
}

static int random_gpus(struct rng *r, struct place_gpu *g)
{
    static const struct {
        const char *name;
        int gib;
    } models[] = {{"NVIDIA A100-SXM4-40GB", 40},
                  {"Tesla V100-SXM2-32GB", 32},
                  {"NVIDIA GeForce RTX 3090", 24},
                  {"Unknown Z1", 8}};
    static char *labels[][3] = {{NULL}, {"own", NULL}, {"rack-a", NULL}, {"own", "rack-a", NULL}};
    int n = 1 + (int)rng_below(r, GPUS), kinds = 1 + (int)rng_below(r, COUNT_OF(models));
    for (int i = 0; i < n; i++) {
        size_t m = rng_below(r, (uint64_t)kinds);
        g[i] = kit_gpu(i, models[m].name, (uint64_t)models[m].gib);
        g[i].now.gpu.numa = (int)rng_below(r, 3) - 1;
        g[i].hidden = chance(r, 10);
        g[i].locked = chance(r, 20);
        g[i].used = chance(r, 20);
        g[i].reserved = chance(r, 10);
        kit_use(&g[i], rng_below(r, g[i].used ? place_gpu_memory(&g[i]) : GIB));
        int busy = (int)rng_below(r, 102) - 1;
        gpu_sample_set(&g[i].now, GPU_FACT_BUSY, busy);
        g[i].now.known[GPU_FACT_BUSY] = busy >= 0;
        g[i].labels = labels[rng_below(r, COUNT_OF(labels))];
        if (chance(r, 20))
            CHECK_INT(gpu_count_nvlinks(&g[i].now.gpu, GPU_NVLINK_SWITCH, 12), 0);
        for (int k = 0; k < i; k++)
            if (chance(r, 20))
                link_gpus(&g[i], &g[k], 1 + (int)rng_below(r, 4));
    }
    return n;
}

static char **random_words(struct rng *r)
{
    static const char *const words[] = {"a100", "V100-32GB", "RTX_3090", "own",
                                        "2",    "GPU-0005",  "z1",       "40GB"};
    char **list = NULL;
    for (uint64_t k = rng_below(r, 4); k > 0; k--)
        strv_push(&list, xstrdup(words[rng_below(r, COUNT_OF(words))]));
    return list;
}

static struct place_job *random_job(struct rng *r)
{
    struct place_job *j = xzalloc(sizeof *j);
    j->name = xstrdup("job");
    j->memory_threshold = (double)(1 + rng_below(r, 100)) / 100;
    j->preferred = random_words(r);
    j->excluded = chance(r, 30) ? random_words(r) : NULL;
    j->gpu_type = chance(r, 15) ? xstrdup("a100") : NULL;
    if (chance(r, 15))
        strv_push(&j->labels, xstrdup("own"));
    j->shared = chance(r, 30);
    j->mixed_models = chance(r, 30);
    j->goal = (enum place_goal)rng_below(r, 2);
    j->arrangement = (enum place_arrangement)rng_below(r, 3);
    j->gpus_min = 1 + (int)rng_below(r, 4);
    j->gpus_max = chance(r, 50) ? j->gpus_min : j->gpus_min + (int)rng_below(r, 8);
    if (chance(r, 50))
        j->memory_bytes = rng_below(r, 45 * GIB);
    j->model = estimate_opts_default();
    j->has_model = chance(r, 30);
    j->model.model = (struct model_shape){.kind = MODEL_PARAMS_ONLY,
                                          .params = 1 + (int64_t)rng_below(r, 3000000000)};
    j->model.zero = (int)rng_below(r, 4);
    return j;
}

/* Tells if the job may use a GPU in a set of `count`, by the text of the manual. */
static bool keeps_rules(const struct place_job *j, const struct place_gpu *g, int count)
{
    struct estimate need;
    struct err e = {0};
    if (place_select_need(&need, j, count, &e) < 0)
        FAIL("%s", e.text);
    for (char **x = j->excluded; x && *x; x++)
        if (place_gpu_is(g, *x))
            return false;
    for (char **l = j->labels; l && *l; l++)
        if (!g->labels || !((g->labels[0] && !strcmp(g->labels[0], *l)) ||
                            (g->labels[0] && g->labels[1] && !strcmp(g->labels[1], *l))))
            return false;
    double usable = (double)place_gpu_memory(g) * j->memory_threshold;
    bool fits = need.high_bytes == 0 ||
                ((double)need.high_bytes <= usable && need.high_bytes <= place_gpu_free(g));
    return fits && !g->hidden && !g->locked && !g->reserved && (!g->used || j->shared) &&
           (!j->gpu_type || place_gpu_is(g, j->gpu_type));
}

static double goal_of(const struct place_job *j, const struct place_gpu *g)
{
    return j->goal == PLACE_COST ? (double)place_gpu_memory(g) : place_gpu_tflops(g);
}

/* The share of the other GPUs on the NUMA node that are in use, in points. */
static int near_points(const struct place_gpu *g, int n, int i)
{
    int others = 0, used = 0;
    for (int k = 0; k < n; k++)
        if (k != i && g[k].now.gpu.numa == g[i].now.gpu.numa) {
            others++;
            used += g[k].used || g[k].locked;
        }
    return others ? 1000 * used / others : 0;
}

/* Computes the points of a set again, from the description of the terms. */
static void points(int *out, const struct place_job *j, const struct place_gpu *g, int n,
                   const int *set, int count)
{
    int preferred = 0, load = 0, goal = 0, near = 0, links = 0, same = 0, pairs = 0, most_links = 0;
    double most = 0;
    for (int i = 0; i < n; i++) {
        most = goal_of(j, &g[i]) > most ? goal_of(j, &g[i]) : most;
        for (int k = 0; k < i; k++)
            if (topo_nvlinks(&g[i].now.gpu, &g[k].now.gpu) > most_links)
                most_links = topo_nvlinks(&g[i].now.gpu, &g[k].now.gpu);
    }
    for (int a = 0; a < count; a++) {
        const struct place_gpu *x = &g[set[a]];
        int words = (int)strv_len(j->preferred), at = 0;
        while (at < words && !place_gpu_is(x, j->preferred[at]))
            at++;
        preferred += words ? (int)((double)(words - at) * 1000 / words) : 0;
        int idle = 10 * (100 - (int)gpu_sample_value(&x->now, GPU_FACT_BUSY, 0));
        int empty = (int)(1000.0 * (double)place_gpu_free(x) / (double)place_gpu_memory(x));
        load += j->shared ? (idle + empty) / 2 : idle;
        int part = most > 0 ? (int)(goal_of(j, x) * 1000 / most) : 0;
        goal += j->goal == PLACE_COST ? 1000 - part : part;
        int used = near_points(g, n, set[a]);
        near += j->arrangement == PLACE_PACK ? used : 1000 - used;
        for (int b = 0; b < a; b++) {
            const struct place_gpu *y = &g[set[b]];
            pairs++;
            links += most_links ? 1000 * topo_nvlinks(&x->now.gpu, &y->now.gpu) / most_links : 0;
            same +=
                (x->now.gpu.numa == y->now.gpu.numa) == (j->arrangement == PLACE_PACK) ? 1000 : 0;
        }
    }
    out[PLACE_TERM_PREFERRED] = preferred / count;
    out[PLACE_TERM_NVLINK] = pairs ? links / pairs : 0;
    out[PLACE_TERM_LOAD] = load / count;
    out[PLACE_TERM_GOAL] = goal / count;
    out[PLACE_TERM_ARRANGEMENT] = j->arrangement == PLACE_ANYWHERE ? 0
                                  : pairs ? (near / count + same / pairs) / 2
                                          : near / count;
}

static int64_t score_of(const int *terms)
{
    static const int weights[] = {10000, 1000, 100, 10, 1};
    int64_t sum = 0;
    for (int t = 0; t < PLACE_TERMS; t++)
        sum += (int64_t)weights[t] * terms[t];
    return sum;
}

/* Returns the best score of all sets of `count` GPUs that keep the rules; -1: there is none. */
static int64_t best_score(const struct place_job *j, const struct place_gpu *g, int n, int count)
{
    int64_t best = -1;
    bool may[GPUS];
    for (int i = 0; i < n; i++)
        may[i] = keeps_rules(j, &g[i], count);
    for (unsigned bits = 1; bits < 1U << n; bits++) {
        int set[GPUS], size = 0, terms[PLACE_TERMS];
        bool allowed = __builtin_popcount(bits) == count;
        for (int i = 0; i < n && allowed; i++)
            if (bits >> i & 1) {
                allowed = may[i] && (j->mixed_models || size == 0 ||
                                     strcmp(g[i].now.gpu.name, g[set[0]].now.gpu.name) == 0);
                set[size++] = i;
            }
        if (!allowed)
            continue;
        points(terms, j, g, n, set, count);
        best = score_of(terms) > best ? score_of(terms) : best;
    }
    return best;
}

static void check_choice(const struct place_job *j, const struct place_gpu *g, int n,
                         const struct place_choice *c)
{
    int terms[PLACE_TERMS], selected = 0;
    CHECK(c->count >= j->gpus_min && c->count <= j->gpus_max);
    for (int i = 0; i < c->count; i++) {
        CHECK(i == 0 || c->gpus[i] > c->gpus[i - 1]);
        CHECK(keeps_rules(j, &g[c->gpus[i]], c->count));
        CHECK(c->each[c->gpus[i]].selected);
        CHECK_INT(c->each[c->gpus[i]].best_score, c->score);
    }
    for (int i = 0; i < n; i++) {
        selected += c->each[i].selected;
        CHECK((c->each[i].rule < 0) == keeps_rules(j, &g[i], c->count));
        CHECK(c->each[i].best_score <= c->score);
    }
    CHECK_INT(selected, c->count);
    points(terms, j, g, n, c->gpus, c->count);
    for (int t = 0; t < PLACE_TERMS; t++)
        CHECK_INT(c->terms[t], terms[t]);
    CHECK_INT(c->score, score_of(terms));
    CHECK_INT(c->score, best_score(j, g, n, c->count));
}

/* The numbers in the printed explanation are those of the choice. */
static void check_text(const struct place_job *j, const struct place_gpu *g, int n,
                       const struct place_choice *c)
{
    AUTO(strbuf) struct strbuf b = {0};
    place_print_choice(&b, j, g, n, c);
    long long score = -1, sum = 0;
    const char *at = strstr(strbuf_str(&b), "\nscore ");
    CHECK(at && sscanf(at, "\nscore %lld", &score) == 1);
    for (int weight, term, end; (at = strpbrk(at, "=+")); at += end)
        if (sscanf(at, "%*c %d x %d %*s%n", &weight, &term, &end) == 2)
            sum += (long long)weight * term;
        else
            FAIL("%s", at);
    CHECK_INT(score, c->score);
    CHECK_INT(sum, c->score);
    int lines = 0, chosen = 0;
    for (at = strbuf_str(&b); (at = strstr(at, "selected")); at++, lines++)
        chosen += at[-1] == ' ' && strncmp(at - 4, "not ", 4) != 0 && at[8] == '\n';
    CHECK_INT(chosen, c->count);
    CHECK(lines >= n);
}

static int64_t best_of_fewer(const struct place_job *j, const struct place_gpu *g, int n)
{
    for (int count = j->gpus_min; count <= j->gpus_max && count <= n; count++)
        if (best_score(j, g, n, count) >= 0)
            return count;
    return -1;
}

TEST(random_jobs_get_the_best_set_that_keeps_all_rules)
{
    struct rng r;
    int found = 0;
    kit_seed(&r);
    for (int k = 0; k < CASES; k++) {
        struct place_gpu g[GPUS];
        AUTO(place_job) struct place_job *j = random_job(&r);
        int n = random_gpus(&r, g);
        AUTO(free) struct place_choice *c = xzalloc(2 * sizeof *c);
        struct err e = {0};
        int rc = place_select(&c[0], j, g, n, false, &e);
        CHECK_INT(place_select(&c[1], j, g, n, false, &e), rc);
        CHECK(memcmp(&c[0].gpus, &c[1].gpus, sizeof c[0].gpus) == 0);
        if (rc < 0) {
            CHECK_INT(rc, -EBUSY);
            CHECK_INT(best_of_fewer(j, g, n), -1);
            continue;
        }
        found++;
        check_choice(j, g, n, &c[0]);
        check_text(j, g, n, &c[0]);
        if (j->goal == PLACE_COST)
            CHECK_INT(c[0].count, best_of_fewer(j, g, n));
        CHECK_INT(place_select(&c[1], j, g, n, true, &e), 0); /* idle GPUs suffice, too */
    }
    CHECK(found > CASES / 10 && found < CASES);
}
