#include "launcher/watch/straggler.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    WINDOW_SHORT = 16,
    WINDOW_LONG = 64,
    RING = 2 * WINDOW_LONG, /* a rank may be ahead of the others by the difference */
    STEPS_MIN = 8,
    CONFIRM_STEPS = 4,
    RANKS_MIN = 3
};

static const double RATIO_SLOW = 1.2, RATIO_WELL = 1.1, SIGMAS = 5;
static const double MAD_TO_SIGMA = 1.4826; /* for a normal distribution */
static const double MEDIAN_ERROR = 1.2533; /* of the standard error of a mean: sqrt(pi / 2) */

/* The times of one rank for one thing. */
struct times {
    double s[RING];
    int64_t count;
    int64_t slow_since; /* the step from which on it seems slow; -1: it does not */
    bool slow;
};

struct series {
    char what[STRAGGLER_NAME_BYTES];
    struct times *ranks;
    double excess_min_s;
    int64_t checked; /* steps of all ranks at the last check */
};

struct straggler {
    int ranks;
    bool *ended, *reported; /* by rank; `reported`: as slow */
    struct series series[STRAGGLER_SERIES_MAX];
    int count;
    double *scratch, *medians; /* one entry per rank */
};

struct straggler *straggler_new(int ranks)
{
    struct straggler *s = xzalloc(sizeof *s);
    size_t n = (size_t)ranks;
    s->ranks = ranks;
    s->ended = xcalloc(n, sizeof *s->ended);
    s->reported = xcalloc(n, sizeof *s->reported);
    s->scratch = xcalloc(n, sizeof *s->scratch);
    s->medians = xcalloc(n, sizeof *s->medians);
    return s;
}

void straggler_free(struct straggler *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++)
        free(s->series[i].ranks);
    free(s->ended);
    free(s->reported);
    free(s->scratch);
    free(s->medians);
    free(s);
}

static struct series *find_series(struct straggler *s, const char *what, double excess_min_s)
{
    for (int i = 0; i < s->count; i++)
        if (strncmp(s->series[i].what, what, STRAGGLER_NAME_BYTES - 1) == 0)
            return &s->series[i];
    if (s->count == STRAGGLER_SERIES_MAX)
        return NULL;
    struct series *new = &s->series[s->count++];
    snprintf(new->what, sizeof new->what, "%s", what);
    new->excess_min_s = excess_min_s;
    new->ranks = xcalloc((size_t)s->ranks, sizeof *new->ranks);
    for (int i = 0; i < s->ranks; i++)
        new->ranks[i].slow_since = -1;
    return new;
}

void straggler_add(struct straggler *s, int rank, const char *what, double seconds,
                   double excess_min_s)
{
    struct series *in = find_series(s, what, excess_min_s);
    if (!in || !isfinite(seconds) || seconds < 0)
        return;
    struct times *t = &in->ranks[rank];
    t->s[t->count++ % RING] = seconds;
}

void straggler_end(struct straggler *s, int rank)
{
    s->ended[rank] = true;
}

/* ---- statistics ----------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the `n` values. */
static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Returns 1.4826 MAD. Changes the values. */
static double spread(double *v, int n, double center)
{
    for (int i = 0; i < n; i++)
        v[i] = fabs(v[i] - center);
    return MAD_TO_SIGMA * median(v, n);
}

/* A rank counts in a series if it runs and has times. */
static bool counts(const struct straggler *s, const struct series *in, int rank)
{
    return !s->ended[rank] && in->ranks[rank].count > 0;
}

/* ---- one series ----------------------------------------------------------------------------- */

/* The last steps of a series that all ranks have done: `n` steps before step `end`. Each rank's
 * steps are counted from its own end if some rank is far ahead, as in a job whose ranks do not wait
 * for each other. */
struct window {
    const struct straggler *s;
    const struct series *in;
    int64_t end;
    int n;
    bool aligned;
    double typical[WINDOW_LONG]; /* by step: the median over the ranks */
};

static double time_of(const struct window *w, int rank, int step)
{
    const struct times *t = &w->in->ranks[rank];
    int64_t end = w->aligned ? w->end : t->count;
    return t->s[(end - w->n + step) % RING];
}

/* Finds the steps that all ranks have done. Returns false if there are too few steps or ranks. */
static bool find_window(struct window *w, const struct straggler *s, const struct series *in)
{
    int64_t first = INT64_MAX, last = 0;
    int ranks = 0;
    for (int i = 0; i < s->ranks; i++) {
        if (!counts(s, in, i))
            continue;
        int64_t count = in->ranks[i].count;
        ranks++;
        first = count < first ? count : first;
        last = count > last ? count : last;
    }
    *w = (struct window){.s = s, .in = in, .end = first, .aligned = last - first <= WINDOW_LONG};
    return ranks >= RANKS_MIN && first >= STEPS_MIN;
}

