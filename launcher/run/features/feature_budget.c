/* feature_budget - implements --timeout, --deadline and --budget, which end a job, and
 * --start-when, which starts it. */
#include <errno.h>
#include <stdio.h>

#include "common/log.h"
#include "launcher/limits/start_condition.h"
#include "launcher/node/topo.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"

struct budget {
    FEATURE_STATE;
    enum job_limit reached;
    bool started; /* a rank of the attempt has started */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    int rc = job_clock_read_limits(&set->budget.limits, e);
    return rc < 0 ? rc : 1;
}

/* ---- before the job ------------------------------------------------------------------------- */

/* Refuses a budget of GPU hours for a job that uses no GPU. The GPUs of other nodes are not known
 * yet. */
static int check_gpus(const struct feature_run *r, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(plan) struct plan *p = NULL;
    const struct job_limits *l = &r->set->budget.limits;
    if (job_limits_budget_gpu_h(l) <= 0)
        return 0;
    if (topo_load(&t, e) < 0 || plan_make(&p, r->spec, t, environ, e) < 0)
        return e->code;
    if (!plan_is_local(p) || plan_hardware_gpus(p) > 0)
        return 0;
    err_set(e, -EINVAL, "--budget %s: the job uses no GPU", l->budget_text);
    return err_hint(e, "--timeout, which counts the time of any job");
}

static int admit(int *status, const struct feature_run *r, struct err *e)
{
    const struct start_condition c = {.program = r->program,
                                      .command = r->set->budget.start_when,
                                      .pause_max_s = r->set->budget.start_when_pause_max_s,
                                      .limits = &r->set->budget.limits,
                                      .quiet = r->quiet};
    int rc = check_gpus(r, e);
    if (rc < 0 || r->dry_run || !c.command)
        return rc;
    rc = start_condition_wait(&c, e);
    *status = rc > 0 ? rc : 0;
    return rc < 0 ? rc : 0;
}

/* ---- the job -------------------------------------------------------------------------------- */

static void on_limit(void *arg, enum job_limit limit)
{
    struct budget *b = arg;
    b->reached = limit;
    feature_stop(b);
}

static int open_clock(void *state, struct err *e)
{
    struct budget *b = state;
    b->run->clock = job_clock_open(b->run->loop, &b->run->set->budget.limits, on_limit, b);
    return 0;
}

static int count_gpus(const struct budget *b)
{
    int gpus = plan_hardware_gpus(b->run->plan);
    job_clock_set_gpus(b->run->clock, gpus);
    return gpus;
}

static void attach(void *state)
{
    struct budget *b = state;
    b->started = false;
    (void)count_gpus(b);
}

/* The nodes of the job, and so its GPUs, are known when the first rank has started. */
static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct budget *b = arg;
    const struct job_limits *l = &b->run->set->budget.limits;
    if (b->started)
        return;
    b->started = true;
    if (count_gpus(b) == 0 && job_limits_budget_gpu_h(l) > 0)
        log_warn("--budget %s has no effect: the job uses no GPU", l->budget_text);
}

static void ended(void *state, const struct job_end *end, int status)
{
    const struct budget *b = state;
    job_clock_set_gpus(b->run->clock, 0);
}

static void explain(void *state, struct strbuf *text)
{
    const struct budget *b = state;
    const struct job_limits_usage at_end = job_clock_usage(b->run->clock);
    strbuf_printf(text, "%s: the job was stopped ", b->run->program);
    job_limits_describe(text, &b->run->set->budget.limits, b->reached, &at_end);
    strbuf_putc(text, '\n');
}

static void close_clock(void *state)
{
    const struct budget *b = state;
    job_clock_close(b->run->clock);
}

#define T struct feature_settings
const struct feature feature_budget = {
    .options = {OPT_DURATION(0, "timeout", "DURATION",
                             "stop the job after this time, with status 124", T,
                             budget.limits.timeout_s, 0, FEATURE_TIME_MAX_S),
                OPT_STR(0, "deadline", "TIME", "stop the job at this time: 18:00, or 8h from now",
                        T, budget.limits.deadline_text),
                OPT_STR(0, "budget", "AMOUNT", "stop the job after 12gpuh, or 30.00 with --price",
                        T, budget.limits.budget_text),
                OPT_DOUBLE(0, "price", "AMOUNT", "price of one GPU hour, in any currency", T,
                           budget.limits.price, 1e-6, 1e6),
                OPT_STR(0, "start-when", "CMD", "start the job when this command succeeds", T,
                        budget.start_when),
                OPT_DURATION(0, "start-when-interval", "DURATION",
                             "longest pause between its runs (default: 60)", T,
                             budget.start_when_pause_max_s, 0.01, FEATURE_TIME_MAX_S)},
    .check = check,
    .admit = admit,
    .size = sizeof(struct budget),
    .open = open_clock,
    .attach = attach,
    .events = {.rank_started = on_rank_started},
    .ended = ended,
    .cause = FEATURE_CAUSE_LIMIT,
    .explain = explain,
    .close = close_clock,
};
