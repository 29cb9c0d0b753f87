#include "launcher/jobs/baseline_series.h"

#include <math.h>
#include <stdbool.h>

enum { INTERVALS_MAX = 4096, BLOCKS_MAX = 20, WARM_UP_SHARE = 10 };

/* Names under which programs report their throughput, the preferred ones first. */
static const struct {
    const char *name, *unit;
} throughputs[] = {
    {"tokens_per_s", "tokens/s"},       {"tokens_per_second", "tokens/s"},
    {"tokens_per_sec", "tokens/s"},     {"tokens/s", "tokens/s"},
    {"samples_per_s", "samples/s"},     {"samples_per_second", "samples/s"},
    {"samples_per_sec", "samples/s"},   {"samples/s", "samples/s"},
    {"examples_per_s", "examples/s"},   {"examples_per_second", "examples/s"},
    {"examples_per_sec", "examples/s"}, {"images_per_s", "images/s"},
    {"images_per_second", "images/s"},  {"images_per_sec", "images/s"},
    {"throughput", "units/s"},          {"it/s", "it/s"},
};

struct interval {
    double seconds, steps;
    double amount; /* what the reported throughput amounts to in this time */
};

struct baseline_series {
    int metric;     /* row of `throughputs`; -1: none is reported so far */
    bool started;   /* there is a first report */
    double at_s;    /* of the last report that counts … */
    double step;    /* … and its step */
    double next;    /* the step of a report without one: the number of reports so far */
    int merged;     /* reports per interval … */
    int open_count; /* … of which the last, unfinished interval `open` has this many */
    struct interval open;
    int count;
    struct interval at[INTERVALS_MAX];
};

struct baseline_series *baseline_series_new(void)
{
    struct baseline_series *s = xzalloc(sizeof *s);
    s->metric = -1;
    s->merged = 1;
    return s;
}

void baseline_series_free(struct baseline_series *s)
{
    free(s);
}

static void add(struct interval *to, const struct interval *part)
{
    to->seconds += part->seconds;
    to->steps += part->steps;
    to->amount += part->amount;
}

static void push(struct baseline_series *s, const struct interval *part)
{
    add(&s->open, part);
    if (++s->open_count < s->merged)
        return;
    s->at[s->count++] = s->open;
    s->open = (struct interval){0};
    s->open_count = 0;
    if (s->count < INTERVALS_MAX)
        return;
    for (int i = 0; i < INTERVALS_MAX / 2; i++) {
        s->at[i] = s->at[2 * i];
        add(&s->at[i], &s->at[2 * i + 1]);
    }
    s->count /= 2;
    s->merged *= 2;
}

/* Returns the row of the preferred throughput in the report, or -1. */
static int find_metric(const json_t *report)
{
    for (size_t i = 0; i < COUNT_OF(throughputs); i++)
        if (json_object_get(report, throughputs[i].name))
            return (int)i;
    return -1;
}

static bool read_metric(double *out, const json_t *report, int metric)
{
    return json_as_number(out, json_object_get(report, throughputs[metric].name)) == 0 &&
           isfinite(*out) && *out > 0;
}

/* Begins anew: earlier intervals do not have this metric. */
static void choose_metric(struct baseline_series *s, int metric)
{
    s->metric = metric;
    s->started = false;
    s->count = s->open_count = 0;
    s->merged = 1;
    s->open = (struct interval){0};
}

void baseline_series_add(struct baseline_series *s, double at_s, const json_t *report)
{
    double step = s->next, value = 0;
    const json_t *given = json_object_get(report, "step");
    if (given && (json_as_number(&step, given) < 0 || !isfinite(step)))
        return;
    s->next++;
    if (s->metric < 0 && find_metric(report) >= 0)
        choose_metric(s, find_metric(report));
    if (s->metric >= 0 && !read_metric(&value, report, s->metric))
        return;
    if (s->started && (step == s->step || (step > s->step && !(at_s > s->at_s))))
        return; /* the next report has the time of this one, too */
    if (s->started && step > s->step) {
        double seconds = at_s - s->at_s;
        push(s, &(struct interval){seconds, step - s->step, value * seconds});
    }
    s->started = true; /* a lower step begins a new count */
    s->at_s = at_s;
    s->step = step;
}

/* Sets *out to the sum of the intervals first … end - 1. */
static void sum_of(struct interval *out, const struct interval *at, int first, int end)
{
    *out = (struct interval){0};
    for (int i = first; i < end; i++)
        add(out, &at[i]);
}

struct baseline_speed baseline_series_speed(const struct baseline_series *s)
{
    int n = s->count, warm_up = n / WARM_UP_SHARE;
    if (warm_up == 0 && n > 1)
        warm_up = 1;
    const struct interval *at = s->at + warm_up;
    n -= warm_up;
    if (n == 0)
        return (struct baseline_speed){.unit = ""};
    struct interval all, part;
    double sum = 0, squares = 0, rates[BLOCKS_MAX];
    int blocks = n < BLOCKS_MAX ? n : BLOCKS_MAX;
    for (int i = 0; i < blocks; i++) {
        sum_of(&part, at, n * i / blocks, n * (i + 1) / blocks);
        rates[i] = (s->metric >= 0 ? part.amount : part.steps) / part.seconds;
        sum += rates[i];
    }
    sum_of(&all, at, 0, n);
    double mean = sum / blocks;
    for (int i = 0; i < blocks; i++)
        squares += (rates[i] - mean) * (rates[i] - mean);
    return (struct baseline_speed){
        .unit = s->metric >= 0 ? throughputs[s->metric].unit : "steps/s",
        .rate = {mean, blocks > 1 ? sqrt(squares / (blocks - 1)) : 0, blocks},
        .step_s = all.seconds / all.steps};
}
