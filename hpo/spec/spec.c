#include "hpo/spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/space/config_node.h"
#include "hpo/space/python_repr.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_drover.h"
#include "hpo/spec/trial_command.h"

void spec_free(struct spec *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->description);
    free(s->program);
    strv_free(s->command);
    for (int i = 0; i < s->metric_count; i++) {
        free(s->metrics[i].name);
        free(s->metrics[i].pattern);
    }
    space_free(s->space);
    json_decref(s->early_terminate);
    json_decref(s->when);
    json_decref(s->constraints);
    outcome_clear(&s->outcomes);
    json_decref(s->start);
    json_decref(s->warm_start);
    strv_free(s->notices);
    free(s);
}

__attribute__((format(printf, 2, 3))) static void notice(struct spec *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    strv_push(&s->notices, xstrdup(text));
}

/* ---- top level ------------------------------------------------------------------------------ */

/* Keys of W&B that say where W&B runs a sweep. */
static const char *const no_effect[] = {"entity",     "project", "job",       "image_uri",
                                        "apiVersion", "kind",    "controller"};

enum { METHODS_MAX = 64 };

int spec_method_find(const struct spec_method **out, const struct config_node *at,
                     const struct spec_vocabulary *v, struct err *e)
{
    const char *word = json_string_value(at->value), *names[METHODS_MAX];
    const struct spec_method *m = NULL;
    size_t count = 0;
    for (; count < METHODS_MAX && (m = v->method(count)); count++) {
        names[count] = m->name;
        if (word && strcmp(word, m->name) == 0) {
            *out = m;
            return 0;
        }
    }
    if (word && strcmp(word, "custom") == 0) {
        config_node_error(at, e, "method 'custom' would name your own optimiser: not supported");
        return err_hint(e, "method: bayes; or drover suggest, if your program drives the search");
    }
    config_node_error(at, e, "unknown method '%s'", word ? word : json_type_name(at->value));
    return config_node_hint(at, e, "method", word, names, count);
}

static int read_method(struct spec *s, const struct config_node *n, const struct spec_vocabulary *v,
                       struct err *e)
{
    struct config_node at = config_node_member(n, "method");
    if (at.value)
        return spec_method_find(&s->method, &at, v, e);
    config_node_error(n, e, "'method' is missing");
    return err_hint(e, "method: random");
}

static int reject_keys(const struct config_node *n, struct err *e)
{
    struct config_node scheduler = config_node_member(n, "scheduler");
    if (scheduler.value) {
        config_node_error(&scheduler, e,
                          "'scheduler' names an optimiser of W&B, which drover does not run");
        return err_hint(e, "method: bayes, with 'parameters' and 'early_terminate'");
    }
    struct config_node outcomes = config_node_member(n, "outcome_constraints");
    if (outcomes.value) {
        config_node_error(&outcomes, e, "'outcome_constraints' belongs into the block 'drover'");
        return err_hint(e, "drover: {outcome_constraints: [{metric: latency_ms, max: 50}]}");
    }
    return 0;
}

static int read_keys(struct spec *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {
        "method",    "parameters",      "metric",  "metrics",    "program",
        "command",   "early_terminate", "run_cap", "name",       "description",
        "scheduler", "drover",          "entity",  "project",    "job",
        "image_uri", "apiVersion",      "kind",    "controller",
    };
    if (reject_keys(n, e) < 0 ||
        config_node_only_keys(n, keys, COUNT_OF(keys), "a sweep file", e) < 0)
        return -EINVAL;
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < COUNT_OF(no_effect); i++)
        if (config_node_has(n, no_effect[i]))
            strbuf_printf(&b, "%s'%s'", b.len ? ", " : "", no_effect[i]);
    if (b.len)
        notice(s, "ignored, no effect with drover: %s", strbuf_str(&b));
    return 0;
}

/* ---- metric --------------------------------------------------------------------------------- */

static int read_goal(struct spec_metric *m, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "goal");
    const char *word = json_string_value(at.value);
    if (!at.value)
        return 0;
    m->maximize = word && strcmp(word, "maximize") == 0;
    if (m->maximize || (word && strcmp(word, "minimize") == 0))
        return 0;
    config_node_error(&at, e, "'goal' must be minimize or maximize, not '%s'",
                      word ? word : json_type_name(at.value));
    if (word && strncasecmp(word, "max", 3) == 0)
        return err_hint(e, "goal: maximize");
    return word && strncasecmp(word, "min", 3) == 0 ? err_hint(e, "goal: minimize") : -EINVAL;
}

