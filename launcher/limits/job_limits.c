#include "launcher/limits/job_limits.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double HOUR_S = 3600;

int job_limits_parse_budget(struct job_limits *l, struct err *e)
{
    const char *text = l->budget_text;
    char *end = NULL;
    size_t digits = strspn(text, "0123456789."); /* strtod() accepts more than these */
    double amount = strtod(text, &end);
    bool hours = strcmp(end, "gpuh") == 0;
    if (digits == 0 || end != text + digits || (!hours && *end) || !isfinite(amount)) {
        err_set(e, -EINVAL, "'%s' is not a budget", text);
        return err_hint(e, "12gpuh in GPU hours, or 30.00 in money with --price");
    }
    if (amount <= 0)
        return err_set(e, -EINVAL, "'%s': must be more than 0", text);
    if (!hours && l->price <= 0) {
        err_set(e, -EINVAL, "'%s': an amount of money needs the price of a GPU hour", text);
        return err_hint(e, "--price 2.10, or a budget in GPU hours: --budget 12gpuh");
    }
    l->budget_gpu_h = hours ? amount : 0;
    l->budget_money = hours ? 0 : amount;
    return 0;
}

double job_limits_budget_gpu_h(const struct job_limits *l)
{
    return l->budget_money > 0 ? l->budget_money / l->price : l->budget_gpu_h;
}

static double budget_remaining_s(const struct job_limits *l, const struct job_limits_usage *u)
{
    double budget_h = job_limits_budget_gpu_h(l), left_h = budget_h - u->gpu_hours;
    if (budget_h <= 0)
        return INFINITY;
    if (left_h <= 0)
        return 0;
    return u->gpus > 0 ? left_h * HOUR_S / u->gpus : INFINITY;
}

double job_limits_next_s(const struct job_limits *l, const struct job_limits_usage *u,
                         enum job_limit *limit)
{
    const double remaining_s[JOB_LIMITS] = {
        [JOB_LIMIT_TIMEOUT] = l->timeout_s > 0 ? l->timeout_s - u->seconds : INFINITY,
        [JOB_LIMIT_DEADLINE] = l->deadline_s > 0 ? l->deadline_s - u->now_s : INFINITY,
        [JOB_LIMIT_BUDGET] = budget_remaining_s(l, u)};
    double next_s = INFINITY;
    for (int i = 0; i < JOB_LIMITS; i++)
        if (remaining_s[i] < next_s && next_s > 0) {
            next_s = remaining_s[i];
            *limit = (enum job_limit)i;
        }
    return next_s;
}

static void describe_budget(struct strbuf *b, const struct job_limits *l,
                            const struct job_limits_usage *u)
{
    bool money = l->budget_money > 0;
    double over_h = u->gpu_hours - job_limits_budget_gpu_h(l);
    double over = money ? over_h * l->price : over_h;
    strbuf_printf(b, "at its budget (--budget %s): it has used %.4g GPU hours", l->budget_text,
                  u->gpu_hours);
    if (money)
        strbuf_printf(b, ", which cost %.2f at %g", u->gpu_hours * l->price, l->price);
    if (over >= 0.01)
        strbuf_printf(b, ", %.2f more than the budget", over);
}

void job_limits_describe(struct strbuf *b, const struct job_limits *l, enum job_limit limit,
                         const struct job_limits_usage *at_end)
{
    double later_s = 0;
    if (limit == JOB_LIMIT_TIMEOUT) {
        strbuf_printf(b, "after %g s (--timeout)", l->timeout_s);
        later_s = at_end->seconds - l->timeout_s;
    } else if (limit == JOB_LIMIT_DEADLINE) {
        strbuf_printf(b, "at its deadline (--deadline %s)", l->deadline_text);
        later_s = at_end->now_s - l->deadline_s;
    } else {
        describe_budget(b, l, at_end);
    }
    if (later_s >= 0.05)
        strbuf_printf(b, " and ended %.1f s later", later_s);
}
