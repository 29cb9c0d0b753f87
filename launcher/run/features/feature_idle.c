/* feature_idle - implements --idle-timeout: finds out if a job neither uses its GPUs nor writes or
 * reports anything.
 *
 * If the driver does not report the utilisation of a GPU, as for MIG instances, or if an agent
 * sends no samples of its node's GPUs, the job counts as busy. */
#include "common/log.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"

enum {
    PERIOD_MS = 500,
    GAP_MS = 10000 /* a later tick means that drover was suspended */
};

struct idle {
    FEATURE_STATE;
    uint64_t active_ms; /* time of the last output, in the loop's time */
    uint64_t tick_ms;   /* 0: no rank has started */
    int gpus;           /* of the job */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    return set->idle_timeout_s > 0;
}

static void note_activity(struct idle *w)
{
    w->active_ms = uv_now(w->run->loop);
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    note_activity(arg);
    return true;
}

static void on_partial_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    note_activity(arg);
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    note_activity(arg);
}

static void on_timer(uv_timer_t *t)
{
    struct idle *w = t->data;
    double timeout_s = w->run->set->idle_timeout_s;
    uint64_t now_ms = uv_now(t->loop);
    if (now_ms - w->tick_ms > GAP_MS)
        note_activity(w);
    w->tick_ms = now_ms;
    if ((double)(now_ms - w->active_ms) < timeout_s * 1000 ||
        job_monitor_idle_s(w->run->gpus, w->gpus) < timeout_s)
        return;
    uv_timer_stop(t);
    feature_record(w->run, "idle", json_pack("{s:f}", "timeout_s", timeout_s));
    feature_stop(w);
}

/* The plan has the GPUs of all nodes only now. */
static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct idle *w = arg;
    if (w->tick_ms)
        return;
    uv_update_time(w->run->loop);
    note_activity(w);
    w->tick_ms = w->active_ms;
    w->gpus = plan_hardware_gpus(w->run->plan);
    if (w->gpus > 0)
        uv_timer_start(w->timer, on_timer, PERIOD_MS, PERIOD_MS);
    else
        log_warn("--idle-timeout has no effect: the job has no GPU");
}

static void explain(void *state, struct strbuf *b)
{
    const struct idle *w = state;
    strbuf_printf(b,
                  "%s: the job was stopped: it used no GPU and printed nothing for %g s "
                  "(--idle-timeout)\n",
                  w->run->program, w->run->set->idle_timeout_s);
}

const struct feature feature_idle = {
    .options = {OPT_DURATION(0, "idle-timeout", "DURATION",
                             "stop a job that uses no GPU and prints nothing",
                             struct feature_settings, idle_timeout_s, 0, FEATURE_TIME_MAX_S)},
    .check = check,
    .size = sizeof(struct idle),
    .once = true,
    .events = {.line = on_line,
               .partial_line = on_partial_line,
               .report = on_report,
               .rank_started = on_rank_started},
    .cause = FEATURE_CAUSE_IDLE,
    .explain = explain,
};
