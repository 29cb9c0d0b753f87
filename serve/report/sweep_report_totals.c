#include "serve/report/sweep_report_totals.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/fnv_hash.h"
#include "common/json.h"
#include "hpo/reader/sweep_insight.h"

/* ---- leases --------------------------------------------------------------------------------- */

static bool has_failed(enum trial_state s)
{
    return s == TRIAL_FAILED || s == TRIAL_OOM || s == TRIAL_INVALID;
}

static struct sweep_report_node *node_of(struct sweep_report_totals *t, const char *name)
{
    for (size_t i = 0; i < t->node_count; i++)
        if (t->nodes[i].name == name) /* of the table of texts, which has each text once */
            return &t->nodes[i];
    t->nodes = xrealloc(t->nodes, t->node_count + 1, sizeof *t->nodes);
    t->nodes[t->node_count] = (struct sweep_report_node){.name = name};
    return &t->nodes[t->node_count++];
}

static void add_leases(struct sweep_report_totals *t, const struct sweep_columns *c, int64_t now_ms)
{
    for (size_t i = 0; i < c->lease_count; i++) {
        const struct columns_lease *l = &c->leases[i];
        const struct columns_trial *trial = &c->trials[l->trial];
        int64_t end = l->end_ms ? l->end_ms : now_ms;
        double s = end > l->begin_ms ? (double)(end - l->begin_ms) / 1e3 : 0;
        const char *name = text_table_at(&c->texts, l->node >= 0 ? l->node : l->worker);
        struct sweep_report_node *n = node_of(t, name);
        n->leases++;
        n->failed += has_failed(trial->state);
        n->seconds += s;
        t->seconds[trial->state] += s;
        t->lost_seconds += trial->lease != (int64_t)i + 1 ? s : 0;
        t->begin_ms = !t->begin_ms || l->begin_ms < t->begin_ms ? l->begin_ms : t->begin_ms;
        t->end_ms = end > t->end_ms ? end : t->end_ms;
    }
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Returns the index of the cause, or -1: there are too many. */
static int cause_of(struct sweep_report_totals *t, enum trial_state state, const char *text)
{
    for (size_t i = 0; i < t->cause_count; i++)
        if (t->causes[i].state == state && sweep_insight_same_cause(t->causes[i].text, text))
            return (int)i;
    if (t->cause_count == SWEEP_REPORT_CAUSES_MAX)
        return -1;
    t->causes = xrealloc(t->causes, t->cause_count + 1, sizeof *t->causes);
    t->causes[t->cause_count] = (struct sweep_report_cause){.state = state, .text = text};
    return (int)t->cause_count++;
}

static int by_trials(const void *a, const void *b)
{
    const struct sweep_report_cause *p = a, *q = b;
    return p->trials != q->trials ? q->trials - p->trials : q->newest[0] - p->newest[0];
}

static void add_failures(struct sweep_report_totals *t, const struct sweep_columns *c)
{
    const struct text_table *texts = &c->texts;
    for (size_t i = c->count; i-- > 0;) {
        const struct columns_trial *trial = &c->trials[i];
        if (!has_failed(trial->state))
            continue;
        int number = trial->error >= 0 ? trial->error : trial->why;
        const char *text = text_table_at(texts, number);
        int k = cause_of(t, trial->state, text ? text : "no reason is stored");
        if (k < 0) {
            t->other_failures++;
            continue;
        }
        struct sweep_report_cause *cause = &t->causes[k];
        cause->trials++;
        if (cause->newest_count < SWEEP_REPORT_NEWEST)
            cause->newest[cause->newest_count++] = (int)i;
    }
    if (t->cause_count > 1)
        qsort(t->causes, t->cause_count, sizeof *t->causes, by_trials);
}

/* ---- repeats -------------------------------------------------------------------------------- */

/* "seed", "random_seed", "data.seed". */
static bool is_seed(const char *name)
{
    size_t len = strlen(name), seed = strlen("seed");
    return len >= seed && strcasecmp(name + len - seed, "seed") == 0 &&
           (len == seed || strchr("._-", name[len - seed - 1]));
}

struct point {
    uint64_t hash; /* of the parameters without the seed */
    int trial;
};

static int by_point(const void *a, const void *b)
{
    const struct point *p = a, *q = b;
    return p->hash != q->hash ? (p->hash > q->hash) - (p->hash < q->hash) : p->trial - q->trial;
}

static uint64_t hash_of(const struct sweep_columns *c, size_t trial)
{
    uint64_t h = FNV_HASH_INIT;
    for (size_t k = 0; k < c->param_count; k++) {
        if (is_seed(c->params[k].name))
            continue;
        struct columns_value v = sweep_columns_value(c, k, trial);
        double number = v.kind == COLUMNS_JSON ? v.json : v.kind == COLUMNS_ABSENT ? 0 : v.number;
        unsigned char kind = v.kind == COLUMNS_REAL ? COLUMNS_INTEGER : (unsigned char)v.kind;
        h = fnv_hash_bytes(fnv_hash_bytes(h, &kind, sizeof kind), &number, sizeof number);
    }
    return h;
}

static struct sweep_report_repeat repeat_of(const struct point *p, size_t n,
                                            const struct sweep_columns *c)
{
    struct sweep_report_repeat r = {.first = p[0].trial, .count = (int)n};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        r.mean += sweep_columns_score(c, (size_t)p[i].trial) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += pow(sweep_columns_score(c, (size_t)p[i].trial) - r.mean, 2);
    r.deviation = sqrt(squares / (double)(n - 1));
    return r;
}

static int by_mean(const void *a, const void *b)
{
    const struct sweep_report_repeat *p = a, *q = b;
    return p->mean != q->mean ? (p->mean > q->mean) - (p->mean < q->mean) : p->first - q->first;
}

static void add_repeats(struct sweep_report_totals *t, const struct sweep_columns *c,
                        const struct spec *spec)
{
    size_t n = t->order_count;
    AUTO(free) struct point *all = xcalloc(n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = (struct point){hash_of(c, (size_t)t->order[i]), t->order[i]};
    qsort(all, n, sizeof *all, by_point);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && all[end].hash == all[i].hash;)
            end++;
        if (end - i < 2)
            continue;
        t->repeats = xrealloc(t->repeats, t->repeat_count + 1, sizeof *t->repeats);
        t->repeats[t->repeat_count++] = repeat_of(all + i, end - i, c);
    }
    if (t->repeat_count > 1)
        qsort(t->repeats, t->repeat_count, sizeof *t->repeats, by_mean);
    for (size_t i = 0; spec->metrics[0].maximize && i < t->repeat_count / 2; i++) {
        struct sweep_report_repeat first = t->repeats[i],
                                   *last = &t->repeats[t->repeat_count - 1 - i];
        t->repeats[i] = *last;
        *last = first;
    }
}

