/* distribution_parse - reads an entry of `parameters` by W&B's schema, from a table with one row
 * per distribution. */
#include <errno.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/space/distribution.h"
static const double exact_max = 9007199254740992.0; /* 2^53: smaller integers are exact */
static const double beta_max = 1e5; /* for a larger a or b GSL's CDF does not converge */

enum shape {
    SHAPE_VALUE,     /* value */
    SHAPE_VALUES,    /* values, probabilities */
    SHAPE_RANGE,     /* min, max */
    SHAPE_EXPONENTS, /* min, max: exponents of e */
    SHAPE_INVERSE,   /* min, max: exponents of 1/e */
    SHAPE_LOGS,      /* min, max: values > 0, held as logarithms */
    SHAPE_NORMAL,    /* mu, sigma */
    SHAPE_BETA,      /* a, b */
};

static const char *const shape_keys[][2] = {
    [SHAPE_VALUE] = {"value", NULL},  [SHAPE_VALUES] = {"values", "probabilities"},
    [SHAPE_RANGE] = {"min", "max"},   [SHAPE_EXPONENTS] = {"min", "max"},
    [SHAPE_INVERSE] = {"min", "max"}, [SHAPE_LOGS] = {"min", "max"},
    [SHAPE_NORMAL] = {"mu", "sigma"}, [SHAPE_BETA] = {"a", "b"},
};

static const struct row {
    const char *name;
    enum distribution_kind kind;
    enum shape shape;
    bool rounded; /* has the key q */
} rows[] = {
    {"constant", DISTRIBUTION_CONSTANT, SHAPE_VALUE, false},
    {"categorical", DISTRIBUTION_CATEGORICAL, SHAPE_VALUES, false},
    {"categorical_w_probabilities", DISTRIBUTION_CATEGORICAL, SHAPE_VALUES, false},
    {"int_uniform", DISTRIBUTION_INT, SHAPE_RANGE, false},
    {"int_log_uniform", DISTRIBUTION_INT_LOG, SHAPE_LOGS, false},
    {"uniform", DISTRIBUTION_UNIFORM, SHAPE_RANGE, false},
    {"q_uniform", DISTRIBUTION_UNIFORM, SHAPE_RANGE, true},
    {"log_uniform", DISTRIBUTION_LOG_UNIFORM, SHAPE_EXPONENTS, false},
    {"q_log_uniform", DISTRIBUTION_LOG_UNIFORM, SHAPE_EXPONENTS, true},
    {"inv_log_uniform", DISTRIBUTION_LOG_UNIFORM, SHAPE_INVERSE, false},
    {"log_uniform_values", DISTRIBUTION_LOG_UNIFORM, SHAPE_LOGS, false},
    {"q_log_uniform_values", DISTRIBUTION_LOG_UNIFORM, SHAPE_LOGS, true},
    {"inv_log_uniform_values", DISTRIBUTION_LOG_UNIFORM, SHAPE_LOGS, false},
    {"normal", DISTRIBUTION_NORMAL, SHAPE_NORMAL, false},
    {"q_normal", DISTRIBUTION_NORMAL, SHAPE_NORMAL, true},
    {"log_normal", DISTRIBUTION_LOG_NORMAL, SHAPE_NORMAL, false},
    {"q_log_normal", DISTRIBUTION_LOG_NORMAL, SHAPE_NORMAL, true},
    {"beta", DISTRIBUTION_BETA, SHAPE_BETA, false},
    {"q_beta", DISTRIBUTION_BETA, SHAPE_BETA, true},
};

/* ---- the kind of a distribution ------------------------------------------------------------- */

static int find_row(const struct row **out, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "distribution");
    const char *name = json_string_value(at.value);
    if (!name)
        return config_node_error(&at, e, "'distribution' must be a string, not %s",
                                 json_type_name(at.value));
    const char *names[COUNT_OF(rows)];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        names[i] = rows[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = &rows[i];
            return 0;
        }
    }
    config_node_error(&at, e, "unknown distribution '%s'", name);
    const char *near = opt_suggest(name, names, COUNT_OF(rows));
    return near ? err_hint(e, "%s", near) : -EINVAL;
}

