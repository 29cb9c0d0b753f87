#include <math.h>
#include <stdio.h>

#include "launcher/estimate/estimate_internal.h"

/* A repeated job differs by a few percent: caches of libraries, the allocator's blocks. */
static const double SPREAD = 0.03;

static bool counts(const struct estimate_peak *p)
{
    return p->batch >= 1 && p->bytes > 0;
}

/* The line of least squares, bytes = a + b * batch. */
struct line {
    double a, b, mean, worst; /* worst: the largest distance of a peak */
    size_t n;
    int first;    /* batch of the first peak */
    bool several; /* batch sizes */
};

static struct line fit(const struct estimate_peak *peaks, size_t n)
{
    struct line l = {0};
    double x = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        if (!counts(&peaks[i]))
            continue;
        l.first = l.n++ == 0 ? peaks[i].batch : l.first;
        l.several |= peaks[i].batch != l.first;
        x += peaks[i].batch;
        l.mean += (double)peaks[i].bytes;
    }
    if (l.n == 0)
        return l;
    x /= (double)l.n;
    l.mean /= (double)l.n;
    for (size_t i = 0; i < n; i++) {
        if (!counts(&peaks[i]))
            continue;
        double dx = peaks[i].batch - x;
        xx += dx * dx;
        xy += dx * ((double)peaks[i].bytes - l.mean);
    }
    l.b = xx > 0 ? fmax(0, xy / xx) : 0; /* memory does not fall with the batch */
    l.a = l.mean - l.b * x;
    for (size_t i = 0; i < n; i++)
        if (counts(&peaks[i]))
            l.worst = fmax(l.worst, fabs((double)peaks[i].bytes - l.a - l.b * peaks[i].batch));
    return l;
}

static void set_range(struct estimate *s, double low, double high, double worst)
{
    s->low_bytes = (uint64_t)fmax(0, fmin(low - worst, low * (1 - SPREAD)));
    s->high_bytes = (uint64_t)fmin(0x1p62, fmax(high + worst, high * (1 + SPREAD)));
}

void estimate_correct(struct estimate *s, const struct estimate_peak *peaks, size_t n)
{
    struct line l = fit(peaks, n);
    if (l.n == 0)
        return;
    if (l.several) {
        double y = l.a + l.b * s->o.batch;
        set_range(s, y, y, l.worst);
        snprintf(s->correction, sizeof s->correction,
                 "least squares over %zu measured peaks: %.2f GiB + %.3f GiB x batch", l.n,
                 l.a / ESTIMATE_GIB, l.b / ESTIMATE_GIB);
    } else {
        /* One batch size: the measured peak, and what the formula adds up to the wanted batch. */
        struct estimate there;
        struct estimate_opts o = s->o;
        o.batch = l.first;
        if (estimate_job(&there, &o, NULL) < 0)
            return;
        double low = (double)s->low_bytes - (double)there.low_bytes;
        double high = (double)s->high_bytes - (double)there.high_bytes;
        set_range(s, l.mean + fmin(low, high), l.mean + fmax(low, high), l.worst);
        snprintf(s->correction, sizeof s->correction, "measured: %.1f GiB at batch %d%s",
                 l.mean / ESTIMATE_GIB, l.first,
                 l.first == s->o.batch ? "" : ", and the formula's difference to this batch");
    }
    s->measured = l.n;
}
