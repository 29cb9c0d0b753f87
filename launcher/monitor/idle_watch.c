#include "launcher/monitor/idle_watch.h"

#include "common/log.h"

enum {
    PERIOD_MS = 500,
    GAP_MS = 10000 /* a later tick means that drover was suspended */
};

struct idle_watch {
    uv_timer_t timer;
    struct job_monitor *monitor;
    double timeout_s;
    uint64_t active_ms; /* time of the last output, in the loop's time */
    uint64_t tick_ms;
    void (*on_idle)(void *arg);
    void *arg;
};

static void note_activity(struct idle_watch *w)
{
    w->active_ms = uv_now(w->timer.loop);
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
    struct idle_watch *w = t->data;
    uint64_t now_ms = uv_now(t->loop);
    if (now_ms - w->tick_ms > GAP_MS)
        note_activity(w);
    w->tick_ms = now_ms;
    if ((double)(now_ms - w->active_ms) < w->timeout_s * 1000 ||
        job_monitor_idle_s(w->monitor) < w->timeout_s)
        return;
    uv_timer_stop(t);
    w->on_idle(w->arg);
}

struct idle_watch *idle_watch_open(uv_loop_t *loop, struct launch *job, struct job_monitor *monitor,
                                   double timeout_s, void (*on_idle)(void *arg), void *arg)
{
    static const struct launch_events events = {
        .line = on_line, .partial_line = on_partial_line, .report = on_report};
    struct idle_watch *w = xzalloc(sizeof *w);
    *w = (struct idle_watch){
        .monitor = monitor, .timeout_s = timeout_s, .on_idle = on_idle, .arg = arg};
    uv_timer_init(loop, &w->timer);
    w->timer.data = w;
    if (!monitor || !plan_is_local(launch_plan(job))) {
        log_warn("--idle-timeout has no effect: %s",
                 monitor ? "the job has ranks on other nodes" : "the job has no GPU on this node");
        return w;
    }
    uv_update_time(loop);
    note_activity(w);
    w->tick_ms = w->active_ms;
    uv_timer_start(&w->timer, on_timer, PERIOD_MS, PERIOD_MS);
    launch_observe(job, &events, w);
    return w;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void idle_watch_close(struct idle_watch *w)
{
    if (w)
        uv_close((uv_handle_t *)&w->timer, on_closed);
}
