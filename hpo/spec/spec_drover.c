#include "hpo/spec/spec_drover.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/duration.h"
#include "common/json.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_outcomes.h"

void spec_drover_defaults(struct spec *s)
{
    s->need.nodes = s->need.ranks = 1;
    s->repeats = 1;
    s->retries = 3;
    s->give_up_after = 5;
    s->grace_ms = 30000;
    s->lost_after_ms = 120000;
    s->start = json_array();
    s->warm_start = json_array();
}

/* Reads seconds as a number, or a duration as text. -EINVAL: neither, or out of range. */
static int to_ms(int64_t *out_ms, const json_t *value)
{
    enum { MAX_S = 1000000000 };
    double seconds = json_number_value(value);
    const char *text = json_string_value(value);
    if (text ? duration_parse(&seconds, text, NULL) < 0 : !json_is_number(value))
        return -EINVAL;
    if (!(seconds >= 0 && seconds <= MAX_S))
        return -EINVAL;
    *out_ms = (int64_t)(seconds * 1000 + 0.5);
    return 0;
}

static int read_duration(int64_t *out_ms, const struct config_node *n, const char *key,
                         struct err *e)
{
    struct config_node at = config_node_member(n, key);
    if (!at.value || to_ms(out_ms, at.value) == 0)
        return 0;
    config_node_error(&at, e, "'%s' must be a duration", key);
    return err_hint(e, "%s: 90 (seconds), or 10m, 1h30m, 2d", key);
}

static int read_seed(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "seed");
    if (!at.value)
        return 0;
    if (!json_is_integer(at.value) || json_integer_value(at.value) < 0)
        return config_node_error(&at, e, "'seed' must be an integer that is not negative");
    s->seed = (uint64_t)json_integer_value(at.value);
    return 0;
}

/* Reads a key whose value is words[0] or words[1], and sets *second to true for the latter one.
 * words[2] names both in the message. */
static int read_choice(bool *second, const struct config_node *n, const char *key,
                       const char *const words[3], struct err *e)
{
    struct config_node at = config_node_member(n, key);
    const char *word = json_string_value(at.value);
    if (!at.value)
        return 0;
    if (!word || (strcmp(word, words[0]) != 0 && strcmp(word, words[1]) != 0))
        return config_node_error(&at, e, "'%s' must be %s", key, words[2]);
    *second = strcmp(word, words[1]) == 0;
    return 0;
}

/* Reads the conditions and constraints of the space, before the parameter sets of `start`. */
static int read_rules(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node when = config_node_member(n, "when"),
                       list = config_node_member(n, "constraints");
    s->when = json_incref((json_t *)when.value);
    s->constraints = json_incref((json_t *)list.value);
    if (when.value && space_add_conditions(s->space, &when, e) < 0)
        return -EINVAL;
    return list.value ? space_add_constraints(s->space, &list, e) : 0;
}

static int read_start(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node list = config_node_member(n, "start");
    if (list.value && !json_is_array(list.value))
        return config_node_error(&list, e, "'start' must be a list of parameter sets, not %s",
                                 json_type_name(list.value));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        struct config_node at = config_node_item(&list, i);
        json_t *params = NULL;
        if (space_complete(&params, s->space, &at, i, e) < 0)
            return -EINVAL;
        json_array_append_new(s->start, params);
    }
    return 0;
}

/* Returns the values of an observation by metric (new reference), or NULL and sets `e`. */
static json_t *read_observation(const struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node one = config_node_member(n, "value"), all = config_node_member(n, "values");
    if (!one.value == !all.value || (one.value && s->metric_count > 1)) {
        config_node_error(n, e,
                          "an observation has either 'value', if there is one metric, or 'values'");
        err_hint(e,
                 s->metric_count > 1 ? "{params: {…}, values: {%s: 0.3, …}}"
                                     : "{params: {…}, value: 0.3}",
                 s->metrics[0].name);
        return NULL;
    }
    const char *names[SPEC_METRICS_MAX + OUTCOME_MAX];
    int count = s->metric_count + (int)s->outcomes.count;
    for (int i = 0; i < count; i++)
        names[i] =
            i < s->metric_count ? s->metrics[i].name : s->outcomes.at[i - s->metric_count].metric;
    if (all.value && config_node_only_keys(&all, names, (size_t)count, "values", e) < 0)
        return NULL;
    AUTO(json) json_t *values = json_object();
    for (int i = 0; i < count; i++) {
        struct config_node at = one.value && i == 0 ? one : config_node_member(&all, names[i]);
        double v = NAN;
        if (i >= s->metric_count && !at.value)
            continue; /* it is not known to be feasible */
        if (json_as_number(&v, at.value) < 0 || !isfinite(v)) {
            config_node_error(at.value ? &at : &all, e,
                              "the value of '%s' must be a finite number, not %s", names[i],
                              json_type_name(at.value));
            return NULL;
        }
        json_object_set_new(values, names[i], json_real(v));
    }
    return TAKE(values);
}

