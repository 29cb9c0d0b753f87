/* space_enumerate - numbers the points of a space. Values of inactive parameters do not make points
 * different.
 *
 * The number of points is a product of factors. A factor is a set of parameters whose activity does
 * not depend on parameters outside the set. If parameters of a factor depend on one of them, the
 * values of this parameter are grouped into branches: all values of a branch have the same active
 * parameters. Each branch has factors of its own. So the memory depends on the conditions and not
 * on the number of points, which may be 2^53. */
#include <errno.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space_internal.h"

enum { WORK_MAX = 1 << 20 }; /* limit on the parameters visited while building */
static const double exact_max = 9007199254740992.0; /* 2^53: smaller integers are exact */

struct branch { /* the points of a factor whose parameter has one of some values */
    double *values;
    size_t value_count; /* 0: the branch has all values that no other branch has */
    /* points of the parameters that depend on the factor's parameter */
    struct space_enumeration *enumeration;
};

struct factor {
    size_t param;
    double count; /* number of points of `param` and of the parameters that depend on it */
    struct branch *branches;
    size_t branch_count; /* 0: no parameter depends on `param` */
    double *named;       /* the values of all branches, ascending */
    size_t named_count;
};

struct space_enumeration {
    double count; /* number of points: the product of the factors' counts */
    struct factor *factors;
    size_t factor_count;
};

void space_enumeration_free(struct space_enumeration *en)
{
    if (!en)
        return;
    for (struct factor *f = en->factors; f < en->factors + en->factor_count; f++) {
        for (size_t i = 0; i < f->branch_count; i++) {
            free(f->branches[i].values);
            space_enumeration_free(f->branches[i].enumeration);
        }
        free(f->branches);
        free(f->named);
    }
    free(en->factors);
    free(en);
}
AUTO_DEFINE(enumeration, struct space_enumeration *, space_enumeration_free)

double space_value_count(const struct space *s, size_t p)
{
    const struct distribution *d = s->params[p].distribution;
    return s->grid ? distribution_grid_count(d) : distribution_count(d);
}

json_t *space_value(const struct space *s, size_t p, double i)
{
    const struct distribution *d = s->params[p].distribution;
    return s->grid ? distribution_grid_value(d, i) : distribution_value(d, i);
}

/* ---- building ------------------------------------------------------------------------------- */

struct set { /* a set of parameters, in ascending order */
    size_t *at;
    size_t count;
};

struct build {
    const struct space *s;
    bool *decided; /* parameters with a known value: the conditions on them hold */
    size_t *root;  /* union-find: another parameter of the same factor, or the parameter itself */
    int left;      /* the rest of WORK_MAX */
};

static size_t root_of(struct build *b, size_t p)
{
    while (b->root[p] != p)
        p = b->root[p] = b->root[b->root[p]];
    return p;
}

/* Joins each parameter of the set with the undecided parameters that it depends on. */
static void join(struct build *b, const struct set *of)
{
    for (size_t i = 0; i < of->count; i++)
        b->root[of->at[i]] = of->at[i];
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &b->s->params[of->at[i]];
        for (size_t k = 0; k < p->condition_count; k++)
            if (!b->decided[p->conditions[k].parent])
                b->root[root_of(b, of->at[i])] = root_of(b, p->conditions[k].parent);
    }
}

static bool depends(const struct space *s, size_t p, size_t on)
{
    const struct space_param *param = &s->params[p];
    for (size_t k = 0; k < param->condition_count; k++)
        if (param->conditions[k].parent == on)
            return true;
    return false;
}

/* Returns the first parameter of a set that depends on no undecided parameter, and on which another
 * parameter of the set depends. If the set has one parameter, returns this parameter. */
static size_t first_parent(const struct build *b, const struct set *of)
{
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &b->s->params[of->at[i]];
        bool is_root = true, has_child = of->count == 1;
        for (size_t k = 0; k < p->condition_count; k++)
            is_root = is_root && b->decided[p->conditions[k].parent];
        for (size_t k = 0; is_root && !has_child && k < of->count; k++)
            has_child = depends(b->s, of->at[k], of->at[i]);
        if (is_root && has_child)
            return of->at[i];
    }
    abort(); /* a cycle of conditions, which space_resolve_conditions() rejects */
}

