/* spec_stop - `early_terminate`: W&B's hyperband with its keys, and our own types. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"

static int read_hyperband(struct spec_stop *stop, const struct config_node *n, struct err *e)
{
    if (config_node_int(&stop->s, n, "s", 1, INT_MAX, e) < 0 ||
        config_node_bool(&stop->strict, n, "strict", e) < 0)
        return -EINVAL;
    if (stop->max_iter && !stop->s)
        return config_node_error(n, e, "hyperband with 'max_iter' needs 's', the number of bands");
    if (!stop->max_iter && !stop->min_iter) {
        config_node_error(n, e, "hyperband needs 'min_iter', or 'max_iter' and 's'");
        return err_hint(e, "min_iter: 3");
    }
    return 0;
}

static int read_median(struct spec_stop *stop, const struct config_node *n, struct err *e)
{
    return config_node_int(&stop->min_trials, n, "min_trials", 1, INT_MAX, e);
}

static int read_asha(struct spec_stop *stop, const struct config_node *n, struct err *e)
{
    struct config_node like = config_node_member(n, "like");
    const char *word = json_string_value(like.value);
    if (config_node_int(&stop->s, n, "s", 0, INT_MAX, e) < 0)
        return -EINVAL;
    stop->ray = word && strcmp(word, "ray") == 0;
    if (like.value && !stop->ray && (!word || strcmp(word, "optuna") != 0))
        return config_node_error(&like, e, "'like' must be optuna or ray");
    if (stop->ray && !stop->min_iter)
        stop->min_iter = 1; /* Ray's grace_period */
    return 0;
}

static int read_curve(struct spec_stop *stop, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "keep");
    if (config_node_real(&stop->keep, n, "keep", e) < 0)
        return -EINVAL;
    return stop->keep > 0 && stop->keep <= 1
               ? 0
               : config_node_error(&at, e, "'keep' must be above 0, up to 1");
}

enum { KEYS_MAX = 6, BANDS_MAX = 100 };
static const double eta_min = 1.1;

static const struct type {
    const char *name;
    struct spec_stop defaults;
    const char
        *keys[KEYS_MAX]; /* besides `type`; min_iter, max_iter and eta mean the same to all */
    int (*read)(struct spec_stop *stop, const struct config_node *n, struct err *e);
} types[] = {
    {"hyperband",
     {.type = SPEC_STOPPER_HYPERBAND, .eta = 3, .strict = true},
     {"min_iter", "max_iter", "eta", "s", "strict"},
     read_hyperband},
    {"asha",
     {.type = SPEC_STOPPER_ASHA, .eta = 4},
     {"min_iter", "max_iter", "eta", "s", "like"},
     read_asha},
    {"curve",
     {.type = SPEC_STOPPER_CURVE, .min_iter = 2, .eta = 2, .keep = 0.33},
     {"min_iter", "max_iter", "eta", "keep"},
     read_curve},
    {"median",
     {.type = SPEC_STOPPER_MEDIAN, .min_iter = 1, .min_trials = 5, .eta = 3},
     {"min_iter", "min_trials"},
     read_median},
};

static int find_type(const struct type **out, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "type");
    const char *word = json_string_value(at.value), *names[COUNT_OF(types)];
    if (!json_is_object(n->value) || !word)
        return config_node_error(n, e, "'early_terminate' must be a mapping with a 'type'");
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        names[i] = types[i].name;
        if (strcmp(word, names[i]) == 0) {
            *out = &types[i];
            return 0;
        }
    }
    config_node_error(&at, e, "unknown type '%s' of early_terminate", word);
    const char *near = opt_suggest(word, names, COUNT_OF(names));
    return err_hint(e, "type: %s", near ? near : "hyperband, asha, curve or median");
}

/* So that there are no more than some hundred rungs, however long a trial is. W&B's bands may be
 * closer, where they are not too many. */
static int check_eta(const struct spec_stop *stop, const struct type *t,
                     const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "eta");
    bool few = stop->type == SPEC_STOPPER_HYPERBAND && stop->s <= BANDS_MAX;
    if (!(stop->eta > 1))
        return config_node_error(&at, e, "'eta' must be above 1");
    if (few || stop->eta >= eta_min)
        return 0;
    config_node_error(&at, e, "'eta' must be %g or more: a smaller one makes thousands of rungs",
                      eta_min);
    return err_hint(e, "eta: %g", t->defaults.eta);
}

int spec_stop_read(struct spec_stop *out, const struct config_node *n, struct err *e)
{
    const struct type *t = NULL;
    if (find_type(&t, n, e) < 0)
        return -EINVAL;
    struct spec_stop stop = t->defaults;
    const char *keys[KEYS_MAX + 1] = {"type"};
    size_t count = 1;
    while (count <= KEYS_MAX && t->keys[count - 1]) {
        keys[count] = t->keys[count - 1];
        count++;
    }
    AUTO(free) char *where = xasprintf("early_terminate of type %s", t->name);
    if (config_node_only_keys(n, keys, count, where, e) < 0 ||
        config_node_int(&stop.min_iter, n, "min_iter", 1, INT_MAX, e) < 0 ||
        config_node_int(&stop.max_iter, n, "max_iter", 1, INT_MAX, e) < 0 ||
        config_node_real(&stop.eta, n, "eta", e) < 0 || t->read(&stop, n, e) < 0)
        return -EINVAL;
    struct config_node max = config_node_member(n, "max_iter");
    if (check_eta(&stop, t, n, e) < 0)
        return -EINVAL;
    if (stop.max_iter && stop.max_iter < stop.min_iter && stop.type != SPEC_STOPPER_HYPERBAND)
        return config_node_error(&max, e, "'max_iter' must not be less than 'min_iter', %d",
                                 stop.min_iter);
    *out = stop;
    return 0;
}

json_t *spec_stop_json(const struct spec_stop *stop)
{
    const struct type *t = types;
    while (t->defaults.type != stop->type)
        t++;
    json_t *o = json_pack("{s:s}", "type", t->name);
    if (stop->min_iter)
        json_object_set_new(o, "min_iter", json_integer(stop->min_iter));
    if (stop->max_iter)
        json_object_set_new(o, "max_iter", json_integer(stop->max_iter));
    if (stop->s)
        json_object_set_new(o, "s", json_integer(stop->s));
    if (t->read == read_median)
        json_object_set_new(o, "min_trials", json_integer(stop->min_trials));
    else
        json_object_set_new(o, "eta", json_real(stop->eta));
    if (t->read == read_hyperband)
        json_object_set_new(o, "strict", json_boolean(stop->strict));
    if (t->read == read_asha)
        json_object_set_new(o, "like", json_string(stop->ray ? "ray" : "optuna"));
    if (t->read == read_curve)
        json_object_set_new(o, "keep", json_real(stop->keep));
    return o;
}
