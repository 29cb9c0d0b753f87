#include "hpo/spec/spec_drover.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/duration.h"
#include "common/json.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_prior.h"

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

static int read_value(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "value");
    const char *word = json_string_value(at.value);
    if (!at.value)
        return 0;
    if (!word || (strcmp(word, "best") != 0 && strcmp(word, "last") != 0))
        return config_node_error(&at, e, "'value' must be best or last");
    s->value_last = strcmp(word, "last") == 0;
    return 0;
}

static int read_wandb(struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "wandb");
    const char *word = json_string_value(at.value);
    if (!at.value)
        return 0;
    if (!word || (strcmp(word, "real") != 0 && strcmp(word, "drover") != 0))
        return config_node_error(&at, e,
                                 "'wandb' must be drover (its stand-in) or real (W&B's module)");
    s->wandb_real = strcmp(word, "real") == 0;
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

int spec_drover_read(struct spec *s, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {
        "resources",   "seed",    "parallel", "retries",    "retry_failed", "give_up_after",
        "timeout",     "value",   "start",    "lost_after", "grace",        "when",
        "constraints", "repeats", "prior",    "wandb",
    };
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
        read_duration(&s->lost_after_ms, n, "lost_after", e) < 0 || read_value(s, n, e) < 0 ||
        read_wandb(s, n, e) < 0 || config_node_int(&s->repeats, n, "repeats", 1, INT_MAX, e) < 0 ||
        read_rules(s, n, e) < 0)
        return -EINVAL;
    struct config_node prior = config_node_member(n, "prior");
    return read_start(s, n, e) < 0 ? -EINVAL : spec_prior_read(s->warm_start, s, &prior, e);
}

json_t *spec_drover_json(const struct spec *s)
{
    return json_pack(
        "{s:o, s:I, s:i, s:i, s:b, s:i, s:f, s:f, s:f, s:s, s:s, s:i, s:O*, "
        "s:O*, s:O, s:O}",
        "resources", resources_json(&s->need), "seed", (json_int_t)s->seed, "parallel", s->parallel,
        "retries", s->retries, "retry_failed", s->retry_failed, "give_up_after", s->give_up_after,
        "timeout", (double)s->timeout_ms / 1e3, "grace", (double)s->grace_ms / 1e3, "lost_after",
        (double)s->lost_after_ms / 1e3, "value", s->value_last ? "last" : "best", "wandb",
        s->wandb_real ? "real" : "drover", "repeats", s->repeats, "when", s->when, "constraints",
        s->constraints, "start", s->start, "prior", s->warm_start);
}