/* Reads the key `prior`, observations for a warm start. `list` is a list of {params, values}, or of
 * {params, value} if there is one metric; it may have no value. */
static int read_prior(struct spec *s, const struct config_node *list, struct err *e)
{
    static const char *const keys[] = {"params", "value", "values"};
    if (list->value && !json_is_array(list->value))
        return config_node_error(list, e, "'prior' must be a list of observations, not %s",
                                 json_type_name(list->value));
    if (json_array_size(list->value) > 0 && s->metric_count == 0)
        return config_node_error(list, e, "'prior' needs a 'metric' for its values");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i), set = config_node_member(&at, "params");
        if (config_node_only_keys(&at, keys, COUNT_OF(keys), "an observation", e) < 0)
            return -EINVAL;
        if (!set.value)
            return config_node_error(&at, e, "the observation's 'params' are missing");
        AUTO(json) json_t *params = NULL;
        if (space_params(&params, s->space, &set, e) < 0)
            return -EINVAL;
        json_t *values = read_observation(s, &at, e);
        if (!values)
            return -EINVAL;
        json_array_append_new(s->warm_start,
                              json_pack("{s:O, s:o}", "params", params, "values", values));
    }
    return 0;
}

int spec_drover_read(struct spec *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {
        "resources",
        "seed",
        "parallel",
        "retries",
        "retry_failed",
        "give_up_after",
        "timeout",
        "value",
        "start",
        "lost_after",
        "grace",
        "when",
        "constraints",
        "repeats",
        "prior",
        "wandb",
        "outcome_constraints",
    };
    static const char *const values[] = {"best", "last", "best or last"};
    static const char *const wandb[] = {"drover", "real",
                                        "drover (its stand-in) or real (W&B's module)"};
    if (!n->value)
        return 0;
    struct config_node resources = config_node_member(n, "resources");
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "drover", e) < 0 ||
        resources_read(&s->need, &resources, e) < 0 || read_seed(s, n, e) < 0 ||
        config_node_int(&s->parallel, n, "parallel", 1, INT_MAX, e) < 0 ||
        config_node_int(&s->retries, n, "retries", 0, INT_MAX, e) < 0 ||
        config_node_bool(&s->retry_failed, n, "retry_failed", e) < 0 ||
        config_node_int(&s->give_up_after, n, "give_up_after", 0, INT_MAX, e) < 0 ||
        read_duration(&s->timeout_ms, n, "timeout", e) < 0 ||
        read_duration(&s->grace_ms, n, "grace", e) < 0 ||
        read_duration(&s->lost_after_ms, n, "lost_after", e) < 0 ||
        read_choice(&s->value_last, n, "value", values, e) < 0 ||
        read_choice(&s->wandb_real, n, "wandb", wandb, e) < 0 ||
        config_node_int(&s->repeats, n, "repeats", 1, INT_MAX, e) < 0 || read_rules(s, n, e) < 0 ||
        spec_outcomes_read(&s->outcomes, n, e) < 0)
        return -EINVAL;
    struct config_node prior = config_node_member(n, "prior");
    return read_start(s, n, e) < 0 ? -EINVAL : read_prior(s, &prior, e);
}

json_t *spec_drover_json(const struct spec *s)
{
    return json_pack("{s:o, s:I, s:i, s:i, s:b, s:i, s:f, s:f, s:f, s:s, s:s, s:i, s:O*, "
                     "s:O*, s:o*, s:O, s:O}",
                     "resources", resources_json(&s->need), "seed", (json_int_t)s->seed, "parallel",
                     s->parallel, "retries", s->retries, "retry_failed", s->retry_failed,
                     "give_up_after", s->give_up_after, "timeout", (double)s->timeout_ms / 1e3,
                     "grace", (double)s->grace_ms / 1e3, "lost_after",
                     (double)s->lost_after_ms / 1e3, "value", s->value_last ? "last" : "best",
                     "wandb", s->wandb_real ? "real" : "drover", "repeats", s->repeats, "when",
                     s->when, "constraints", s->constraints, "outcome_constraints",
                     spec_outcomes_json(&s->outcomes), "start", s->start, "prior", s->warm_start);
}