/* Returns the parameters of the set, without `parent`, that can be active if `parent` has this
 * value. NAN stands for all values that no condition names. The caller frees `at`. */
static struct set remaining(const struct space *s, const struct set *of, size_t parent,
                            double value)
{
    struct set out = {.at = xcalloc(of->count, sizeof *out.at)};
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &s->params[of->at[i]];
        bool on = of->at[i] != parent;
        for (size_t k = 0; on && k < p->condition_count; k++)
            if (p->conditions[k].parent == parent)
                on = !isnan(value) && space_condition_holds(&p->conditions[k], value);
        if (on)
            out.at[out.count++] = of->at[i];
    }
    return out;
}

/* Collects in factor->named the values of the factor's parameter that conditions of the set name,
 * in ascending order, each once. */
static void name_values(struct factor *factor, const struct space *s, const struct set *of)
{
    size_t n = 0;
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &s->params[of->at[i]];
        for (size_t k = 0; k < p->condition_count; k++) {
            const struct space_condition *c = &p->conditions[k];
            if (c->parent != factor->param)
                continue;
            factor->named = xrealloc(factor->named, n + c->in_count, sizeof *factor->named);
            memcpy(factor->named + n, c->in, c->in_count * sizeof *c->in);
            n += c->in_count;
        }
    }
    if (n)
        gsl_sort(factor->named, 1, n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || factor->named[i] != factor->named[factor->named_count - 1])
            factor->named[factor->named_count++] = factor->named[i];
}

static struct space_enumeration *build(struct build *b, const struct set *of);

static struct branch *add_branch(struct build *b, struct factor *factor, const struct set *of)
{
    factor->branches =
        xrealloc(factor->branches, factor->branch_count + 1, sizeof *factor->branches);
    struct branch *br = &factor->branches[factor->branch_count++];
    *br = (struct branch){0};
    b->decided[factor->param] = true;
    br->enumeration = build(b, of);
    b->decided[factor->param] = false;
    return br->enumeration ? br : NULL;
}

/* Builds the branches and the count of a factor with parameters that depend on factor->param.
 * Returns 0 or -E2BIG. */
static int branch_out(struct build *b, struct factor *factor, const struct set *of)
{
    name_values(factor, b->s, of);
    AUTO(free) struct set *sets = xcalloc(factor->named_count, sizeof *sets);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < factor->named_count; i++) {
        struct set here = remaining(b->s, of, factor->param, factor->named[i]);
        size_t k = 0;
        while (k < factor->branch_count &&
               (sets[k].count != here.count ||
                memcmp(sets[k].at, here.at, here.count * sizeof *here.at) != 0))
            k++;
        bool is_new = k == factor->branch_count;
        if (is_new)
            sets[k] = here;
        else
            free(here.at);
        if (is_new && !add_branch(b, factor, &sets[k]))
            rc = -E2BIG;
        struct branch *br = &factor->branches[k];
        br->values = xrealloc(br->values, br->value_count + 1, sizeof *br->values);
        br->values[br->value_count++] = factor->named[i];
        factor->count += br->enumeration ? br->enumeration->count : 0;
    }
    for (size_t k = 0; k < factor->branch_count; k++)
        free(sets[k].at);
    double unnamed_values = space_value_count(b->s, factor->param) - (double)factor->named_count;
    if (rc < 0 || unnamed_values == 0)
        return rc;
    struct set rest = remaining(b->s, of, factor->param, NAN);
    struct branch *br = add_branch(b, factor, &rest);
    free(rest.at);
    factor->count += br ? unnamed_values * br->enumeration->count : 0;
    return br ? 0 : -E2BIG;
}

/* Builds the enumeration of a set. All conditions on parameters in b->decided hold. Returns NULL if
 * the enumeration exceeds WORK_MAX. */