static const struct row *row_of(const char *name)
{
    const struct row *r = rows;
    while (strcmp(r->name, name) != 0)
        r++;
    return r;
}

/* Infers the distribution of an entry without the key `distribution`, by W&B's rules. */
static int infer_row(const struct row **out, const struct config_node *n, struct err *e)
{
    const json_t *min = json_object_get(n->value, "min"), *max = json_object_get(n->value, "max");
    if (config_node_has(n, "values")) {
        *out = row_of("categorical");
    } else if (config_node_has(n, "value")) {
        *out = row_of("constant");
    } else if (min && max && !config_node_has(n, "q")) {
        *out = row_of(json_is_integer(min) && json_is_integer(max) ? "int_uniform" : "uniform");
    } else {
        config_node_error(n, e, "'distribution' is missing and cannot be inferred");
        return err_hint(e, "distribution: %s",
                        config_node_has(n, "q")       ? "q_uniform"
                        : config_node_has(n, "mu")    ? "normal"
                        : config_node_has(n, "sigma") ? "normal"
                        : config_node_has(n, "a")     ? "beta"
                                                      : "uniform, with min and max");
    }
    return 0;
}

/* ---- the values of a distribution ----------------------------------------------------------- */

static int require_real(double *out, const struct config_node *n, const char *key, struct err *e)
{
    if (!config_node_has(n, key))
        return config_node_error(n, e, "'%s' is missing", key);
    return config_node_real(out, n, key, e);
}

static int read_bounds(struct distribution *d, const struct config_node *n, enum shape shape,
                       struct err *e)
{
    double min = 0, max = 0;
    struct config_node at = config_node_member(n, "min");
    if (require_real(&min, n, "min", e) < 0 || require_real(&max, n, "max", e) < 0)
        return -EINVAL;
    if (!(min < max)) {
        config_node_error(&at, e, "'min' must be less than 'max'");
        AUTO(free) char *text = json_line(at.value);
        return min == max ? err_hint(e, "value: %s", text) : -EINVAL;
    }
    if (shape == SHAPE_LOGS && !(min > 0))
        return config_node_error(&at, e, "'min' of %s must be above 0", d->name);
    double half = d->kind == DISTRIBUTION_INT_LOG ? 0.5 : 0;
    if (d->kind <= DISTRIBUTION_INT_LOG) {
        const char *key = !json_is_integer(at.value) ? "min" : "max";
        at = config_node_member(n, key);
        if (!json_is_integer(at.value))
            return config_node_error(&at, e, "'%s' of %s must be an integer", key, d->name);
        if (fabs(min) >= exact_max || fabs(max) >= exact_max)
            return config_node_error(&at, e, "integers of 2^53 and above are not supported");
    }
    d->a = shape == SHAPE_LOGS ? log(min - half) : shape == SHAPE_INVERSE ? -max : min;
    d->b = shape == SHAPE_LOGS ? log(max + half) : shape == SHAPE_INVERSE ? -min : max;
    bool exponents = shape == SHAPE_EXPONENTS || shape == SHAPE_INVERSE;
    d->lo = exponents ? exp(d->a) : min;
    d->hi = exponents ? exp(d->b) : max;
    return 0;
}

/* Adds a notice if the exponents look like values. It is a frequent mistake to write values instead
 * of exponents: `min: 0.0001, max: 0.1` then gives values from 1.0001 to 1.105. */
static int check_exponents(const struct distribution *d, const struct config_node *n,
                           char ***notices, struct err *e)
{
    struct config_node at = config_node_member(n, "min");
    if (!(exp(d->b) < INFINITY) || !(exp(d->a) > 0)) {
        config_node_error(&at, e, "min and max of %s are exponents of e: these are out of range",
                          d->name);
        return err_hint(e, "distribution: log_uniform_values");
    }
    if (d->a > 0 && d->b < 1) {
        struct err note = {0};
        config_node_error(&at, &note,
                          "min and max of %s are exponents of e: values will be %.6g to %.6g; "
                          "log_uniform_values takes the values themselves",
                          d->name, d->lo, d->hi);
        strv_push(notices, xstrdup(note.text));
    }
    return 0;
}

