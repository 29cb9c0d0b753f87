#include "launcher/limits/job_clock.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/duration.h"
#include "common/mem.h"

enum {
    CHECK_MS = 1000 /* at least this often: the wall clock may be set */
};

struct job_clock {
    uv_timer_t timer;
    const struct job_limits *limits;
    void (*on_limit)(void *arg, enum job_limit limit);
    void *arg;
    double gpus; /* in use since counted_s */
    double opened_s;
    double counted_s; /* until when `gpu_hours` counts */
    double gpu_hours;
};

static double wall_clock_s(void)
{
    return (double)clock_ms_of(CLOCK_REALTIME) / 1000;
}

/* Reads the whole text by one of the formats. */
static bool read_by(struct tm *out, const char *text, const char *const *formats, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tm tm = *out;
        const char *end = strptime(text, formats[i], &tm);
        if (end && !*end) {
            *out = tm;
            return true;
        }
    }
    return false;
}

static double to_s(struct tm tm, bool utc)
{
    tm.tm_isdst = -1;
    return (double)(utc ? timegm(&tm) : mktime(&tm)); /* both accept a day after the month's last */
}

static bool read_time(double *out_s, const char *text, double now_s)
{
    static const char *const times[] = {"%H:%M", "%H:%M:%S"};
    static const char *const dates[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"};
    size_t len = strlen(text);
    bool utc = len > 0 && text[len - 1] == 'Z';
    AUTO(free) char *local = xstrndup(text, len - utc);
    time_t now = (time_t)now_s;
    struct tm today = {0}, date = {0};
    if (!(utc ? gmtime_r(&now, &today) : localtime_r(&now, &today)))
        return false;
    today.tm_sec = 0;
    if (read_by(&today, local, times, COUNT_OF(times))) {
        *out_s = to_s(today, utc);
        today.tm_mday++;
        if (*out_s <= now_s)
            *out_s = to_s(today, utc);
        return true;
    }
    bool found = read_by(&date, local, dates, COUNT_OF(dates));
    *out_s = to_s(date, utc);
    return found;
}

int job_clock_parse_deadline(double *out_s, const char *text, double now_s, struct err *e)
{
    double s = 0;
    if (duration_parse(&s, text, NULL) == 0) {
        *out_s = now_s + s;
        return 0;
    }
    if (!read_time(&s, text, now_s)) {
        err_set(e, -EINVAL, "'%s' is not a time", text);
        return err_hint(e, "18:00, 2026-11-26T08:00, or a duration from now: 8h");
    }
    if (s <= now_s)
        return err_set(e, -ERANGE, "'%s' has passed", text);
    *out_s = s;
    return 0;
}

int job_clock_read_limits(struct job_limits *l, struct err *e)
{
    if (l->deadline_text &&
        job_clock_parse_deadline(&l->deadline_s, l->deadline_text, wall_clock_s(), e) < 0)
        return err_wrap(e, "--deadline");
    if (l->budget_text && job_limits_parse_budget(l, e) < 0)
        return err_wrap(e, "--budget");
    return 0;
}

struct job_limits_usage job_clock_usage(struct job_clock *c)
{
    double now = clock_s();
    c->gpu_hours += c->gpus * (now - c->counted_s) / 3600;
    c->counted_s = now;
    return (struct job_limits_usage){.seconds = now - c->opened_s,
                                     .now_s = wall_clock_s(),
                                     .gpu_hours = c->gpu_hours,
                                     .gpus = c->gpus};
}

static void check(uv_timer_t *t)
{
    struct job_clock *c = t->data;
    const struct job_limits_usage u = job_clock_usage(c);
    enum job_limit limit;
    double next_s = job_limits_next_s(c->limits, &u, &limit);
    if (next_s <= 0)
        c->on_limit(c->arg, limit);
    else
        uv_timer_start(t, check, next_s < CHECK_MS / 1e3 ? (uint64_t)ceil(next_s * 1e3) : CHECK_MS,
                       0);
}

void job_clock_set_gpus(struct job_clock *c, double gpus)
{
    if (!c)
        return;
    (void)job_clock_usage(c); /* until now with the earlier number */
    c->gpus = gpus;
    if (uv_is_active((uv_handle_t *)&c->timer))
        uv_timer_start(&c->timer, check, 0, 0);
}

struct job_clock *job_clock_open(uv_loop_t *loop, const struct job_limits *l,
                                 void (*on_limit)(void *arg, enum job_limit limit), void *arg)
{
    struct job_clock *c = xzalloc(sizeof *c);
    c->limits = l;
    c->on_limit = on_limit;
    c->arg = arg;
    c->opened_s = c->counted_s = clock_s();
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    if (l->timeout_s > 0 || l->deadline_s > 0 || job_limits_budget_gpu_h(l) > 0)
        uv_timer_start(&c->timer, check, 0, 0);
    return c;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void job_clock_close(struct job_clock *c)
{
    if (c)
        uv_close((uv_handle_t *)&c->timer, on_closed);
}