void sweep_report_totals(struct sweep_report_totals *out, const struct sweep_columns *c,
                         const struct spec *spec, int64_t now_ms)
{
    *out = (struct sweep_report_totals){0};
    out->order = sweep_insight_order(c, &out->order_count);
    add_leases(out, c, now_ms);
    add_failures(out, c);
    add_repeats(out, c, spec);
}

void sweep_report_totals_end(struct sweep_report_totals *t)
{
    free(t->order);
    free(t->causes);
    free(t->nodes);
    free(t->repeats);
    *t = (struct sweep_report_totals){0};
}

/* ---- importance ----------------------------------------------------------------------------- */

static int by_share(const void *a, const void *b)
{
    const struct sweep_report_importance *p = a, *q = b;
    return (p->share < q->share) - (p->share > q->share);
}

size_t sweep_report_importance(struct sweep_report_importance **out, const json_t *ranges)
{
    const char *name;
    json_t *v;
    size_t n = 0;
    *out = xcalloc(json_object_size(ranges) + 1, sizeof **out);
    json_object_foreach ((json_t *)ranges, name, v)
        (*out)[n++] = (struct sweep_report_importance){name,
                                                       json_number_value(json_array_get(v, 0)),
                                                       json_number_value(json_array_get(v, 1)),
                                                       json_number_value(json_array_get(v, 2)),
                                                       json_number_value(json_array_get(v, 3)),
                                                       json_number_value(json_array_get(v, 4)),
                                                       json_array_get(v, 5),
                                                       json_string_value(json_array_get(v, 6))};
    qsort(*out, n, sizeof **out, by_share);
    return n;
}