static int read_moments(struct distribution *d, const struct config_node *n, struct err *e)
{
    d->a = 0;
    d->b = 1;
    d->lo = -INFINITY;
    d->hi = INFINITY;
    struct config_node at = config_node_member(n, "sigma");
    if (config_node_real(&d->a, n, "mu", e) < 0 || config_node_real(&d->b, n, "sigma", e) < 0)
        return -EINVAL;
    return d->b >= 0 ? 0 : config_node_error(&at, e, "'sigma' must not be negative");
}

static int read_beta(struct distribution *d, const struct config_node *n, struct err *e)
{
    d->a = d->b = d->hi = 1;
    if (config_node_real(&d->a, n, "a", e) < 0 || config_node_real(&d->b, n, "b", e) < 0)
        return -EINVAL;
    bool a_bad = !(d->a > 0 && d->a <= beta_max), b_bad = !(d->b > 0 && d->b <= beta_max);
    struct config_node at = config_node_member(n, a_bad ? "a" : "b");
    if (a_bad || b_bad)
        return config_node_error(&at, e, "'a' and 'b' must be above 0 and at most %.0f", beta_max);
    return 0;
}

static int read_q(struct distribution *d, const struct config_node *n, struct err *e)
{
    d->q = 1;
    if (config_node_real(&d->q, n, "q", e) < 0)
        return -EINVAL;
    struct config_node at = config_node_member(n, "q");
    d->whole = json_is_integer(at.value);
    if (!(d->q > 0))
        return config_node_error(&at, e, "'q' must be above 0");
    if (d->whole && d->q >= exact_max)
        return config_node_error(&at, e, "integers of 2^53 and above are not supported");
    return 0;
}

/* Adds a value with probability p. If an equal value exists, p is added to its probability. */
static void add_value(struct distribution *d, const json_t *value, double p)
{
    AUTO(free) char *key = distribution_key(value);
    const json_t *at = json_object_get(d->index, key);
    size_t i = at ? (size_t)json_integer_value(at) : json_array_size(d->values);
    if (!at) {
        json_array_append(d->values, (json_t *)value);
        json_object_set_new(d->index, key, json_integer((json_int_t)i));
    }
    d->cumulative[i] += p;
}

/* Reads the list of values in the member `key`. `weights` NULL: all values have equal weights. */
static int read_value_list(struct distribution *d, const struct config_node *n, const char *key,
                           const double *weights, struct err *e)
{
    struct config_node list = config_node_member(n, key);
    size_t count = json_array_size(list.value);
    if (count == 0)
        return config_node_error(list.value ? &list : n, e,
                                 "'%s' must be a list of at least one value", key);
    d->cumulative = xcalloc(count, sizeof *d->cumulative);
    for (size_t i = 0; i < count; i++) {
        double p = weights ? weights[i] : 1.0 / (double)count;
        if (p > 0)
            add_value(d, json_array_get(list.value, i), p);
    }
    for (size_t i = 1; i < json_array_size(d->values); i++)
        d->cumulative[i] += d->cumulative[i - 1];
    return 0;
}

static int read_weights(double *weights, size_t count, const struct config_node *n, struct err *e)
{
    struct config_node list = config_node_member(n, "probabilities");
    if (json_array_size(list.value) != count)
        return config_node_error(
            &list, e, "'probabilities' must be a list of %zu numbers, one per value", count);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_item(&list, i);
        weights[i] = json_number_value(at.value);
        if (!json_is_number(at.value) || weights[i] < 0)
            return config_node_error(&at, e, "a probability must be a number of 0 or more");
        sum += weights[i];
    }
    if (fabs(sum - 1) > 1e-5)
        return config_node_error(&list, e, "the probabilities sum to %.9g, not to 1", sum);
    return 0;
}

