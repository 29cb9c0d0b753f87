/* feature_sections - time limits of sections and heartbeats: --section-timeouts, … A rank that
 * exceeds one hangs. With
 * --learn-timeouts, limits that are not given follow from earlier jobs, and this job is remembered.
 */
#include "common/log.h"
#include "launcher/job/rank_list.h"
#include "launcher/jobs/section_learning.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/section_watch.h"

struct sections {
    FEATURE_STATE;
    struct section_watch *watch;
    bool *over, *warned; /* by rank; warned: it was logged that its limits are malformed */
    bool overrun;        /* it was reported */
};

/* ---- settings ------------------------------------------------------------------------------- */

static const char *const own_options[] = {
    [SECTION_LIMITS_SECTION] = "--section-timeouts",
    [SECTION_LIMITS_OUTSIDE] = "--out-of-section-timeout",
    [SECTION_LIMITS_HEARTBEAT] = "--heartbeat-timeout",
    [SECTION_LIMITS_FIRST_HEARTBEAT] = "--initial-heartbeat-timeout",
};

static int read_limits(struct feature_settings *set, struct err *e)
{
    struct section_limits *l = &set->sections.limits;
    const char *const values[] = {[SECTION_LIMITS_OUTSIDE] = set->sections.out_of_section,
                                  [SECTION_LIMITS_HEARTBEAT] = set->sections.heartbeat,
                                  [SECTION_LIMITS_FIRST_HEARTBEAT] =
                                      set->sections.initial_heartbeat};
    if (set->sections.timeouts && section_limits_parse(l, set->sections.timeouts, e) < 0)
        return err_wrap(e, "--section-timeouts");
    for (int i = 1; i < SECTION_LIMITS_KINDS; i++)
        if (values[i] && section_limits_read_ms(&l->other_ms[i], values[i], e) < 0)
            return err_wrap(e, "%s", own_options[i]);
    return 0;
}

/* Sets the limits that the options do not set. ft_launcher has set its own. */
static int learn(struct feature_settings *set, const struct launch_spec *spec, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    if (!set->sections.learn || set->sections.from_connect)
        return 0;
    int rc = section_learning_read(&set->sections.limits, &text, spec->argv, spec->wdir,
                                   SECTION_LEARNING_FACTOR, e);
    if (text.len)
        set->sections.learnt = strbuf_take(&text);
    return rc < 0 ? err_wrap(e, "--learn-timeouts") : 0;
}

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    if (read_limits(set, e) < 0 || learn(set, spec, e) < 0)
        return e ? e->code : -EINVAL;
    set->sections.watched = section_limits_any(&set->sections.limits) ||
                            set->sections.from_connect || set->sections.learn || set->stragglers;
    spec->node.reports |= set->sections.watched;
    return set->sections.watched;
}

/* ---- limits --------------------------------------------------------------------------------- */

static const char *option_of(const struct sections *p, enum section_limits_kind kind)
{
    static const char *const of_ft[] = {
        [SECTION_LIMITS_SECTION] = "rank_section_timeouts",
        [SECTION_LIMITS_OUTSIDE] = "rank_out_of_section_timeout",
        [SECTION_LIMITS_HEARTBEAT] = "rank_heartbeat_timeout",
        [SECTION_LIMITS_FIRST_HEARTBEAT] = "initial_rank_heartbeat_timeout",
    };
    return (p->run->set->sections.from_connect ? of_ft : own_options)[kind];
}

static void report_overrun(struct sections *p, const struct section_overrun *o)
{
    AUTO(strbuf) struct strbuf b = {0};
    int n = 0;
    for (int i = 0; i < p->run->plan->world_size; i++)
        n += p->over[i];
    if (n > 1)
        rank_list_write(&b, p->over, p->run->plan->world_size, p->run->plan->first_rank);
    else
        feature_write_rank(&b, p->run->plan, o->rank);
    strbuf_putc(&b, ' ');
    section_watch_overrun_write(&b, o, n > 1);
    strbuf_printf(&b, " (%s)", option_of(p, o->kind));
    json_t *fields =
        json_pack("{s:s, s:I, s:I, s:o}", "why", section_watch_overrun_name(o->kind), "timeout_ms",
                  (json_int_t)o->limit_ms, "elapsed_ms", (json_int_t)o->ms, "section",
                  o->section ? json_text(o->section) : json_null());
    json_object_update_new(fields, feature_rank_json(p->run->plan, o->rank));
    p->overrun = true;
    feature_hang_report(p->run, strbuf_str(&b), p->over, fields);
}

