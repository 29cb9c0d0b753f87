/* space_count - the points of a space by number, each active configuration once.
 *
 * Parameters whose activity does not depend on each other multiply: parts. Where some depend on
 * one, each group of its values that has the same of them active is a branch, with parts of its
 * own. So 2^53 points take no more memory than the conditions do. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space_internal.h"

enum { WORK_MAX = 1 << 20 }; /* parameters looked at in all, while it is built */

static const double exact_max = 9007199254740992.0; /* 2^53: doubles count up to it */

struct branch { /* where the part's parameter has one of these values */
    double *values;
    size_t value_count;              /* 0: all values that no other branch has */
    struct space_enumeration *cases; /* of what depends on it */
};

struct part {
    size_t param;
    double count; /* points of it and of what depends on it */
    struct branch *branches;
    size_t branch_count; /* 0: nothing depends on it */
    double *named;       /* the values of all branches, rising */
    size_t named_count;
};

struct space_enumeration {
    double count; /* the product */
    struct part *parts;
    size_t part_count;
};

void space_enumeration_free(struct space_enumeration *c)
{
    if (!c)
        return;
    for (struct part *p = c->parts; p < c->parts + c->part_count; p++) {
        for (size_t i = 0; i < p->branch_count; i++) {
            free(p->branches[i].values);
            space_enumeration_free(p->branches[i].cases);
        }
        free(p->branches);
        free(p->named);
    }
    free(c->parts);
    free(c);
}
AUTO_DEFINE(cases, struct space_enumeration *, space_enumeration_free)

double space_value_count(const struct space *s, size_t p)
{
    const struct distribution *d = s->params[p].dist;
    return s->grid ? distribution_grid_count(d) : distribution_count(d);
}

json_t *space_value(const struct space *s, size_t p, double i)
{
    const struct distribution *d = s->params[p].dist;
    return s->grid ? distribution_grid_value(d, i) : distribution_value(d, i);
}

/* ---- building ----------------------------------------------------------------------------------
 */

struct set { /* of parameters, rising */
    size_t *at;
    size_t count;
};

struct build {
    const struct space *s;
    bool *decided; /* parameters whose value is known: the conditions on them hold */
    size_t *root;  /* of each parameter: another one that it depends together with, or itself */
    int left;      /* of WORK_MAX */
};

static size_t root_of(struct build *b, size_t p)
{
    while (b->root[p] != p)
        p = b->root[p] = b->root[b->root[p]];
    return p;
}

/* Joins each parameter with those that it depends on. */
static void join(struct build *b, const struct set *of)
{
    for (size_t i = 0; i < of->count; i++)
        b->root[of->at[i]] = of->at[i];
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &b->s->params[of->at[i]];
        for (size_t k = 0; k < p->cond_count; k++)
            if (!b->decided[p->conds[k].parent])
                b->root[root_of(b, of->at[i])] = root_of(b, p->conds[k].parent);
    }
}

static bool depends(const struct space *s, size_t p, size_t on)
{
    const struct space_param *param = &s->params[p];
    for (size_t k = 0; k < param->cond_count; k++)
        if (param->conds[k].parent == on)
            return true;
    return false;
}

/* The first of a set that depends on nothing undecided while another depends on it; of one that
 * stands alone, itself. */
static size_t first_parent(const struct build *b, const struct set *of)
{
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &b->s->params[of->at[i]];
        bool is_free = true, has_child = of->count == 1;
        for (size_t k = 0; k < p->cond_count; k++)
            is_free = is_free && b->decided[p->conds[k].parent];
        for (size_t k = 0; is_free && !has_child && k < of->count; k++)
            has_child = depends(b->s, of->at[k], of->at[i]);
        if (is_free && has_child)
            return of->at[i];
    }
    abort(); /* conditions in a circle: space_resolve_conditions() was to find it */
}

/* Those of the set but `parent` that are there where it has this value; NAN: one that no condition
 * names. */
static struct set alive(const struct space *s, const struct set *of, size_t parent, double value)
{
    struct set out = {.at = xcalloc(of->count, sizeof *out.at)};
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &s->params[of->at[i]];
        bool on = of->at[i] != parent;
        for (size_t k = 0; on && k < p->cond_count; k++)
            if (p->conds[k].parent == parent)
                on = !isnan(value) && space_condition_holds(&p->conds[k], value);
        if (on)
            out.at[out.count++] = of->at[i];
    }
    return out;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The parent's values that a condition of the set names, rising, each once. */
static void name_values(struct part *part, const struct space *s, const struct set *of)
{
    size_t n = 0;
    for (size_t i = 0; i < of->count; i++) {
        const struct space_param *p = &s->params[of->at[i]];
        for (size_t k = 0; k < p->cond_count; k++) {
            const struct space_condition *c = &p->conds[k];
            if (c->parent != part->param)
                continue;
            part->named = xrealloc(part->named, n + c->in_count, sizeof *part->named);
            memcpy(part->named + n, c->in, c->in_count * sizeof *c->in);
            n += c->in_count;
        }
    }
    if (n)
        qsort(part->named, n, sizeof *part->named, compare_reals);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || part->named[i] != part->named[part->named_count - 1])
            part->named[part->named_count++] = part->named[i];
}

static struct space_enumeration *build(struct build *b, const struct set *of);

