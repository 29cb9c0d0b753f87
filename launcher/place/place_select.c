#include "launcher/place/place_select.h"

#include <errno.h>
#include <string.h>

#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/node/topo_path.h"

enum {
    SETS_MAX = 20000, /* all sets are compared up to this number: 8 of 16 GPUs are 12,870 */
    STARTS_MAX = 8,   /* above it, as many sets are grown and improved by exchanges … */
    PASSES_MAX = 16   /* … in this many passes */
};

/* The order of the weights is that of importance: a term counts if those before it are equal or
 * almost equal. */
const struct place_select_term place_select_terms[PLACE_TERMS] = {
    [PLACE_TERM_PREFERRED] = {"preferred", 10000},
    [PLACE_TERM_NVLINK] = {"NVLink", 1000},
    [PLACE_TERM_LOAD] = {"idle", 100},
    [PLACE_TERM_GOAL] = {"goal", 10},
    [PLACE_TERM_ARRANGEMENT] = {"arrangement", 1},
};

const char *const place_select_rules[PLACE_RULES] = {
    [PLACE_RULE_HIDDEN] = "hidden by CUDA_VISIBLE_DEVICES",
    [PLACE_RULE_TYPE] = "not of gpu_type",
    [PLACE_RULE_EXCLUDED] = "in excluded_devices",
    [PLACE_RULE_LABELS] = "without the labels",
    [PLACE_RULE_TOO_SMALL] = "too small",
    [PLACE_RULE_LOCKED] = "locked by a placed job",
    [PLACE_RULE_USED] = "in use",
    [PLACE_RULE_NO_MEMORY] = "without enough free memory",
    [PLACE_RULE_RESERVED] = "reserved for a job that waits for it",
};

/* ---- memory --------------------------------------------------------------------------------- */

int place_select_need(struct estimate *out, const struct place_job *j, int gpus, struct err *e)
{
    *out = (struct estimate){.low_bytes = j->memory_bytes, .high_bytes = j->memory_bytes};
    if (j->memory_bytes > 0 || !j->has_model)
        return 0;
    struct estimate_opts o = j->model;
    o.batch = j->batch_per_gpu ? j->batch_per_gpu : j->batch ? (j->batch + gpus - 1) / gpus : 1;
    o.ranks = gpus;
    int rc = estimate_job(out, &o, e);
    if (rc < 0)
        return err_wrap(e, "estimate");
    estimate_correct(out, j->earlier.at, j->earlier.count);
    return 0;
}

uint64_t place_select_usable(const struct place_job *j, uint64_t gpu_bytes)
{
    return (uint64_t)((double)gpu_bytes * j->memory_threshold);
}

/* ---- hard rules ----------------------------------------------------------------------------- */

static bool is_any(const struct place_gpu *g, char *const *words)
{
    for (; words && *words; words++)
        if (place_gpu_is(g, *words))
            return true;
    return false;
}

