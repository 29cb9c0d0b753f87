/* feature_finite - implements --stop-on-nan, and the event `not_finite`: finds metrics that are NaN
 * or infinite, in reports of the ranks and in lines of stdout that are mappings. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "launcher/io/metric_mapping.h"
#include "launcher/run/features/feature.h"

enum { NAMES_MAX = 256 }; /* metrics that are said; a program may invent names */

struct finite {
    FEATURE_STATE;
    json_t *said;       /* names of metrics, in all attempts */
    struct strbuf what; /* "rank 3 on c07 (GPU 3) reported loss = nan at step 120": the first one */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    bool asked = set->stop_on_nan || set->events;
    spec->node.reports |= asked;
    return asked;
}

static void say(struct finite *m, int rank, const char *metric, double value, const json_t *step)
{
    const char *word = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    json_t *fields = feature_rank_json(m->run->plan, rank);
    json_object_set_new(fields, "metric", json_text(metric));
    json_object_set_new(fields, "value", json_string(word));
    if (json_is_integer(step))
        json_object_set(fields, "step", (json_t *)step);
    feature_record(m->run, "not_finite", fields);
    if (!m->run->set->stop_on_nan || m->what.len > 0)
        return;
    feature_write_rank(&m->what, m->run->plan, rank);
    strbuf_printf(&m->what, " reported %s = %s", metric, word);
    if (json_is_integer(step))
        strbuf_printf(&m->what, " at step %lld", (long long)json_integer_value(step));
    feature_stop(m);
}

/* Most reports are finite: a search is faster than reading them. */
static bool may_have_one(const char *text, size_t len)
{
    for (size_t i = 0; i + 3 <= len; i++)
        if (strncasecmp(text + i, "nan", 3) == 0 || strncasecmp(text + i, "inf", 3) == 0)
            return true;
    return false;
}

static void on_report(void *arg, int rank, const char *text, size_t len)
{
    struct finite *m = arg;
    if (!may_have_one(text, len))
        return;
    AUTO(json) json_t *report = metric_mapping_read(text, len);
    const char *metric;
    json_t *value;
    json_object_foreach (report, metric, value) {
        double number;
        if (json_as_number(&number, value) < 0 || isfinite(number) ||
            json_object_get(m->said, metric) || json_object_size(m->said) >= NAMES_MAX)
            continue;
        json_object_set_new(m->said, metric, json_true());
        say(m, rank, metric, number, json_object_get(report, "step"));
    }
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    if (from == LAUNCH_STDOUT && len > 0 && memchr(text, '{', len))
        on_report(arg, rank, text, len);
    return true;
}

static int open_finite(void *state, struct err *e)
{
    ((struct finite *)state)->said = json_object();
    return 0;
}

static void explain(void *state, struct strbuf *b)
{
    const struct finite *m = state;
    strbuf_printf(b, "%s: the job was stopped: %s (--stop-on-nan)\n", m->run->program,
                  strbuf_str(&m->what));
}

static void close_finite(void *state)
{
    struct finite *m = state;
    json_decref(m->said);
    strbuf_free(&m->what);
}

const struct feature feature_finite = {
    .options = {OPT_FLAG(0, "stop-on-nan", "stop a job that reports a NaN or infinite metric",
                         struct feature_settings, stop_on_nan)},
    .check = check,
    .size = sizeof(struct finite),
    .open = open_finite,
    .events = {.line = on_line, .report = on_report},
    .cause = FEATURE_CAUSE_NOT_FINITE,
    .explain = explain,
    .close = close_finite,
};
