#include "hpo/samplers/bayes_features.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/distribution.h"

/* Returns true if the category has three or more values and all are numbers. */
static bool ordered(const struct distribution *d)
{
    size_t n = json_array_size(d->values);
    for (size_t i = 0; i < n; i++)
        if (!json_is_number(json_array_get(d->values, i)))
            return false;
    return n >= 3;
}

static void set_category(struct bayes_dim *dim, const struct distribution *d)
{
    size_t n = json_array_size(d->values);
    AUTO(free) size_t *order = xcalloc(n, sizeof *order);
    AUTO(free) double *numbers = xcalloc(n, sizeof *numbers);
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
        numbers[i] = json_number_value(json_array_get(d->values, i));
    }
    dim->ordered = ordered(d);
    if (dim->ordered)
        gsl_sort_index(order, numbers, 1, n);
    dim->count = n;
    dim->positions = xcalloc(n, sizeof *dim->positions);
    for (size_t i = 0; i < n; i++)
        dim->positions[i] = distribution_unit(d, json_array_get(d->values, order[i]));
    dim->cols = dim->ordered || n <= 2 ? 1 : n;
}

struct bayes_features *bayes_features_new(const struct space *space)
{
    struct bayes_features *b = xzalloc(sizeof *b);
    size_t cols = 0;
    b->space = space;
    b->dims = space_dims(space);
    b->dim = xcalloc(b->dims, sizeof *b->dim);
    b->shape.smooth = true; /* a space of continuous numbers only; it has no conditions, since these
                               depend on other kinds of parameters */
    for (size_t i = 0; i < b->dims; i++) {
        const struct distribution *d = space_distribution(space, i);
        struct bayes_dim *dim = &b->dim[i];
        dim->cols = 1;
        if (d->kind == DISTRIBUTION_CATEGORICAL)
            set_category(dim, d);
        else
            dim->whole = !isinf(distribution_count(d));
        b->shape.smooth = b->shape.smooth && !dim->count && !dim->whole;
        dim->col = cols;
        cols += dim->cols;
    }
    b->group = xcalloc(cols, sizeof *b->group);
    for (size_t i = 0; i < b->dims; i++)
        for (size_t c = 0; c < b->dim[i].cols; c++)
            b->group[b->dim[i].col + c] = i;
    b->shape.cols = cols;
    b->shape.groups = b->dims;
    b->shape.group = b->group;
    return b;
}

void bayes_features_free(struct bayes_features *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->dims; i++)
        free(b->dim[i].positions);
    free(b->dim);
    free(b->group);
    free(b);
}

size_t bayes_features_value(const struct bayes_features *b, size_t i, double u)
{
    const struct bayes_dim *dim = &b->dim[i];
    size_t nearest = 0;
    for (size_t v = 1; v < dim->count; v++)
        if (fabs(dim->positions[v] - u) < fabs(dim->positions[nearest] - u))
            nearest = v;
    return nearest;
}

static void category_columns(const struct bayes_dim *dim, size_t value, bool active, double *x,
                             size_t stride)
{
    if (dim->cols == 1) /* two values without an order are at 0 and 1 */
        x[dim->col * stride] = !active        ? 0.5
                               : dim->ordered ? ((double)value + 0.5) / (double)dim->count
                                              : (double)value;
    else
        for (size_t c = 0; c < dim->cols; c++)
            x[(dim->col + c) * stride] = active && c == value;
}

void bayes_features_columns(const struct bayes_features *b, const double *u, bool exact, double *x,
                            size_t stride)
{
    AUTO(free) double *settled = xcalloc(b->dims, sizeof *settled);
    AUTO(free) bool *active = xcalloc(b->dims, sizeof *active);
    memcpy(settled, u, b->dims * sizeof *u);
    space_snap(b->space, settled, active);
    for (size_t i = 0; i < b->dims; i++) {
        const struct bayes_dim *dim = &b->dim[i];
        if (dim->count)
            category_columns(dim, bayes_features_value(b, i, settled[i]), active[i], x, stride);
        else
            x[dim->col * stride] = active[i] && !exact ? u[i] : settled[i];
    }
}