static bool has_labels(const struct place_gpu *g, char *const *wanted)
{
    for (; wanted && *wanted; wanted++) {
        bool found = false;
        for (char **l = g->labels; l && *l; l++)
            found |= strcmp(*l, *wanted) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* Returns the first rule that the GPU breaks, or -1. */
static int check(const struct place_gpu *g, const struct place_job *j, uint64_t need, bool idle)
{
    uint64_t total = place_gpu_memory(g);
    if (g->hidden)
        return PLACE_RULE_HIDDEN;
    if (j->gpu_type && !place_gpu_is(g, j->gpu_type))
        return PLACE_RULE_TYPE;
    if (is_any(g, j->excluded))
        return PLACE_RULE_EXCLUDED;
    if (!has_labels(g, j->labels))
        return PLACE_RULE_LABELS;
    if (need > place_select_usable(j, total))
        return PLACE_RULE_TOO_SMALL;
    if (g->locked && !idle)
        return PLACE_RULE_LOCKED;
    if (g->used && !j->shared && !idle)
        return PLACE_RULE_USED;
    if (need > (idle ? total : place_gpu_free(g)))
        return PLACE_RULE_NO_MEMORY;
    return g->reserved && !idle ? PLACE_RULE_RESERVED : -1;
}

/* ---- points --------------------------------------------------------------------------------- */

struct search {
    const struct place_job *job;
    const struct place_gpu *gpus;
    int n;
    int each[PLACE_TERMS][PLACE_GPUS_MAX];                 /* points of a GPU */
    int pair[PLACE_TERMS][PLACE_GPUS_MAX][PLACE_GPUS_MAX]; /* points of two GPUs */
    int from[PLACE_GPUS_MAX], from_count; /* GPUs of which sets are made, ascending */
    struct place_choice *best;
};

static int share(double part, double whole)
{
    return whole > 0 ? (int)(part * PLACE_TERM_MAX / whole) : 0;
}

static int preferred_points(const struct place_job *j, const struct place_gpu *g)
{
    size_t count = strv_len(j->preferred), i = 0;
    while (i < count && !place_gpu_is(g, j->preferred[i]))
        i++;
    return share((double)(count - i), (double)count);
}

/* The share of the NUMA node's other GPUs that are in use. */
static int neighbour_points(const struct search *s, int i)
{
    int used = 0, others = 0;
    for (int k = 0; k < s->n; k++) {
        bool near = k != i && s->gpus[k].now.gpu.numa == s->gpus[i].now.gpu.numa;
        others += near;
        used += near && (s->gpus[k].used || s->gpus[k].locked);
    }
    return share(used, others);
}

static double goal_of(const struct place_job *j, const struct place_gpu *g)
{
    return j->goal == PLACE_COST ? (double)place_gpu_memory(g) : place_gpu_tflops(g);
}

static int load_points(const struct place_job *j, const struct place_gpu *g)
{
    int idle = share(100 - (double)gpu_sample_value(&g->now, GPU_FACT_BUSY, 0), 100);
    int empty = share((double)place_gpu_free(g), (double)place_gpu_memory(g));
    return j->shared ? (idle + empty) / 2 : idle;
}

static void set_points_of(struct search *s, int i, double most_of_goal, int most_links)
{
    const struct place_job *j = s->job;
    const struct place_gpu *g = &s->gpus[i];
    int goal = share(goal_of(j, g), most_of_goal), near = neighbour_points(s, i);
    s->each[PLACE_TERM_PREFERRED][i] = preferred_points(j, g);
    s->each[PLACE_TERM_LOAD][i] = load_points(j, g);
    s->each[PLACE_TERM_GOAL][i] = j->goal == PLACE_COST ? PLACE_TERM_MAX - goal : goal;
    s->each[PLACE_TERM_ARRANGEMENT][i] = j->arrangement == PLACE_PACK     ? near
                                         : j->arrangement == PLACE_SPREAD ? PLACE_TERM_MAX - near
                                                                          : 0;
    for (int k = 0; k < s->n; k++) {
        bool same = s->gpus[k].now.gpu.numa == g->now.gpu.numa;
        s->pair[PLACE_TERM_NVLINK][i][k] =
            share(topo_nvlinks(&g->now.gpu, &s->gpus[k].now.gpu), most_links);
        s->pair[PLACE_TERM_ARRANGEMENT][i][k] =
            j->arrangement != PLACE_ANYWHERE && same == (j->arrangement == PLACE_PACK)
                ? PLACE_TERM_MAX
                : 0;
    }
}

static void set_points(struct search *s)
{
    double goal = 0;
    int links = 0;
    for (int i = 0; i < s->n; i++) {
        double g = goal_of(s->job, &s->gpus[i]);
        goal = g > goal ? g : goal;
        for (int k = 0; k < i; k++) {
            int l = topo_nvlinks(&s->gpus[i].now.gpu, &s->gpus[k].now.gpu);
            links = l > links ? l : links;
        }
    }
    for (int i = 0; i < s->n; i++)
        set_points_of(s, i, goal, links);
}

static int points_of(const struct search *s, enum place_term t, const int *set, int count)
{
    int each = 0, pairs = 0, pair_count = count * (count - 1) / 2;
    for (int a = 0; a < count; a++) {
        each += s->each[t][set[a]];
        for (int b = 0; b < a; b++)
            pairs += s->pair[t][set[a]][set[b]];
    }
    each /= count;
    pairs = pair_count ? pairs / pair_count : 0;
    if (t == PLACE_TERM_NVLINK)
        return pairs;
    return t == PLACE_TERM_ARRANGEMENT && pair_count ? (each + pairs) / 2 : each;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static int compare_sets(const int *a, const int *b, int count)
{
    for (int i = 0; i < count; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Computes the score of a set and keeps the set if it is the best one. `set` is ascending. */
static int64_t consider(struct search *s, const int *set, int count, bool whole)
{
    struct place_choice *c = s->best;
    int points[PLACE_TERMS];
    int64_t score = 0;
    for (int t = 0; t < PLACE_TERMS; t++) {
        points[t] = points_of(s, (enum place_term)t, set, count);
        score += (int64_t)points[t] * place_select_terms[t].weight;
    }
    if (!whole)
        return score;
    for (int i = 0; i < count; i++)
        if (c->each[set[i]].best_score < score)
            c->each[set[i]].best_score = score;
    bool equal = c->count > 0 && score == c->score;
    if (c->count > 0 && (score < c->score || (equal && compare_sets(set, c->gpus, count) >= 0)))
        return score;
    memcpy(c->gpus, set, (size_t)count * sizeof *set);
    memcpy(c->terms, points, sizeof points);
    c->count = count;
    c->score = score;
    return score;
}

/* Returns the number of sets, or SETS_MAX + 1 if there are more. */
static int count_sets(int n, int count)
{
    int64_t sets = 1;
    for (int i = 1; i <= count && sets <= SETS_MAX; i++)
        sets = sets * (n - count + i) / i;
    return sets > SETS_MAX ? SETS_MAX + 1 : (int)sets;
}

static void consider_all(struct search *s, int count)
{
    int at[PLACE_GPUS_MAX], set[PLACE_GPUS_MAX] = {0};
    for (int i = 0; i < count; i++)
        at[i] = i;
    for (;;) {
        for (int i = 0; i < count; i++)
            set[i] = s->from[at[i]];
        (void)consider(s, set, count, true);
        int i = count - 1;
        while (i >= 0 && at[i] == s->from_count - count + i)
            i--;
        if (i < 0)
            return;
        at[i]++;
        while (++i < count)
            at[i] = at[i - 1] + 1;
    }
}

/* Inserts a position into an ascending set without it. Returns false if the set contains it. */
static bool insert(int *out, const int *set, int count, int gpu)
{
    int at = 0;
    for (; at < count && set[at] < gpu; at++)
        out[at] = set[at];
    if (at < count && set[at] == gpu)
        return false;
    out[at] = gpu;
    for (; at < count; at++)
        out[at + 1] = set[at];
    return true;
}

/* Adds the GPU with which the set is best. */
static void grow(struct search *s, int *set, int count, bool whole)
{
    int best[PLACE_GPUS_MAX] = {0}, with[PLACE_GPUS_MAX];
    int64_t most = -1;
    for (int i = 0; i < s->from_count; i++) {
        if (!insert(with, set, count, s->from[i]))
            continue;
        int64_t score = consider(s, with, count + 1, whole);
        if (score > most) {
            most = score;
            memcpy(best, with, sizeof best);
        }
    }
    memcpy(set, best, sizeof best);
}

/* Exchanges one GPU of the set if that makes it better. Returns false if no exchange does. */
static bool exchange(struct search *s, int *set, int count)
{
    int64_t most = consider(s, set, count, true), before = most;
    int best[PLACE_GPUS_MAX] = {0}, rest[PLACE_GPUS_MAX], with[PLACE_GPUS_MAX];
    for (int out = 0; out < count; out++) {
        memcpy(rest, set, (size_t)out * sizeof *set);
        memcpy(rest + out, set + out + 1, (size_t)(count - out - 1) * sizeof *set);
        for (int i = 0; i < s->from_count; i++) {
            if (!insert(with, rest, count - 1, s->from[i]))
                continue;
            int64_t score = consider(s, with, count, true);
            if (score > most) {
                most = score;
                memcpy(best, with, sizeof best);
            }
        }
    }
    if (most > before)
        memcpy(set, best, sizeof best);
    return most > before;
}

/* Many sets: grows some of them, and improves them by exchanges. */
static void consider_some(struct search *s, int count)
{
    for (int start = 0; start < STARTS_MAX && start < s->from_count; start++) {
        int set[PLACE_GPUS_MAX] = {s->from[start * s->from_count / STARTS_MAX]}, passes = 0;
        for (int n = 1; n < count; n++)
            grow(s, set, n, n + 1 == count);
        while (exchange(s, set, count) && ++passes < PASSES_MAX)
            ;
    }
}

/* ---- groups of GPUs of one model ------------------------------------------------------------ */

static bool same_model(const struct place_gpu *a, const struct place_gpu *b)
{
    return strcmp(a->now.gpu.name, b->now.gpu.name) == 0 &&
           place_gpu_memory(a) == place_gpu_memory(b);
}

/* Considers the sets of the GPUs that keep the rules, with the model of GPU `like`, or all. */
static void consider_group(struct search *s, int like, int count)
{
    s->from_count = 0;
    for (int i = 0; i < s->n; i++)
        if (s->best->each[i].rule < 0 &&
            (s->job->mixed_models || same_model(&s->gpus[like], &s->gpus[i])))
            s->from[s->from_count++] = i;
    if (s->from_count < count)
        return;
    if (count_sets(s->from_count, count) <= SETS_MAX)
        consider_all(s, count);
    else
        consider_some(s, count);
}

static bool is_first_of_group(const struct search *s, int i)
{
    for (int k = 0; k < i; k++)
        if (s->best->each[k].rule < 0 &&
            (s->job->mixed_models || same_model(&s->gpus[k], &s->gpus[i])))
            return false;
    return s->best->each[i].rule < 0;
}

/* Sets the verdicts for `count` GPUs, and considers their sets. Returns -errno only if the memory
 * cannot be estimated. */
static int try_count(struct search *s, int count, bool idle, struct err *e)
{
    struct place_choice *c = s->best;
    int rc = place_select_need(&c->need, s->job, count, e);
    if (rc < 0)
        return rc;
    for (int i = 0; i < s->n; i++)
        c->each[i] = (struct place_verdict){
            .rule = check(&s->gpus[i], s->job, c->need.high_bytes, idle), .best_score = -1};
    for (int i = 0; i < s->n; i++)
        if (is_first_of_group(s, i))
            consider_group(s, i, count);
    for (int i = 0; i < c->count; i++)
        c->each[c->gpus[i]].selected = true;
    return 0;
}

/* ---- advice --------------------------------------------------------------------------------- */

/* Returns how many GPUs, of the model of GPU `like` or of all, have at least its memory and break
 * no rule but that they are too small. */
static int count_as_large(const struct place_choice *c, const struct place_job *j,
                          const struct place_gpu *gpus, int n, int like)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += (c->each[i].rule < 0 || c->each[i].rule == PLACE_RULE_TOO_SMALL) &&
                 (j->mixed_models || same_model(&gpus[like], &gpus[i])) &&
                 place_gpu_memory(&gpus[i]) >= place_gpu_memory(&gpus[like]);
    return count;
}

int place_select_advise(const struct place_choice *c, const struct place_job *j,
                        const struct place_gpu *gpus, int n, struct err *e)
{
    uint64_t most = 0;
    struct estimate_advice form = {.keys = true, .step_batch = j->batch > 0};
    for (int i = 0; i < n && i < PLACE_GPUS_MAX; i++) {
        int count = count_as_large(c, j, gpus, n < PLACE_GPUS_MAX ? n : PLACE_GPUS_MAX, i);
        if (c->each[i].rule != PLACE_RULE_TOO_SMALL || count < c->need.o.ranks ||
            place_gpu_memory(&gpus[i]) <= most)
            continue;
        most = place_gpu_memory(&gpus[i]);
        form.ranks_max = count;
    }
    if (most == 0 || j->memory_bytes > 0 || !j->has_model)
        return e->code;
    AUTO(strv) char **lines = estimate_advice(&c->need, place_select_usable(j, most), &form);
    AUTO(strbuf) struct strbuf b = {0};
    for (char **l = lines; l && *l && b.len + strlen(*l) + 5 < sizeof e->hint; l++)
        strbuf_printf(&b, "%s%s", b.len ? "; or " : "", *l);
    return b.len ? err_hint(e, "%s", strbuf_str(&b)) : e->code;
}

/* ---- the choice ----------------------------------------------------------------------------- */

static int explain(const struct place_choice *c, const struct place_job *j, int n, int count,
                   struct err *e)
{
    int broken[PLACE_RULES] = {0}, fit = 0;
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < n; i++) {
        if (c->each[i].rule < 0)
            fit++;
        else
            broken[c->each[i].rule]++;
    }
    for (int r = 0; r < PLACE_RULES; r++)
        if (broken[r])
            strbuf_printf(&b, "; %d %s", broken[r], place_select_rules[r]);
    err_set(e, -EBUSY, "the job needs %s%d GPU%s: %d of %d can be used%s",
            j->gpus_min < j->gpus_max && count == j->gpus_min ? "at least " : "", count,
            plural_s(count), fit, n, strbuf_str(&b));
    if (fit >= count) {
        err_set(e, -EBUSY,
                "the job needs %d GPUs of one model, and fewer of each model can be used%s", count,
                strbuf_str(&b));
        err_hint(e, "resource_policy: {mixed_models: true}");
    }
    return -EBUSY;
}

int place_select(struct place_choice *out, const struct place_job *j, const struct place_gpu *gpus,
                 int n, bool idle, struct err *e)
{
    *out = (struct place_choice){.count = 0};
    AUTO(free) struct search *s = xzalloc(sizeof *s);
    s->job = j;
    s->gpus = gpus;
    s->n = n < PLACE_GPUS_MAX ? n : PLACE_GPUS_MAX;
    s->best = out;
    set_points(s);
    int min = j->gpus_min, max = j->gpus_max < s->n ? j->gpus_max : s->n;
    max = max < min ? min : max;
    /* The fewest GPUs that the job fits on, or as many as it may have. */
    int first = j->goal == PLACE_COST ? min : max, step = j->goal == PLACE_COST ? 1 : -1;
    for (int count = first; count >= min && count <= max && out->count == 0; count += step) {
        int rc = try_count(s, count, idle, e);
        if (rc < 0)
            return rc;
    }
    if (out->count > 0)
        return 0;
    int count = idle ? max : min;
    int rc = try_count(s, count, idle, e);
    return rc < 0 ? rc : explain(out, j, s->n, count, e);
}