static int read_values(struct distribution *d, const struct config_node *n, struct err *e)
{
    size_t count = json_array_size(json_object_get(n->value, "values"));
    AUTO(free) double *weights = xcalloc(count, sizeof *weights);
    d->weighted = config_node_has(n, "probabilities");
    if (d->weighted && count > 0 && read_weights(weights, count, n, e) < 0)
        return -EINVAL;
    return read_value_list(d, n, "values", d->weighted ? weights : NULL, e);
}
/* takes the reference to the value */
static void make_constant(struct distribution *d, json_t *value)
{
    d->kind = DISTRIBUTION_CONSTANT;
    d->name = "constant";
    d->cumulative = xcalloc(1, sizeof *d->cumulative);
    add_value(d, value, 1);
    json_decref(value);
}

static int read_parts(struct distribution *d, const struct row *r, const struct config_node *n,
                      char ***notices, struct err *e)
{
    switch (r->shape) {
    case SHAPE_VALUE:
        if (!config_node_has(n, "value"))
            return config_node_error(n, e, "'value' is missing");
        make_constant(d, json_incref(json_object_get(n->value, "value")));
        return 0;
    case SHAPE_VALUES:
        if (strcmp(r->name, "categorical_w_probabilities") == 0 &&
            !config_node_has(n, "probabilities"))
            return config_node_error(n, e, "'probabilities' is missing");
        return read_values(d, n, e);
    case SHAPE_EXPONENTS:
    case SHAPE_INVERSE:
        if (read_bounds(d, n, r->shape, e) < 0)
            return -EINVAL;
        return check_exponents(d, n, notices, e);
    case SHAPE_RANGE:
    case SHAPE_LOGS:
        return read_bounds(d, n, r->shape, e);
    case SHAPE_NORMAL:
        return read_moments(d, n, e);
    case SHAPE_BETA:
        return read_beta(d, n, e);
    }
    return -EINVAL;
}

static int check_keys(const struct row *r, const struct config_node *n, struct err *e)
{
    const char *known[4] = {"distribution", shape_keys[r->shape][0]};
    size_t count = 2;
    if (shape_keys[r->shape][1])
        known[count++] = shape_keys[r->shape][1];
    if (r->rounded)
        known[count++] = "q";
    return config_node_only_keys(n, known, count, r->name, e);
}

static struct distribution *new_distribution(const struct row *r)
{
    struct distribution *d = xzalloc(sizeof *d);
    d->kind = r->kind;
    d->name = r->name;
    d->values = json_array();
    d->index = json_object();
    return d;
}

static int wrong_type(const struct config_node *n, struct err *e)
{
    config_node_error(n, e, "a parameter must be a mapping, not %s", json_type_name(n->value));
    AUTO(free) char *text = json_line(n->value);
    return err_hint(e, "{%s: %s}", json_is_array(n->value) ? "values" : "value", text);
}

int distribution_read(struct distribution **out, const struct config_node *n, char ***notices,
                      struct err *e)
{
    gsl_set_error_handler_off();
    if (!json_is_object(n->value))
        return wrong_type(n, e);
    const struct row *r = NULL;
    int rc = config_node_has(n, "distribution") ? find_row(&r, n, e) : infer_row(&r, n, e);
    if (rc < 0 || check_keys(r, n, e) < 0)
        return -EINVAL;
    AUTO(distribution) struct distribution *d = new_distribution(r);
    if (read_parts(d, r, n, notices, e) < 0 || (r->rounded && read_q(d, n, e) < 0))
        return -EINVAL;
    *out = TAKE(d);
    return 0;
}

/* ---- an item of the list form --------------------------------------------------------------- */