/* Checks W&B's keys for the value that W&B's `bayes` assumes for trials without a value. drover
 * ignores them. */
static int read_impute(struct spec *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"impute", "impute_while_running"};
    static const char *const words[] = {"latest", "best", "worst", "false"};
    for (size_t k = 0; k < COUNT_OF(keys); k++) {
        struct config_node at = config_node_member(n, keys[k]);
        size_t i = 0;
        while (i < COUNT_OF(words) - !k && json_is_string(at.value) &&
               strcmp(json_string_value(at.value), words[i]) != 0)
            i++;
        if (at.value && (!json_is_string(at.value) || i == COUNT_OF(words) - !k))
            return config_node_error(&at, e, "'%s' must be latest, best%s", keys[k],
                                     k ? ", worst or \"false\"" : " or worst");
        if (at.value)
            notice(s,
                   "'%s' is ignored: bayes models failed trials as infeasible, and assumes for "
                   "running ones the mean that it expects plus a quarter of a standard deviation",
                   keys[k]);
    }
    return 0;
}

static int read_metric(struct spec *s, const struct config_node *at, struct err *e)
{
    static const char *const keys[] = {"name",   "goal",    "target",
                                       "impute", "pattern", "impute_while_running"};
    struct spec_metric *m = &s->metrics[s->metric_count++];
    if (config_node_only_keys(at, keys, COUNT_OF(keys), "metric", e) < 0 ||
        config_node_text(&m->name, at, "name", e) < 0 || read_goal(m, at, e) < 0 ||
        config_node_real(&m->target, at, "target", e) < 0 || read_impute(s, at, e) < 0 ||
        config_node_text(&m->pattern, at, "pattern", e) < 0)
        return -EINVAL;
    m->has_target = config_node_has(at, "target");
    if (!m->name || !m->name[0])
        return config_node_error(at, e, "the metric's 'name' is missing");
    for (const struct spec_metric *other = s->metrics; other < m; other++)
        if (strcmp(other->name, m->name) == 0)
            return config_node_error(at, e, "the metric '%s' is given twice", m->name);
    return 0;
}

static int read_metrics(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node one = config_node_member(n, "metric"),
                       list = config_node_member(n, "metrics");
    size_t count = json_array_size(list.value);
    if (one.value && list.value)
        return config_node_error(&list, e, "either 'metric' or 'metrics', not both");
    if (one.value)
        return read_metric(s, &one, e);
    if (list.value && count < 2) {
        config_node_error(&list, e, "'metrics' must be a list of at least two");
        return err_hint(e, "metric: {name: …}, if there is only one");
    }
    if (count > SPEC_METRICS_MAX)
        return config_node_error(&list, e, "more than %d metrics", SPEC_METRICS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_item(&list, i);
        if (read_metric(s, &at, e) < 0)
            return -EINVAL;
    }
    return 0;
}

static int read_early_terminate(struct spec *s, const struct config_node *n,
                                const struct spec_vocabulary *v, struct err *e)
{
    struct config_node at = config_node_member(n, "early_terminate");
    if (!at.value)
        return 0;
    s->early_terminate = v->read_early_terminate(&at, e);
    if (!s->early_terminate)
        return -EINVAL;
    return s->metric_count > 0
               ? 0
               : config_node_error(&at, e, "'early_terminate' needs a 'metric' to compare");
}

/* ---- what is run ---------------------------------------------------------------------------- */

static int read_command(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "command");
    if (config_node_text(&s->program, n, "program", e) < 0)
        return -EINVAL;
    if (at.value && json_array_size(at.value) == 0) {
        config_node_error(&at, e, "'command' must be a list of words");
        return err_hint(e, "command: [\"${interpreter}\", \"${program}\", \"${args}\"]");
    }
    for (size_t i = 0; i < json_array_size(at.value); i++) {
        struct config_node item = config_node_item(&at, i);
        if (json_is_object(item.value) || json_is_array(item.value))
            return config_node_error(&item, e, "a word of the command cannot be %s",
                                     json_type_name(item.value));
        struct strbuf b = {0};
        python_repr_str(&b, item.value);
        strv_push(&s->command, strbuf_take(&b));
    }
    struct err cause = {0};
    if (!s->command && !s->program) {
        config_node_error(n, e, "neither 'program' nor 'command' is given");
        return err_hint(e, "program: train.py");
    }
    if (trial_command_check(s->command, s->program, &cause) == 0)
        return 0;
    config_node_error(at.value ? &at : n, e, "%s", cause.text);
    return cause.hint[0] ? err_hint(e, "%s", cause.hint) : -EINVAL;
}

