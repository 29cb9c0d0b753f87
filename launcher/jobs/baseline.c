#include "launcher/jobs/baseline.h"

#include <errno.h>
#include <math.h>

void baseline_clear(struct baseline *b)
{
    free(b->name);
    free(b->hardware);
    free(b->unit);
    *b = (struct baseline){0};
}

int baseline_check_name(const char *name, struct err *e)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(name);
    if (len > 0 && len <= BASELINE_NAME_MAX && strspn(name, allowed) == len)
        return 0;
    err_set(e, -EINVAL, "invalid baseline name '%s'", name);
    return err_hint(e, "1 to %d letters, digits, '.', '_' and '-'", BASELINE_NAME_MAX);
}

/* ---- the interval --------------------------------------------------------------------------- */

/* Returns the probability that the amount of Student's t is at most t. With t = sqrt(freedom)
 * tan(x) the density is proportional to cos(x)^(freedom - 1), which Simpson's rule integrates from
 * 0. */
static double probability_within(double t, double freedom)
{
    enum { PANELS = 512 };
    double end = atan(t / sqrt(freedom)), sum = 0;
    for (int i = 0; i <= PANELS; i++) {
        double weight = i == 0 || i == PANELS ? 1 : i % 2 ? 4 : 2;
        sum += weight * pow(cos(end * i / PANELS), freedom - 1);
    }
    double scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(M_PI);
    return 2 * scale * sum * end / PANELS / 3;
}

double baseline_quantile(double freedom)
{
    double low = 1.95, high = 12.8; /* the normal distribution has 1.96, one degree 12.71 */
    while (high - low > 1e-10) {
        double middle = (low + high) / 2;
        *(probability_within(middle, freedom) < 0.95 ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

bool baseline_interval(double *low, double *high, const struct baseline_sample *a,
                       const struct baseline_sample *b)
{
    if (a->n < 2 || b->n < 2)
        return false;
    double va = a->deviation * a->deviation / a->n, vb = b->deviation * b->deviation / b->n;
    double difference = b->mean - a->mean, half = 0;
    if (va + vb > 0) {
        double freedom = (va + vb) * (va + vb) / (va * va / (a->n - 1) + vb * vb / (b->n - 1));
        half = baseline_quantile(freedom) * sqrt(va + vb);
    }
    *low = difference - half;
    *high = difference + half;
    return true;
}

struct baseline_change baseline_compare(const struct baseline *stored, const struct baseline *now)
{
    struct baseline_change c = {.comparable = strcmp(stored->unit, now->unit) == 0};
    double before = *stored->unit ? stored->rate.mean : stored->seconds;
    double after = *now->unit ? now->rate.mean : now->seconds;
    c.comparable &= before > 0;
    if (!c.comparable)
        return c;
    c.change = after / before - 1;
    c.has_interval = *now->unit && baseline_interval(&c.low, &c.high, &stored->rate, &now->rate);
    c.low /= before;
    c.high /= before;
    return c;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Appends a number with four significant digits, or as an integer with groups of three digits. */
static void add_number(struct strbuf *b, double x)
{
    char digits[32];
    if (x < 999.95 || x >= 1e15) {
        strbuf_printf(b, "%.4g", x);
        return;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", x);
    for (int i = 0; i < n; i++)
        strbuf_printf(b, "%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", digits[i]);
}

static void add_seconds(struct strbuf *b, double s)
{
    add_number(b, s < 1 ? s * 1000 : s);
    strbuf_puts(b, s < 1 ? " ms" : " s");
}

void baseline_add_rate(struct strbuf *b, const struct baseline *m)
{
    if (!*m->unit) {
        strbuf_putc(b, '-');
        return;
    }
    add_number(b, m->rate.mean);
    strbuf_printf(b, " %s", m->unit);
}

/* Appends the value that is compared: the rate, or the duration of the job. */
static void add_value(struct strbuf *b, const struct baseline *m, bool with_unit)
{
    if (!*m->unit)
        add_seconds(b, m->seconds);
    else if (with_unit)
        baseline_add_rate(b, m);
    else
        add_number(b, m->rate.mean);
}

static void add_change(struct strbuf *b, const struct baseline *stored, const struct baseline *now)
{
    struct baseline_change c = baseline_compare(stored, now);
    if (!c.comparable) {
        strbuf_printf(b, ", not compared: the stored one has %s%s",
                      *stored->unit ? "another unit, " : "no steps", stored->unit);
        return;
    }
    bool found = !c.has_interval || c.low > 0 || c.high < 0;
    if (found)
        strbuf_printf(b, ", %.1f %% %s the stored ", fabs(c.change) * 100,
                      c.change < 0 ? "below" : "above");
    else
        strbuf_puts(b, ", no difference found from the stored ");
    add_value(b, stored, false);
    if (c.has_interval)
        strbuf_printf(b, " (95 %% interval %.1f to %.1f %%)", c.low * 100, c.high * 100);
    else
        strbuf_puts(b, *now->unit ? " (too few reports for an interval)" : " (one run each)");
}

void baseline_describe(struct strbuf *b, const struct baseline *now, const struct baseline *stored,
                       bool elsewhere, enum baseline_fate fate)
{
    static const char *const fates[] = {", stored", ", replaced the stored one", ""};
    strbuf_printf(b, "baseline %s: ", now->name);
    if (!*now->unit)
        strbuf_puts(b, "rank 0 reported no steps, the job took ");
    add_value(b, now, true);
    if (stored)
        add_change(b, stored, now);
    if (now->step_s > 0) {
        strbuf_puts(b, ", ");
        add_seconds(b, now->step_s);
        strbuf_puts(b, " per step");
    }
    if (now->cpu >= 0)
        strbuf_printf(b, ", CPU %.0f %%", now->cpu * 100);
    if (now->gpu >= 0)
        strbuf_printf(b, ", GPU %.0f %%", now->gpu * 100);
    strbuf_printf(b, ", %s", now->hardware);
    if (!stored && elsewhere)
        strbuf_puts(b, ", no baseline on this hardware");
    strbuf_printf(b, "%s\n", fates[fate]);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *real_or_null(bool known, double x)
{
    return known && isfinite(x) ? json_real(x) : json_null();
}

json_t *baseline_json(const struct baseline *m)
{
    bool rate = *m->unit;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "name", json_text(m->name),
        "hardware", json_text(m->hardware), "unit", rate ? json_text(m->unit) : json_null(),
        "throughput", real_or_null(rate, m->rate.mean), "deviation",
        real_or_null(rate && m->rate.n > 1, m->rate.deviation), "blocks", m->rate.n, "step_s",
        real_or_null(m->step_s > 0, m->step_s), "cpu", real_or_null(m->cpu >= 0, m->cpu), "gpu",
        real_or_null(m->gpu >= 0, m->gpu), "seconds", real_or_null(true, m->seconds), "stored_ms",
        m->stored_ms ? json_integer(m->stored_ms) : json_null());
}

json_t *baseline_event(const struct baseline *now, const struct baseline *stored,
                       enum baseline_fate fate)
{
    static const char *const fates[] = {"stored", "replaced", "compared"};
    struct baseline_change c = {0};
    if (stored)
        c = baseline_compare(stored, now);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "result", fates[fate], "now",
                     baseline_json(now), "stored", stored ? baseline_json(stored) : json_null(),
                     "change", real_or_null(c.comparable, c.change), "low",
                     real_or_null(c.has_interval, c.low), "high",
                     real_or_null(c.has_interval, c.high));
}