static struct branch *add_branch(struct build *b, struct part *part, const struct set *of)
{
    part->branches = xrealloc(part->branches, part->branch_count + 1, sizeof *part->branches);
    struct branch *br = &part->branches[part->branch_count++];
    *br = (struct branch){0};
    b->decided[part->param] = true;
    br->cases = build(b, of);
    b->decided[part->param] = false;
    return br->cases ? br : NULL;
}

/* The branches of a part on which others of the set depend. */
static int branch_out(struct build *b, struct part *part, const struct set *of)
{
    name_values(part, b->s, of);
    AUTO(free) struct set *sets = xcalloc(part->named_count, sizeof *sets);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < part->named_count; i++) {
        struct set here = alive(b->s, of, part->param, part->named[i]);
        size_t k = 0;
        while (k < part->branch_count &&
               (sets[k].count != here.count ||
                memcmp(sets[k].at, here.at, here.count * sizeof *here.at) != 0))
            k++;
        bool is_new = k == part->branch_count;
        if (is_new)
            sets[k] = here;
        else
            free(here.at);
        if (is_new && !add_branch(b, part, &sets[k]))
            rc = -E2BIG;
        struct branch *br = &part->branches[k];
        br->values = xrealloc(br->values, br->value_count + 1, sizeof *br->values);
        br->values[br->value_count++] = part->named[i];
        part->count += br->cases ? br->cases->count : 0;
    }
    for (size_t k = 0; k < part->branch_count; k++)
        free(sets[k].at);
    double others = space_value_count(b->s, part->param) - (double)part->named_count;
    if (rc < 0 || others == 0)
        return rc;
    struct set rest = alive(b->s, of, part->param, NAN);
    struct branch *br = add_branch(b, part, &rest);
    free(rest.at);
    part->count += br ? others * br->cases->count : 0;
    return br ? 0 : -E2BIG;
}

/* The cases of a set whose decided conditions all hold; NULL: too many. */
static struct space_enumeration *build(struct build *b, const struct set *of)
{
    AUTO(cases) struct space_enumeration *c = xzalloc(sizeof *c);
    c->count = 1;
    c->parts = xcalloc(of->count + 1, sizeof *c->parts);
    b->left -= (int)of->count + 1;
    if (b->left < 0)
        return NULL;
    join(b, of);
    AUTO(free) size_t *roots = xcalloc(of->count + 1, sizeof *roots);
    AUTO(free) size_t *members = xcalloc(of->count + 1, sizeof *members);
    for (size_t i = 0; i < of->count; i++) /* b->root is used again further down */
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
        struct part *part = &c->parts[c->part_count++];
        part->param = first_parent(b, &group);
        if (group.count == 1)
            part->count = space_value_count(b->s, part->param);
        else if (branch_out(b, part, &group) < 0)
            return NULL;
        c->count *= part->count;
    }
    return TAKE(c);
}

int space_enumerate(struct space *s)
{
    space_enumeration_free(s->cases);
    s->cases = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (isinf(space_value_count(s, i)))
            return 0;
    AUTO(free) bool *decided = xcalloc(s->count, sizeof *decided);
    AUTO(free) size_t *root = xcalloc(s->count, sizeof *root);
    struct build b = {.s = s, .decided = decided, .root = root, .left = WORK_MAX};
    AUTO(free) size_t *all = xcalloc(s->count, sizeof *all);
    for (size_t i = 0; i < s->count; i++)
        all[i] = i;
    s->cases = build(&b, &(struct set){all, s->count});
    return s->cases ? 0 : -E2BIG;
}

/* ---- points ------------------------------------------------------------------------------------
 */

double space_count(const struct space *s)
{
    if (s->allowed)
        return (double)s->allowed_count;
    return s->cases && s->cases->count <= exact_max ? s->cases->count : INFINITY;
}

/* The n-th value of a part's parameter that no branch names. */
static double unnamed(const struct part *p, double n)
{
    for (size_t i = 0; i < p->named_count && p->named[i] <= n; i++)
        n++;
    return n;
}

/* Which value each parameter has at the i-th point; those that are not active stay. */
static void digits(double *at, const struct space_enumeration *c, double i)
{
    double rest = c->count;
    for (const struct part *p = c->parts; p < c->parts + c->part_count; p++) {
        rest /= p->count;
        double n = (i - fmod(i, rest)) / rest;
        i -= n * rest;
        if (p->branch_count == 0)
            at[p->param] = n;
        for (size_t k = 0; k < p->branch_count; k++) {
            const struct branch *br = &p->branches[k];
            double size = br->cases->count, which = (n - fmod(n, size)) / size;
            if (br->value_count > 0 && which >= (double)br->value_count) {
                n -= size * (double)br->value_count;
                continue;
            }
            at[p->param] = br->value_count > 0 ? br->values[(size_t)which] : unnamed(p, which);
            digits(at, br->cases, n - which * size);
            break;
        }
    }
}

void space_point_indices(double *at, const struct space *s, double i)
{
    for (size_t p = 0; p < s->count; p++)
        at[p] = -1;
    digits(at, s->cases, i);
}

json_t *space_point(const struct space *s, double i)
{
    AUTO(free) double *at = xcalloc(s->count, sizeof *at);
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    space_point_indices(at, s, s->allowed ? s->allowed[(size_t)i] : i);
    if (!s->allowed && space_violated(s, &(struct space_coords){.digits = at}))
        return NULL;
    for (size_t p = 0; p < s->count; p++)
        if (at[p] >= 0)
            values[p] = space_value(s, p, at[p]);
    return space_assemble(s, values, NULL);
}
