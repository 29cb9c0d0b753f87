/* baseline - the measured speed of a program on one kind of hardware, and its comparison with a
 * stored one.
 *
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum { BASELINE_NAME_MAX = 64 };

struct baseline_sample {
    double mean, deviation; /* standard deviation, with the divisor n - 1 */
    int n;
};

struct baseline {
    char *name;
    char *hardware; /* plan_hardware_job() */
    char *unit;     /* of `rate`; "": rank 0 reported no steps, and only `seconds` is known */
    struct baseline_sample rate;
    double step_s;  /* 0: unknown */
    double cpu;     /* share of the ranks' cores that they used; < 0: unknown */
    double gpu;     /* share of the time in which their GPUs were busy; < 0: unknown, or no GPU */
    double seconds; /* from start to end */
    int64_t stored_ms; /* since 1970; 0: not stored */
};

void baseline_clear(struct baseline *b);

/* Checks a name that the user gives: letters, digits, '.', '_' and '-', at most BASELINE_NAME_MAX.
 *   -EINVAL  the name is empty, too long, or has other characters */
int baseline_check_name(const char *name, struct err *e);

/* Sets *low and *high to the 95 % confidence interval of b's mean minus a's. Returns false, and
 * sets nothing, if a sample has fewer than 2 values. Welch, The Generalization of "Student's"
 * Problem when Several Different Population Variances are Involved (Biometrika 34, 1947): the
 * samples may differ in size and variance. The interval is too narrow if the values of a sample
 * depend on each other; means of blocks of them depend less. */
bool baseline_interval(double *low, double *high, const struct baseline_sample *a,
                       const struct baseline_sample *b);
/* Returns the value that the amount of Student's t exceeds with a probability of 5 %, with an error
 * below 1e-8 of it. `freedom`: the degrees of freedom, at least 1; not necessarily an integer. */
double baseline_quantile(double freedom);

struct baseline_change {
    bool comparable; /* both have the same unit */
    double change;   /* of the rate; without one, of `seconds`; 0.1: 10 % more than stored */
    bool has_interval;
    double low, high; /* 95 % confidence interval of `change` */
};

/* Compares a run with a stored baseline of the same hardware. The interval is relative to the
 * stored mean, which is taken as exact there. */
struct baseline_change baseline_compare(const struct baseline *stored, const struct baseline *now);

/* What happened to the measurement of a run. */
enum baseline_fate { BASELINE_STORED, BASELINE_REPLACED, BASELINE_COMPARED };

/* Appends one line with its newline. `stored`: of this name on this hardware; NULL: none.
 * `elsewhere`: the name has a baseline on other hardware. */
void baseline_describe(struct strbuf *b, const struct baseline *now, const struct baseline *stored,
                       bool elsewhere, enum baseline_fate fate);

/* Appends a rate with its unit, or "-": "12,400 tokens/s". */
void baseline_add_rate(struct strbuf *b, const struct baseline *m);

json_t *baseline_json(const struct baseline *m);
/* Returns the members of the event `baseline`. `stored` may be NULL. */
json_t *baseline_event(const struct baseline *now, const struct baseline *stored,
                       enum baseline_fate fate);
