#include "hpo/reader/sweep_insight.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/plural.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "hpo/trial/metric_guess.h"

enum { DONE_MIN = 3, BEST_MIN = 5, FAILED_MIN = 3, CAUSE_MAX = 160 };
static const double decides = 0.5, few = 0.1; /* shares */

struct scored {
    double key; /* the smallest is the best */
    bool infeasible;
    int trial;
};

static int by_key(const void *a, const void *b)
{
    const struct scored *p = a, *q = b;
    if (p->infeasible != q->infeasible)
        return p->infeasible ? 1 : -1;
    return p->key < q->key   ? -1
           : p->key > q->key ? 1
                             : (p->trial > q->trial) - (p->trial < q->trial);
}

int *sweep_insight_order(const struct sweep_columns *c, size_t *count)
{
    size_t n = 0;
    AUTO(free) struct scored *all = xcalloc(c->count + 1, sizeof *all);
    for (size_t i = 0; i < c->count; i++) {
        double v = sweep_columns_score(c, i);
        if (isfinite(v) && trial_has_signal(c->trials[i].state))
            all[n++] = (struct scored){c->spec->metrics[0].maximize ? -v : v,
                                       !sweep_columns_feasible(c, i), (int)i};
    }
    qsort(all, n, sizeof *all, by_key);
    int *order = xcalloc(n + 1, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = all[i].trial;
    *count = n;
    return order;
}

char *sweep_insight_infeasible(const struct sweep_columns *c)
{
    AUTO(json) json_t *reported = json_object();
    size_t n;
    AUTO(free) int *order = sweep_insight_order(c, &n);
    for (size_t i = 0; i < n; i++) {
        const struct columns_trial *t = &c->trials[order[i]];
        if (sweep_columns_feasible(c, (size_t)order[i]))
            return NULL;
        for (int k = 0; k < t->metric_count; k++)
            json_object_set_new(reported, text_table_at(&c->texts, t->metrics[k].name),
                                json_null());
    }
    if (n == 0)
        return NULL;
    struct strbuf b = {0};
    const char *metric = outcome_unreported(&c->spec->outcomes, reported);
    strbuf_printf(&b, "no trial satisfies outcome_constraints%s", metric ? ": " : "");
    if (metric)
        metric_guess_unreported(&b, metric, reported);
    return strbuf_take(&b);
}

bool sweep_insight_same_cause(const char *a, const char *b)
{
    while (*a && *b) {
        if (isxdigit((unsigned char)*a) && isxdigit((unsigned char)*b) &&
            (isdigit((unsigned char)*a) || isdigit((unsigned char)*b))) {
            while (isxdigit((unsigned char)*a) || *a == 'x')
                a++;
            while (isxdigit((unsigned char)*b) || *b == 'x')
                b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static bool has_failed(enum trial_state s)
{
    return s == TRIAL_FAILED || s == TRIAL_OOM || s == TRIAL_INVALID;
}

/* ---- the best value ------------------------------------------------------------------------- */

/* "11 % under the next", or the difference if a share means nothing. */
static void add_gap(struct strbuf *out, double best, double other)
{
    const char *side = best < other ? "under" : "over";
    if (best == other)
        strbuf_puts(out, "equal to");
    else if (best > 0 && other > 0 && best / other < 10)
        strbuf_printf(out, "%.2g %% %s", 100 * fabs(best - other) / other, side);
    else
        strbuf_printf(out, "%.3g %s", fabs(best - other), side);
}

static char *best_sentence(const struct sweep_columns *c, const int *order, size_t n)
{
    struct strbuf b = {0};
    double best = sweep_columns_score(c, (size_t)order[0]), middle[2] = {NAN, NAN};
    size_t done = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        done += c->trials[order[i]].state == TRIAL_DONE;
    for (size_t i = 0; i < n; i++) {
        if (c->trials[order[i]].state != TRIAL_DONE)
            continue;
        middle[0] = at == (done - 1) / 2 ? sweep_columns_score(c, (size_t)order[i]) : middle[0];
        middle[1] = at++ == done / 2 ? sweep_columns_score(c, (size_t)order[i]) : middle[1];
    }
    strbuf_printf(&b, "The best %s is %.4g, of trial %d", c->spec->metrics[0].name, best, order[0]);
    if (n > 1) {
        strbuf_puts(&b, ": ");
        add_gap(&b, best, sweep_columns_score(c, (size_t)order[1]));
        strbuf_puts(&b, " the next");
    }
    if (n > 1 && done >= DONE_MIN) {
        strbuf_puts(&b, ", ");
        add_gap(&b, best, middle[0] / 2 + middle[1] / 2);
        strbuf_printf(&b, " the median of %zu %strial%s that are done", done,
                      c->spec->outcomes.count > 0 ? "feasible " : "", plural_s((long long)done));
    }
    strbuf_putc(&b, '.');
    return strbuf_take(&b);
}

static char *gain_sentence(const struct sweep_columns *c, int best)
{
    int after = 0;
    for (size_t i = (size_t)best + 1; i < c->count; i++)
        after += trial_is_ended(c->trials[i].state);
    return after ? xasprintf("No gain for %d trial%s.", after, plural_s(after)) : NULL;
}

/* ---- what decides --------------------------------------------------------------------------- */

static double number_of(const struct sweep_columns *c, size_t param, int trial)
{
    struct columns_value v = sweep_columns_value(c, param, (size_t)trial);
    return v.kind == COLUMNS_INTEGER || v.kind == COLUMNS_REAL ? v.number : (double)NAN;
}

static bool same_value(struct columns_value a, struct columns_value b)
{
    return a.kind == b.kind && (a.kind == COLUMNS_JSON ? a.json == b.json : a.number == b.number);
}

static void add_value(struct strbuf *out, const struct sweep_columns *c, size_t param, int trial)
{
    struct columns_value v = sweep_columns_value(c, param, (size_t)trial);
    AUTO(json) json_t *value = redact_json(c->params[param].name, sweep_columns_value_json(c, v));
    AUTO(free) char *text = value && !json_is_string(value) ? json_line(value) : NULL;
    strbuf_puts(out, text ? text : value ? json_string_value(value) : "?");
}

/* Where the best tenth of the trials, at least BEST_MIN of them, has a parameter. */
static void add_best_range(struct strbuf *out, const struct sweep_columns *c, size_t param,
                           const int *order, size_t n)
{
    size_t top = n / 10 > BEST_MIN ? n / 10 : BEST_MIN, most = 0, with = 0;
    double lo = INFINITY, hi = -INFINITY;
    if (n < 2 * (size_t)BEST_MIN)
        return;
    for (size_t i = 0; i < top; i++) {
        double x = number_of(c, param, order[i]);
        lo = isnan(x) ? -INFINITY : fmin(lo, x);
        hi = isnan(x) ? INFINITY : fmax(hi, x);
        struct columns_value v = sweep_columns_value(c, param, (size_t)order[i]);
        size_t count = 0;
        for (size_t k = 0; k < top; k++)
            count += same_value(v, sweep_columns_value(c, param, (size_t)order[k]));
        if (count > with) {
            with = count;
            most = i;
        }
    }
    if (isfinite(hi - lo)) {
        strbuf_printf(out, ": the %zu best trials have %.3g to %.3g", top, lo, hi);
        return;
    }
    strbuf_printf(out, ": %zu of the %zu best trials have ", with, top);
    add_value(out, c, param, order[most]);
}

static char *decides_sentence(const struct sweep_columns *c, const json_t *importance,
                              const int *order, size_t n)
{
    const char *name, *first = NULL, *better = NULL;
    json_t *v;
    double most = 0;
    struct strbuf b = {0};
    json_object_foreach ((json_t *)importance, name, v) {
        double share = json_number_value(json_is_array(v) ? json_array_get(v, 0) : v);
        first = share > most ? name : first;
        better = share > most ? json_string_value(json_array_get(v, 6)) : better;
        most = fmax(most, share);
    }
    if (!first)
        return NULL;
    strbuf_printf(&b, "%s %s", first, most >= decides ? "decides" : "matters most");
    if (better)
        strbuf_printf(&b, ", %s is better", better);
    for (size_t i = 0; i < c->param_count; i++)
        if (strcmp(c->params[i].name, first) == 0)
            add_best_range(&b, c, i, order, n);
    strbuf_putc(&b, '.');
    return strbuf_take(&b);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Appends where all trials failed and few others ended well: a bound of a number, or a value. */
static bool add_region(struct strbuf *out, const struct sweep_columns *c, size_t param, int first)
{
    const struct columns_value of = sweep_columns_value(c, param, (size_t)first);
    const char *name = c->params[param].name;
    double lo = INFINITY, hi = -INFINITY;
    int good = 0, above = 0, below = 0, equal = 0;
    bool all_equal = of.kind != COLUMNS_ABSENT;
    for (size_t i = 0; i < c->count; i++) {
        if (!has_failed(c->trials[i].state))
            continue;
        double x = number_of(c, param, (int)i);
        all_equal = all_equal && same_value(of, sweep_columns_value(c, param, i));
        lo = isnan(x) ? -INFINITY : fmin(lo, x);
        hi = isnan(x) ? INFINITY : fmax(hi, x);
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->trials[i].state != TRIAL_DONE && c->trials[i].state != TRIAL_PRUNED)
            continue;
        double x = number_of(c, param, (int)i);
        good++;
        above += x >= lo;
        below += x <= hi;
        equal += same_value(of, sweep_columns_value(c, param, i));
    }
    double limit = few * good;
    bool same = all_equal && equal <= limit, up = isfinite(lo) && above <= limit;
    int others = same ? equal : up ? above : below;
    if (good == 0 || !(same || up || (isfinite(hi) && below <= limit)))
        return false;
    strbuf_printf(out, ", all with %s ", name);
    if (same)
        add_value(out, c, param, first);
    else
        strbuf_printf(out, "%s %.3g", up ? ">=" : "<=", up ? lo : hi);
    strbuf_printf(out, ", where %d other%s ended well", others, plural_s(others));
    return true;
}

static char *failed_sentence(const struct sweep_columns *c)
{
    int failed = 0, ended = 0, most = 0, newest = -1, first = -1;
    for (size_t i = 0; i < c->count; i++) {
        ended += trial_is_ended(c->trials[i].state);
        failed += has_failed(c->trials[i].state);
        first = first < 0 && has_failed(c->trials[i].state) ? (int)i : first;
    }
    if (failed == 0)
        return NULL;
    /* The most frequent cause, by the trials of each state whose texts are alike. */
    for (size_t i = c->count, tried = 0; i-- > 0 && tried < 20;) {
        const char *text = text_table_at(&c->texts, c->trials[i].error);
        int count = 0;
        if (!has_failed(c->trials[i].state) || !text)
            continue;
        tried++;
        for (size_t k = 0; k < c->count; k++) {
            const char *other = text_table_at(&c->texts, c->trials[k].error);
            count +=
                has_failed(c->trials[k].state) && other && sweep_insight_same_cause(text, other);
        }
        newest = count > most ? (int)i : newest;
        most = count > most ? count : most;
    }
    struct strbuf b = {0};
    strbuf_printf(&b, "%d of %d trial%s failed", failed, ended, plural_s(ended));
    for (size_t p = 0; failed >= FAILED_MIN && p < c->param_count; p++)
        if (add_region(&b, c, p, first))
            break;
    if (newest >= 0)
        strbuf_printf(&b, "; %d with: %.*s", most, CAUSE_MAX,
                      text_table_at(&c->texts, c->trials[newest].error));
    if (b.data[b.len - 1] != '.')
        strbuf_putc(&b, '.');
    return strbuf_take(&b);
}

/* ---- time ----------------------------------------------------------------------------------- */

static char *time_sentence(const struct sweep_columns *c, int64_t now_ms)
{
    double seconds[TRIAL_STATES] = {0}, all = 0;
    struct strbuf b = {0};
    for (size_t i = 0; i < c->lease_count; i++) {
        const struct columns_lease *l = &c->leases[i];
        int64_t end = l->end_ms ? l->end_ms : now_ms;
        double s = end > l->begin_ms ? (double)(end - l->begin_ms) / 1e3 : 0;
        seconds[c->trials[l->trial].state] += s;
        all += s;
    }
    for (int i = 0; all > 0 && i < TRIAL_STATES; i++)
        if (seconds[i] / all >= 0.005)
            strbuf_printf(&b, "%s%.0f %% %s",
                          b.len ? ", " : "Time by outcome: ", 100 * seconds[i] / all,
                          trial_state_name((enum trial_state)i));
    if (!b.len)
        return NULL;
    double gpus = c->spec->need.gpus * c->spec->need.nodes;
    if (gpus > 0)
        strbuf_printf(&b, "; %.3g GPU hours in all", all * gpus / 3600);
    strbuf_putc(&b, '.');
    return strbuf_take(&b);
}

char **sweep_insight(const struct sweep_columns *c, const json_t *importance, int64_t now_ms)
{
    char **out = NULL, *all[5] = {NULL};
    size_t n;
    AUTO(free) int *order = sweep_insight_order(c, &n);
    bool any = n > 0 && c->spec->metrics[0].name;
    while (n > 0 && !sweep_columns_feasible(c, (size_t)order[n - 1]))
        n--;
    AUTO(free) char *infeasible = sweep_insight_infeasible(c);
    if (infeasible)
        all[0] = xasprintf("There is no best trial, since %s.", infeasible);
    else if (any) {
        all[0] = best_sentence(c, order, n);
        all[1] = gain_sentence(c, order[0]);
        all[2] = decides_sentence(c, importance, order, n);
    }
    all[3] = failed_sentence(c);
    all[4] = time_sentence(c, now_ms);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i])
            strv_push(&out, all[i]);
    return out;
}
