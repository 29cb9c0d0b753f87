#include "launcher/progress/job_progress.h"

#include <string.h>

#include "common/log.h"
#include "common/utf8.h"
#include "launcher/diagnose/straggler.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/job/rank_list.h"

enum {
    COLLECTIVES_MS = 150, /* a sample of the time outside of collectives is at least this long */
    STATUS_TICKS = 2      /* the status of ranks on other nodes is requested on each n-th tick */
};

/* Smaller differences are the scheduler's, or do not matter. */
static const double SECTION_EXCESS_S = 0.002, COLLECTIVES_EXCESS_S = 0.05;

struct rank {
    struct collective_position collectives; /* at the last sample; read_ms 0: there is none */
    double step;                            /* of its last report … */
    int64_t at_ms;                          /* … which arrived at this time; 0: there is none */
    bool warned;                            /* it was logged that its limits are malformed */
};

struct job_progress {
    uv_timer_t timer;
    uv_loop_t *loop;
    struct launch *job;
    struct job_progress_opts opts;
    struct section_watch *watch;
    struct straggler *straggler; /* NULL: not looked for */
    struct rank *ranks;
    bool *over;   /* by rank */
    bool overrun; /* `overrun` was called */
    int ticks;
    bool *asked; /* scratch, by rank */
    struct job_progress_events ev;
    void *arg;
};

static int64_t now_ms(const struct job_progress *p)
{
    return (int64_t)uv_now(p->loop);
}

/* ---- what was found ------------------------------------------------------------------------- */

static const char *node_of(const struct job_progress *p, int rank)
{
    const struct plan *plan = launch_plan(p->job);
    return plan->nodes[plan->ranks[rank].node].name;
}

/* Appends "rank 3 on c07 (GPU 3)". */
static void write_rank(struct strbuf *b, const struct job_progress *p, int rank)
{
    const struct plan *plan = launch_plan(p->job);
    strbuf_printf(b, "rank %d on %s", plan->first_rank + rank, node_of(p, rank));
    if (plan->ranks[rank].gpu >= 0)
        strbuf_printf(b, " (GPU %d)", plan->ranks[rank].gpu);
}

static json_t *rank_json(const struct job_progress *p, int rank)
{
    const struct plan *plan = launch_plan(p->job);
    int gpu = plan->ranks[rank].gpu;
    return json_pack("{s:i, s:o, s:o}", "rank", plan->first_rank + rank, "node",
                     json_text(node_of(p, rank)), "gpu",
                     gpu >= 0 ? json_integer(gpu) : json_null());
}

static const char *option_of(const struct job_progress *p, enum section_overrun_kind kind)
{
    static const char *const own[] = {
        [SECTION_OVERRUN_SECTION] = "--section-timeouts",
        [SECTION_OVERRUN_OUTSIDE] = "--out-of-section-timeout",
        [SECTION_OVERRUN_HEARTBEAT] = "--heartbeat-timeout",
        [SECTION_OVERRUN_FIRST_HEARTBEAT] = "--initial-heartbeat-timeout",
    };
    static const char *const of_ft[] = {
        [SECTION_OVERRUN_SECTION] = "rank_section_timeouts",
        [SECTION_OVERRUN_OUTSIDE] = "rank_out_of_section_timeout",
        [SECTION_OVERRUN_HEARTBEAT] = "rank_heartbeat_timeout",
        [SECTION_OVERRUN_FIRST_HEARTBEAT] = "initial_rank_heartbeat_timeout",
    };
    return (p->opts.from_connect ? of_ft : own)[kind];
}

