#include "launcher/limits/job_clock.h"

#include <math.h>

#include "common/clock.h"
#include "common/mem.h"
#include "launcher/limits/deadline.h"

enum {
    CHECK_MS = 1000 /* at least this often: the wall clock may be set, and nodes may connect */
};

struct job_clock {
    uv_timer_t timer;
    const struct job_limits *limits;
    void (*on_limit)(void *arg, enum job_limit limit);
    void *arg;
    const struct plan *plan; /* NULL: no attempt runs */
    double opened_s;
    double counted_s; /* until when `gpu_hours` counts */
    double gpu_hours;
};

static double wall_clock_s(void)
{
    return (double)clock_ms_of(CLOCK_REALTIME) / 1000;
}

int job_clock_read_limits(struct job_limits *l, struct err *e)
{
    if (l->deadline_text && deadline_parse(&l->deadline_s, l->deadline_text, wall_clock_s(), e) < 0)
        return err_wrap(e, "--deadline");
    if (l->budget_text && job_limits_parse_budget(l, e) < 0)
        return err_wrap(e, "--budget");
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const long *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int job_clock_gpus(const struct plan *p)
{
    AUTO(free) long *all = xcalloc((size_t)p->world_size + 1, sizeof *all);
    size_t n = 0;
    int gpus = 0;
    for (int i = 0; i < p->world_size; i++)
        if (p->ranks[i].gpu >= 0)
            all[n++] = ((long)p->ranks[i].node << 32) + p->ranks[i].gpu;
    qsort(all, n, sizeof *all, by_value);
    for (size_t i = 0; i < n; i++)
        gpus += i == 0 || all[i] != all[i - 1];
    return gpus;
}

struct job_limits_usage job_clock_usage(struct job_clock *c)
{
    double now = clock_s();
    int gpus = c->plan ? job_clock_gpus(c->plan) : 0;
    c->gpu_hours += gpus * (now - c->counted_s) / 3600;
    c->counted_s = now;
    return (struct job_limits_usage){.seconds = now - c->opened_s,
                                     .now_s = wall_clock_s(),
                                     .gpu_hours = c->gpu_hours,
                                     .gpus = gpus};
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

void job_clock_began(struct job_clock *c, const struct plan *p)
{
    (void)job_clock_usage(c); /* counts the time before it */
    c->plan = p;
    if (uv_is_active((uv_handle_t *)&c->timer))
        uv_timer_start(&c->timer, check, 0, 0);
}

void job_clock_ended(struct job_clock *c)
{
    (void)job_clock_usage(c);
    c->plan = NULL;
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