/* Reads an item {"type": "float" or "int", "low", "high", "log"}. `whole`: the type is int. */
static int read_range(struct distribution **out, const struct config_node *n, bool whole,
                      struct err *e)
{
    bool logs = false;
    double low = 0, high = 0;
    if (config_node_has(n, "choices"))
        return config_node_error(n, e, "'choices' requires type cat");
    if (config_node_bool(&logs, n, "log", e) < 0 || require_real(&low, n, "low", e) < 0 ||
        require_real(&high, n, "high", e) < 0)
        return -EINVAL;
    struct config_node at = config_node_member(n, "low");
    const char *key = json_is_integer(at.value) ? "high" : "low";
    if (whole && !json_is_integer(json_object_get(n->value, key)))
        return config_node_error(n, e, "'%s' of an int must be an integer", key);
    if (whole && (fabs(low) >= exact_max || fabs(high) >= exact_max))
        return config_node_error(&at, e, "integers of 2^53 and above are not supported");
    if (low > high)
        return config_node_error(&at, e, "'low' must not be above 'high'");
    if (logs && !(low > 0))
        return config_node_error(&at, e, "'low' must be above 0 if 'log' is true");
    AUTO(distribution)
    struct distribution *d =
        new_distribution(row_of(whole  ? logs ? "int_log_uniform" : "int_uniform"
                                : logs ? "log_uniform_values"
                                       : "uniform"));
    double half = whole ? 0.5 : 0;
    d->lo = low;
    d->hi = high;
    d->a = logs ? log(low - half) : low;
    d->b = logs ? log(high + half) : high;
    if (low == high)
        make_constant(d, whole ? json_integer((json_int_t)low) : json_real(low));
    *out = TAKE(d);
    return 0;
}

int distribution_read_item(struct distribution **out, const struct config_node *n, struct err *e)
{
    static const char *const types[] = {"float", "int", "cat"};
    struct config_node at = config_node_member(n, "type");
    const char *type = json_string_value(at.value);
    gsl_set_error_handler_off();
    if (!at.value)
        return config_node_error(n, e, "'type' is missing");
    if (type && (strcmp(type, "float") == 0 || strcmp(type, "int") == 0))
        return read_range(out, n, type[0] == 'i', e);
    if (!type || strcmp(type, "cat") != 0) {
        config_node_error(&at, e, "unknown parameter type '%s'",
                          type ? type : json_type_name(at.value));
        const char *near = type ? opt_suggest(type, types, COUNT_OF(types)) : NULL;
        return err_hint(e, "%s", near ? near : "float, int or cat");
    }
    static const char *const numeric[] = {"low", "high", "log"};
    for (size_t i = 0; i < COUNT_OF(numeric); i++)
        if (config_node_has(n, numeric[i]))
            return config_node_error(n, e, "'%s' is not valid for type cat", numeric[i]);
    AUTO(distribution) struct distribution *d = new_distribution(row_of("categorical"));
    if (read_value_list(d, n, "choices", NULL, e) < 0)
        return -EINVAL;
    *out = TAKE(d);
    return 0;
}

/* ---- writing a distribution ----------------------------------------------------------------- */

json_t *distribution_json(const struct distribution *d)
{
    json_t *o = json_object();
    const struct row *r = row_of(d->name);
    const char *const *keys = shape_keys[r->shape];
    json_object_set_new(o, "distribution", json_string(d->name));
    if (r->shape == SHAPE_VALUE) {
        json_object_set(o, "value", json_array_get(d->values, 0));
    } else if (r->shape == SHAPE_VALUES) {
        json_object_set(o, "values", d->values);
        json_t *p = d->weighted ? json_array() : NULL;
        for (size_t i = 0; p && i < json_array_size(d->values); i++)
            json_array_append_new(p, json_real(d->cumulative[i] - (i ? d->cumulative[i - 1] : 0)));
        if (p)
            json_object_set_new(o, "probabilities", p);
    } else {
        bool logs = r->shape == SHAPE_LOGS, inverse = r->shape == SHAPE_INVERSE;
        double a = logs ? d->lo : inverse ? -d->b : d->a;
        double b = logs ? d->hi : inverse ? -d->a : d->b;
        bool integers = d->kind <= DISTRIBUTION_INT_LOG;
        json_object_set_new(o, keys[0], integers ? json_integer((json_int_t)a) : json_real(a));
        json_object_set_new(o, keys[1], integers ? json_integer((json_int_t)b) : json_real(b));
    }
    if (r->rounded)
        json_object_set_new(o, "q", d->whole ? json_integer((json_int_t)d->q) : json_real(d->q));
    return o;
}