static struct space_enumeration *build(struct build *b, const struct set *of)
{
    AUTO(enumeration) struct space_enumeration *en = xzalloc(sizeof *en);
    en->count = 1;
    en->factors = xcalloc(of->count + 1, sizeof *en->factors);
    b->left -= (int)of->count + 1;
    if (b->left < 0)
        return NULL;
    join(b, of);
    AUTO(free) size_t *roots = xcalloc(of->count + 1, sizeof *roots);
    AUTO(free) size_t *members = xcalloc(of->count + 1, sizeof *members);
    for (size_t i = 0; i < of->count; i++) /* recursive calls change b->root */
        roots[i] = root_of(b, of->at[i]);
    AUTO(free) bool *done = xcalloc(of->count + 1, sizeof *done);
    for (size_t i = 0; i < of->count; i++) {
        struct set group = {.at = members};
        for (size_t k = i; !done[i] && k < of->count; k++)
            if (roots[k] == roots[i]) {
                group.at[group.count++] = of->at[k];
                done[k] = k > i;
            }
        if (group.count == 0)
            continue;
        struct factor *factor = &en->factors[en->factor_count++];
        factor->param = first_parent(b, &group);
        if (group.count == 1)
            factor->count = space_value_count(b->s, factor->param);
        else if (branch_out(b, factor, &group) < 0)
            return NULL;
        en->count *= factor->count;
    }
    return TAKE(en);
}

int space_enumerate(struct space *s)
{
    space_enumeration_free(s->enumeration);
    s->enumeration = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (isinf(space_value_count(s, i)))
            return 0;
    AUTO(free) bool *decided = xcalloc(s->count, sizeof *decided);
    AUTO(free) size_t *root = xcalloc(s->count, sizeof *root);
    struct build b = {.s = s, .decided = decided, .root = root, .left = WORK_MAX};
    AUTO(free) size_t *all = xcalloc(s->count, sizeof *all);
    for (size_t i = 0; i < s->count; i++)
        all[i] = i;
    s->enumeration = build(&b, &(struct set){all, s->count});
    return s->enumeration ? 0 : -E2BIG;
}

/* ---- points --------------------------------------------------------------------------------- */

double space_count(const struct space *s)
{
    if (s->allowed)
        return (double)s->allowed_count;
    return s->enumeration && s->enumeration->count <= exact_max ? s->enumeration->count : INFINITY;
}

/* Returns the index of the n-th value of a factor's parameter that no condition names. */
static double unnamed(const struct factor *f, double n)
{
    for (size_t i = 0; i < f->named_count && f->named[i] <= n; i++)
        n++;
    return n;
}

/* Sets at[p] to the index of the value of each active parameter p at the i-th point. Other elements
 * stay unchanged. */
static void indices(double *at, const struct space_enumeration *en, double i)
{
    double rest = en->count;
    for (const struct factor *f = en->factors; f < en->factors + en->factor_count; f++) {
        rest /= f->count;
        double n = (i - fmod(i, rest)) / rest;
        i -= n * rest;
        if (f->branch_count == 0)
            at[f->param] = n;
        for (size_t k = 0; k < f->branch_count; k++) {
            const struct branch *br = &f->branches[k];
            double size = br->enumeration->count, which = (n - fmod(n, size)) / size;
            if (br->value_count > 0 && which >= (double)br->value_count) {
                n -= size * (double)br->value_count;
                continue;
            }
            at[f->param] = br->value_count > 0 ? br->values[(size_t)which] : unnamed(f, which);
            indices(at, br->enumeration, n - which * size);
            break;
        }
    }
}

void space_point_indices(double *at, const struct space *s, double i)
{
    for (size_t p = 0; p < s->count; p++)
        at[p] = -1;
    indices(at, s->enumeration, i);
}

json_t *space_point(const struct space *s, double i)
{
    AUTO(free) double *at = xcalloc(s->count, sizeof *at);
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    space_point_indices(at, s, s->allowed ? s->allowed[(size_t)i] : i);
    if (!s->allowed && space_violated(s, &(struct space_coords){.indices = at}))
        return NULL;
    for (size_t p = 0; p < s->count; p++)
        if (at[p] >= 0)
            values[p] = space_value(s, p, at[p]);
    return space_assemble(s, values, NULL);
}