static void report_overrun(struct job_progress *p, const struct section_overrun *o)
{
    AUTO(strbuf) struct strbuf b = {0};
    int n = 0;
    for (int i = 0; i < launch_plan(p->job)->world_size; i++)
        n += p->over[i];
    if (n > 1)
        rank_list_write(&b, p->over, launch_plan(p->job)->world_size,
                        launch_plan(p->job)->first_rank);
    else
        write_rank(&b, p, o->rank);
    strbuf_putc(&b, ' ');
    section_watch_overrun_write(&b, o, n > 1);
    strbuf_printf(&b, " (%s)", option_of(p, o->kind));
    json_t *fields =
        json_pack("{s:s, s:I, s:I, s:o}", "why", section_watch_overrun_name(o->kind), "timeout_ms",
                  (json_int_t)o->limit_ms, "elapsed_ms", (json_int_t)o->ms, "section",
                  o->section ? json_text(o->section) : json_null());
    json_object_update_new(fields, rank_json(p, o->rank));
    p->overrun = true;
    p->ev.overrun(p->arg, strbuf_str(&b), p->over, fields);
}

static void report_straggler(struct job_progress *p, const struct straggler_change *c)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%s: ", p->opts.program);
    write_rank(&b, p, c->rank);
    json_t *fields = rank_json(p, c->rank);
    json_object_set_new(fields, "slow", json_boolean(c->slow));
    if (c->slow) {
        strbuf_printf(&b, " is %.2f times slower than the median (", c->ratio);
        utf8_add_line(&b, c->what);
        int digits = c->others >= 0.1 ? 0 : c->others >= 0.01 ? 1 : 2;
        strbuf_printf(&b, " %.*f ms, others %.*f ms ± %.*f)\n", digits, c->seconds * 1000, digits,
                      c->others * 1000, digits, c->spread * 1000);
        json_object_update_new(fields,
                               json_pack("{s:o, s:f, s:f, s:f, s:f}", "what", json_text(c->what),
                                         "ratio", c->ratio, "ms", c->seconds * 1000, "others_ms",
                                         c->others * 1000, "spread_ms", c->spread * 1000));
    } else {
        strbuf_puts(&b, " is no longer slower than the others\n");
    }
    p->ev.straggler(p->arg, strbuf_str(&b), fields);
}

/* Adds the time that a rank spends outside of collectives. In a job whose ranks wait for each
 * other, the steps of all ranks take the same time: the slow rank computes while the others wait in
 * a collective. */
static void sample_collectives(struct job_progress *p, int rank)
{
    struct collective_position at, *before = &p->ranks[rank].collectives;
    launch_last_collective(p->job, rank, &at);
    int64_t ms = at.read_ms - before->read_ms, outside_ms = ms - (at.waited_ms - before->waited_ms);
    if (before->read_ms && at.calls_done >= before->calls_done &&
        (ms < COLLECTIVES_MS || at.calls_done == before->calls_done))
        return; /* a longer sample, with a whole step */
    if (before->read_ms && at.calls_done > before->calls_done)
        straggler_add(p->straggler, rank, "time per second outside of collectives",
                      outside_ms > 0 ? (double)outside_ms / (double)ms : 0, COLLECTIVES_EXCESS_S);
    *before = at;
}

static void look_for_stragglers(struct job_progress *p)
{
    struct straggler_change c;
    if (p->ticks++ % STATUS_TICKS == 0)
        (void)launch_request_status(p->job, p->asked);
    for (int i = 0; i < launch_plan(p->job)->world_size; i++)
        sample_collectives(p, i);
    while (straggler_next(p->straggler, &c))
        report_straggler(p, &c);
}

static void on_timer(uv_timer_t *t)
{
    struct job_progress *p = t->data;
    struct section_overrun o;
    if (!p->overrun && section_watch_check(p->watch, &o, p->over, now_ms(p)))
        report_overrun(p, &o);
    if (p->straggler)
        look_for_stragglers(p);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct job_progress *p = arg;
    if (!p->opts.from_connect)
        section_watch_apply(p->watch, rank, SECTION_WATCH_EV_START, now_ms(p));
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct job_progress *p = arg;
    section_watch_apply(p->watch, r->rank, SECTION_WATCH_EV_EXIT, now_ms(p));
    if (p->straggler)
        straggler_end(p->straggler, r->rank);
}

