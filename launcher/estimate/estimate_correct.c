#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate.h"
#include "launcher/jobs/history_jobs.h"

/* ---- measured peaks ------------------------------------------------------------------------- */

/* A repeated job differs by a few percent: caches of libraries, the allocator's blocks. */
static const double SPREAD = 0.03;

enum { STOPPED_INT = 128 + 2, STOPPED_TERM = 128 + 15 }; /* by the user, in the midst of training */

/* Returns why a job does not count; ESTIMATE_LEFT_OUT: it does. */
static enum estimate_left_out reason(const struct history_job *p, int ranks)
{
    if (p->status != 0 && p->status != STOPPED_INT && p->status != STOPPED_TERM)
        return ESTIMATE_JOB_FAILED;
    if (p->peak_of_all > 0 || p->peak_bytes <= 0 ||
        (p->memory_bytes > 0 && p->peak_bytes > p->memory_bytes))
        return ESTIMATE_JOB_PEAK;
    if (p->gpus != ranks)
        return ESTIMATE_JOB_GPUS;
    return p->batch >= 1 && p->batch <= INT_MAX ? ESTIMATE_LEFT_OUT : ESTIMATE_JOB_BATCH;
}

static struct estimate_fit fit(const struct history_job *peaks, size_t n, int ranks)
{
    struct estimate_fit l = {0};
    double x = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        if (reason(&peaks[i], ranks) != ESTIMATE_LEFT_OUT)
            continue;
        l.first = l.n++ == 0 ? (int)peaks[i].batch : l.first;
        l.several |= peaks[i].batch != l.first;
        x += (double)peaks[i].batch;
        l.mean += (double)peaks[i].peak_bytes;
    }
    if (l.n == 0)
        return l;
    x /= l.n;
    l.mean /= l.n;
    for (size_t i = 0; i < n; i++) {
        if (reason(&peaks[i], ranks) != ESTIMATE_LEFT_OUT)
            continue;
        double dx = (double)peaks[i].batch - x;
        xx += dx * dx;
        xy += dx * ((double)peaks[i].peak_bytes - l.mean);
    }
    l.b = xx > 0 ? fmax(0, xy / xx) : 0; /* memory does not fall with the batch */
    l.a = l.mean - l.b * x;
    for (size_t i = 0; i < n; i++)
        if (reason(&peaks[i], ranks) == ESTIMATE_LEFT_OUT)
            l.worst = fmax(l.worst,
                           fabs((double)peaks[i].peak_bytes - l.a - l.b * (double)peaks[i].batch));
    return l;
}

static void set_range(struct estimate *s, double low, double high, double worst)
{
    s->low_bytes = (uint64_t)fmax(0, fmin(low - worst, low * (1 - SPREAD)));
    s->high_bytes = (uint64_t)fmin(0x1p62, fmax(high + worst, high * (1 + SPREAD)));
    s->expected_bytes = s->low_bytes + (s->high_bytes - s->low_bytes) / 2;
}

/* One batch size: the formula says how memory changes with the batch, as a ratio and as a
 * difference, at both of its ends. It does not change by more than the batch, and never falls. */
static void extrapolate(struct estimate *s, const struct estimate_fit *l)
{
    struct estimate there;
    struct estimate_opts o = s->o;
    o.batch = l->first;
    if (estimate_job(&there, &o, NULL) < 0)
        return;
    double ends[2][2] = {{(double)there.low_bytes, (double)s->low_bytes},
                         {(double)there.high_bytes, (double)s->high_bytes}};
    double all = l->mean * s->o.batch / l->first; /* as if all of it grew with the batch */
    double least = fmax(l->mean, all), most = fmin(l->mean, all);
    for (int i = 0; i < 2; i++) {
        double ratio = l->mean * ends[i][1] / ends[i][0];
        double difference = l->mean + ends[i][1] - ends[i][0];
        least = fmin(least, fmin(ratio, difference));
        most = fmax(most, fmax(ratio, difference));
    }
    set_range(s, fmax(least, fmin(l->mean, all)), fmin(most, fmax(l->mean, all)), l->worst);
}

void estimate_apply(struct estimate *s, const struct estimate_fit *l)
{
    if (l->several) {
        double y = l->a + l->b * s->o.batch;
        set_range(s, y, y, l->worst);
        snprintf(s->correction, sizeof s->correction,
                 "least squares over the peaks of %d jobs: %.2f GiB + %.3f GiB x batch", l->n,
                 l->a / ESTIMATE_GIB, l->b / ESTIMATE_GIB);
    } else {
        extrapolate(s, l);
        snprintf(s->correction, sizeof s->correction,
                 "measured in %d job%s: %.1f GiB at batch %d%s", l->n, plural_s(l->n),
                 l->mean / ESTIMATE_GIB, l->first,
                 l->first == s->o.batch ? "" : ", changed as the formula changes with the batch");
    }
    s->measured = *l;
}

void estimate_correct(struct estimate *s, const struct history_job *peaks, size_t n)
{
    struct estimate_fit l = fit(peaks, n, s->o.ranks);
    memset(s->left_out, 0, sizeof s->left_out);
    for (size_t i = 0; i < n; i++) {
        enum estimate_left_out why = reason(&peaks[i], s->o.ranks);
        if (why != ESTIMATE_LEFT_OUT)
            s->left_out[why]++;
    }
    if (l.n > 0)
        estimate_apply(s, &l);
}

char *estimate_left_out_text(const struct estimate *s)
{
    static const char *const reasons[ESTIMATE_LEFT_OUT] = {
        [ESTIMATE_JOB_FAILED] = "failed",
        [ESTIMATE_JOB_GPUS] = "with another number of GPUs (-np)",
        [ESTIMATE_JOB_BATCH] = "without --batch-size in the command",
        [ESTIMATE_JOB_PEAK] = "whose own peak is unknown",
    };
    AUTO(strbuf) struct strbuf b = {0};
    int n = 0;
    for (int k = 0; k < ESTIMATE_LEFT_OUT; k++) {
        if (s->left_out[k])
            strbuf_printf(&b, "%s %d %s", b.len ? "," : "", s->left_out[k], reasons[k]);
        n += s->left_out[k];
    }
    return n ? xasprintf("%d earlier job%s not count:%s", n, n == 1 ? " does" : "s do",
                         strbuf_str(&b))
             : NULL;
}