static void set_length(struct window *w, int length)
{
    w->n = w->end < length ? (int)w->end : length;
    for (int k = 0; k < w->n; k++) {
        int n = 0;
        for (int i = 0; i < w->s->ranks; i++)
            if (counts(w->s, w->in, i))
                w->s->scratch[n++] = time_of(w, i, k);
        w->typical[k] = median(w->s->scratch, n);
    }
}

/* Returns the median of a rank's ratios. `*error` is its standard error. */
static double ratio_of(const struct window *w, int rank, double *error)
{
    double v[WINDOW_LONG];
    for (int k = 0; k < w->n; k++)
        v[k] = w->typical[k] > 0 ? time_of(w, rank, k) / w->typical[k] : 1;
    double m = median(v, w->n);
    *error = MEDIAN_ERROR * spread(v, w->n, m) / sqrt(w->n);
    return m;
}

static double seconds_of(const struct window *w, int rank)
{
    double v[WINDOW_LONG];
    for (int k = 0; k < w->n; k++)
        v[k] = time_of(w, rank, k);
    return median(v, w->n);
}

/* Updates what the ranks of a series seem to be: slow or not, and how slow. */
static void check_window(struct straggler *s, const struct series *in, struct window *w, int length,
                         bool *seems, double *ratio)
{
    AUTO(free) double *errors = xcalloc((size_t)s->ranks, sizeof *errors);
    int n = 0;
    set_length(w, length);
    for (int i = 0; i < s->ranks; i++)
        if (counts(s, in, i))
            s->scratch[n++] = s->medians[i] = ratio_of(w, i, &errors[i]);
    double center = median(s->scratch, n), sigma = spread(s->scratch, n, center);
    for (int i = 0; i < s->ranks; i++) {
        double excess = s->medians[i] - center;
        if (!counts(s, in, i))
            continue;
        ratio[i] = s->medians[i] / center;
        seems[i] |= ratio[i] > RATIO_SLOW && excess > SIGMAS * sigma &&
                    excess > SIGMAS * errors[i] &&
                    excess / s->medians[i] * seconds_of(w, i) > in->excess_min_s;
    }
}

static void check_series(struct straggler *s, struct series *in)
{
    struct window w;
    if (!find_window(&w, s, in) || w.end == in->checked)
        return;
    in->checked = w.end;
    AUTO(free) bool *seems = xcalloc((size_t)s->ranks, sizeof *seems);
    AUTO(free) double *ratio = xcalloc((size_t)s->ranks, sizeof *ratio);
    if (w.end > WINDOW_SHORT)
        check_window(s, in, &w, WINDOW_LONG, seems, ratio);
    check_window(s, in, &w, WINDOW_SHORT, seems, ratio);
    for (int i = 0; i < s->ranks; i++) {
        struct times *t = &in->ranks[i];
        if (!counts(s, in, i))
            continue;
        if (!seems[i])
            t->slow_since = -1;
        else if (t->slow_since < 0)
            t->slow_since = w.end;
        t->slow |= seems[i] && w.end - t->slow_since >= CONFIRM_STEPS;
        t->slow &= ratio[i] >= RATIO_WELL;
    }
}

/* ---- changes -------------------------------------------------------------------------------- */

static void describe(struct straggler *s, struct series *in, int rank, struct straggler_change *out)
{
    struct window w;
    if (!find_window(&w, s, in))
        return;
    set_length(&w, WINDOW_SHORT);
    int n = 0;
    for (int i = 0; i < s->ranks; i++)
        if (i != rank && counts(s, in, i))
            s->scratch[n++] = seconds_of(&w, i);
    *out = (struct straggler_change){.rank = rank, .slow = in->ranks[rank].slow};
    snprintf(out->what, sizeof out->what, "%s", in->what);
    out->seconds = seconds_of(&w, rank);
    out->others = median(s->scratch, n);
    out->spread = spread(s->scratch, n, out->others);
    out->ratio = out->others > 0 ? out->seconds / out->others : 1;
}

/* Returns the series in which the rank loses most time, or NULL if it is slow in none. */
static struct series *find_slow(struct straggler *s, int rank)
{
    struct series *worst = NULL;
    double most = -1;
    for (int i = 0; i < s->count; i++) {
        struct straggler_change c = {0};
        if (!s->series[i].ranks[rank].slow || !counts(s, &s->series[i], rank))
            continue;
        describe(s, &s->series[i], rank, &c);
        if (c.seconds - c.others > most) {
            most = c.seconds - c.others;
            worst = &s->series[i];
        }
    }
    return worst;
}

bool straggler_next(struct straggler *s, struct straggler_change *out)
{
    for (int i = 0; i < s->count; i++)
        check_series(s, &s->series[i]);
    for (int rank = 0; rank < s->ranks; rank++) {
        struct series *in = s->ended[rank] ? NULL : find_slow(s, rank);
        if (s->ended[rank] || (in != NULL) == s->reported[rank])
            continue;
        s->reported[rank] = in != NULL;
        *out = (struct straggler_change){.rank = rank};
        if (in)
            describe(s, in, rank, out);
        return true;
    }
    return false;
}