static void set_limits(struct job_progress *p, int rank, const json_t *from)
{
    struct err e = {0};
    if (section_limits_read(section_watch_limits(p->watch, rank), from, &e) == 0 ||
        p->ranks[rank].warned)
        return;
    p->ranks[rank].warned = true;
    log_warn("rank %d sends time limits that are ignored: %s",
             launch_plan(p->job)->first_rank + rank, e.text);
}

static void on_progress(void *arg, int rank, const struct progress_packet *packet)
{
    struct job_progress *p = arg;
    int64_t now = now_ms(p);
    switch (packet->kind) {
    case PROGRESS_SECTION_BEGIN:
        section_watch_begin(p->watch, rank, packet->section, now);
        break;
    case PROGRESS_SECTION_END:
        section_watch_end(p->watch, rank, packet->section, now);
        if (p->straggler && packet->section && packet->seconds >= 0)
            straggler_add(p->straggler, rank, packet->section, packet->seconds, SECTION_EXCESS_S);
        break;
    case PROGRESS_HEARTBEAT:
        section_watch_apply(p->watch, rank, SECTION_WATCH_EV_HEARTBEAT, now);
        break;
    case PROGRESS_CONNECT:
        section_watch_apply(p->watch, rank, SECTION_WATCH_EV_CONNECT, now);
        break;
    case PROGRESS_DISCONNECT:
        section_watch_apply(p->watch, rank, SECTION_WATCH_EV_DISCONNECT, now);
        break;
    case PROGRESS_LIMITS:
        set_limits(p, rank, packet->json);
        break;
    }
}

/* Adds the time since the rank's last report, per step. */
static void on_report(void *arg, int rank, const char *json, size_t len)
{
    struct job_progress *p = arg;
    struct rank *r = &p->ranks[rank];
    AUTO(json) json_t *report = p->straggler ? metric_mapping_read(json, len) : NULL;
    double step;
    if (!report || json_as_number(&step, json_object_get(report, "step")) < 0)
        return;
    if (r->at_ms && step > r->step)
        straggler_add(p->straggler, rank, "step between reports",
                      (double)(now_ms(p) - r->at_ms) / 1000 / (step - r->step), SECTION_EXCESS_S);
    if (r->at_ms && step == r->step)
        return; /* more metrics of the same step */
    r->step = step;
    r->at_ms = now_ms(p);
}

/* ---- open and close ------------------------------------------------------------------------- */

struct job_progress *job_progress_open(uv_loop_t *loop, struct launch *job,
                                       const struct job_progress_opts *o,
                                       const struct job_progress_events *ev, void *arg)
{
    static const struct launch_events events = {.report = on_report,
                                                .progress = on_progress,
                                                .rank_started = on_rank_started,
                                                .rank_ended = on_rank_ended};
    struct job_progress *p = xzalloc(sizeof *p);
    int n = launch_plan(job)->world_size;
    p->loop = loop;
    p->job = job;
    p->opts = *o;
    p->ev = *ev;
    p->arg = arg;
    p->watch = section_watch_new(n, o->limits);
    p->straggler = o->stragglers ? straggler_new(n) : NULL;
    p->ranks = xcalloc((size_t)n, sizeof *p->ranks);
    p->over = xcalloc((size_t)n, sizeof *p->over);
    p->asked = xcalloc((size_t)n, sizeof *p->asked);
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, on_timer, SECTION_WATCH_INTERVAL_MS, SECTION_WATCH_INTERVAL_MS);
    launch_observe(job, &events, p);
    return p;
}

const struct section_limits *job_progress_longest(const struct job_progress *p)
{
    return section_watch_longest(p->watch);
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void job_progress_close(struct job_progress *p)
{
    if (!p)
        return;
    section_watch_free(p->watch);
    straggler_free(p->straggler);
    free(p->ranks);
    free(p->over);
    free(p->asked);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}