static int read_parameters(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "parameters");
    if (!at.value)
        return config_node_error(n, e, "'parameters' is missing");
    return space_read(&s->space, &at, s->method->needs_grid, &s->notices, e);
}

/* Checks conditions that involve several keys. */
static int check_whole(struct spec *s, const struct config_node *n, struct err *e)
{
    if (s->method->needs_metric && s->metric_count == 0) {
        config_node_error(n, e, "method %s needs a 'metric' to learn from", s->method->name);
        return err_hint(e, "metric: {name: loss, goal: minimize}; or method: random");
    }
    if (!s->method->learns_from_warm_start && json_array_size(s->warm_start) > 0)
        notice(s, "'prior' is ignored: method %s does not learn from earlier sweeps",
               s->method->name);
    double points = space_count(s->space) * s->repeats;
    if (s->run_cap > points)
        notice(s, "the space has only %.0f different points%s: the sweep ends before run_cap %d",
               space_count(s->space), s->repeats > 1 ? ", each tried 'repeats' times" : "",
               s->run_cap);
    return 0;
}

int spec_read(struct spec **out, const struct yaml_doc *d, const struct spec_vocabulary *v,
              struct err *e)
{
    struct config_node root = config_node_root(d);
    if (!json_is_object(root.value))
        return config_node_error(&root, e, "a sweep file must be a mapping, not %s",
                                 json_type_name(root.value));
    AUTO(spec) struct spec *s = xzalloc(sizeof *s);
    spec_drover_defaults(s);
    struct config_node block = config_node_member(&root, "drover");
    if (read_keys(s, &root, e) < 0 || read_method(s, &root, v, e) < 0 ||
        config_node_text(&s->name, &root, "name", e) < 0 ||
        config_node_text(&s->description, &root, "description", e) < 0 ||
        config_node_int(&s->run_cap, &root, "run_cap", 1, INT_MAX, e) < 0 ||
        read_parameters(s, &root, e) < 0 || read_metrics(s, &root, e) < 0 ||
        read_early_terminate(s, &root, v, e) < 0 || read_command(s, &root, e) < 0 ||
        spec_drover_read(s, &block, e) < 0 || check_whole(s, &root, e) < 0)
        return -EINVAL;
    *out = TAKE(s);
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static json_t *metric_json(const struct spec_metric *m)
{
    return json_pack("{s:s*, s:s, s:o*, s:s*}", "name", m->name, "goal",
                     m->maximize ? "maximize" : "minimize", "target",
                     m->has_target ? json_number(m->target) : NULL, "pattern", m->pattern);
}

json_t *spec_goals_json(const struct spec *s)
{
    json_t *goals = json_object();
    for (int i = 0; i < s->metric_count; i++)
        if (s->metrics[i].name)
            json_object_set_new(goals, s->metrics[i].name,
                                json_string(s->metrics[i].maximize ? "maximize" : "minimize"));
    return goals;
}

json_t *spec_json(const struct spec *s)
{
    AUTO(json) json_t *command = json_array(), *metrics = json_array();
    for (char **word = s->command; word && *word; word++)
        json_array_append_new(command, json_string(*word));
    for (int i = 0; i < s->metric_count; i++)
        json_array_append_new(metrics, metric_json(&s->metrics[i]));
    return json_pack("{s:s*, s:s*, s:s, s:s*, s:O*, s:O*, s:O*, s:O*, s:o*, s:o, s:o}", "name",
                     s->name, "description", s->description, "method", s->method->name, "program",
                     s->program, "command", s->command ? command : NULL, "metric",
                     s->metric_count == 1 ? json_array_get(metrics, 0) : NULL, "metrics",
                     s->metric_count > 1 ? metrics : NULL, "early_terminate", s->early_terminate,
                     "run_cap", s->run_cap ? json_integer(s->run_cap) : NULL, "parameters",
                     space_json(s->space), "drover", spec_drover_json(s));
}