static void on_timer(uv_timer_t *t)
{
    struct sections *p = t->data;
    struct section_overrun o;
    if (!p->overrun && section_watch_check(p->watch, &o, p->over, feature_now_ms(p->run)))
        report_overrun(p, &o);
}

/* ---- events of the job ---------------------------------------------------------------------- */

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct sections *p = arg;
    if (!p->run->set->sections.from_connect)
        section_watch_apply(p->watch, rank, SECTION_WATCH_EV_START, feature_now_ms(p->run));
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct sections *p = arg;
    section_watch_apply(p->watch, r->rank, SECTION_WATCH_EV_EXIT, feature_now_ms(p->run));
}

static void set_limits(struct sections *p, int rank, const json_t *from)
{
    struct err e = {0};
    if (section_limits_read(section_watch_limits(p->watch, rank), from, &e) == 0 || p->warned[rank])
        return;
    p->warned[rank] = true;
    log_warn("rank %d sends time limits that are ignored: %s", p->run->plan->first_rank + rank,
             e.text);
}

static void on_progress(void *arg, int rank, const struct progress_packet *packet)
{
    struct sections *p = arg;
    static const enum section_watch_event events[] = {
        [PROGRESS_HEARTBEAT] = SECTION_WATCH_EV_HEARTBEAT,
        [PROGRESS_CONNECT] = SECTION_WATCH_EV_CONNECT,
        [PROGRESS_DISCONNECT] = SECTION_WATCH_EV_DISCONNECT,
    };
    int64_t now = feature_now_ms(p->run);
    if (packet->kind == PROGRESS_SECTION_BEGIN)
        section_watch_begin(p->watch, rank, packet->section, now);
    else if (packet->kind == PROGRESS_SECTION_END)
        section_watch_end(p->watch, rank, packet->section, now);
    else if (packet->kind == PROGRESS_LIMITS)
        set_limits(p, rank, packet->json);
    else
        section_watch_apply(p->watch, rank, events[packet->kind], now);
}

/* ---- attempts ------------------------------------------------------------------------------- */

/* Says which limits were learnt. */
static void print_learnt(const struct feature_run *r)
{
    const char *learnt = r->set->sections.learnt;
    if (!r->set->sections.learn || r->quiet || r->spec->restart_count > 0)
        return;
    if (learnt)
        feature_say(r, "time limits from earlier jobs: %s", learnt);
    else
        feature_say(r, "no time limits from earlier jobs; this one is measured");
}

static void attach(void *state)
{
    struct sections *p = state;
    int n = p->run->plan->world_size;
    print_learnt(p->run);
    p->watch = section_watch_new(n, &p->run->set->sections.limits);
    p->over = xcalloc((size_t)n, sizeof *p->over);
    p->warned = xcalloc((size_t)n, sizeof *p->warned);
    uv_timer_start(p->timer, on_timer, SECTION_WATCH_INTERVAL_MS, SECTION_WATCH_INTERVAL_MS);
}

/* Remembers the longest times of the ranks, unless something hung or failed. */
static void ended(void *state, const struct job_end *end, int status)
{
    struct sections *p = state;
    const struct feature_run *r = p->run;
    struct err e = {0};
    bool hung = r->causes & 1U << FEATURE_CAUSE_HANG;
    if (r->set->sections.learn && (status == 0 || (feature_is_final(r->causes) && !hung)) &&
        section_learning_store(section_watch_longest(p->watch), r->spec->argv, r->spec->wdir, &e) <
            0)
        log_warn("--learn-timeouts: not stored: %s", e.text);
    section_watch_free(p->watch);
    free(p->over);
    free(p->warned);
}

#define T struct feature_settings
const struct feature feature_sections = {
    .options = {OPT_STR(0, "section-timeouts", "NAME:TIME,…",
                        "stop the job if a rank is in a section of drover.section() for longer", T,
                        sections.timeouts),
                OPT_STR(0, "out-of-section-timeout", "DURATION",
                        "the same for a rank that is in no section", T, sections.out_of_section),
                OPT_STR(0, "heartbeat-timeout", "DURATION",
                        "time between two calls of drover.heartbeat()", T, sections.heartbeat),
                OPT_STR(0, "initial-heartbeat-timeout", "DURATION",
                        "time from the start of a rank to its first heartbeat", T,
                        sections.initial_heartbeat),
                OPT_FLAG(0, "learn-timeouts", "learn other limits from earlier jobs", T,
                         sections.learn)},
    .check = check,
    .size = sizeof(struct sections),
    .once = true,
    .attach = attach,
    .events = {.progress = on_progress,
               .rank_started = on_rank_started,
               .rank_ended = on_rank_ended},
    .ended = ended,
};
