#include "collectives/bench/analysis/pairs_bisect.h"

#include <stdlib.h>

/* What is asked next about the nodes a0 … a1 - 1 and b0 … b1 - 1. */
struct place {
    enum {
        WHOLE,  /* if a is slow */
        HALVES, /* which half of a is; b is empty */
        ACROSS, /* where the slow link between a and b is: first halves and second ones … */
        CROSSED /* … first with second */
    } ask;
    int a0, a1, b0, b1;
};

struct pairs_bisect {
    int n, count;
    struct place *places; /* disjoint */
    bool *suspects;
};

struct pairs_bisect *pairs_bisect_new(int n)
{
    struct pairs_bisect *b = xzalloc(sizeof *b);
    b->n = n;
    b->places = xcalloc((size_t)n + 1, sizeof *b->places);
    b->suspects = xcalloc((size_t)n + 1, sizeof *b->suspects);
    if (n > 1)
        b->places[b->count++] = (struct place){WHOLE, 0, n, n, n};
    return b;
}

void pairs_bisect_free(struct pairs_bisect *b)
{
    if (b) {
        free(b->places);
        free(b->suspects);
    }
    free(b);
}

/* The halves that make the two groups of a place. */
static void groups_of(struct place out[2], const struct place *p)
{
    int am = p->a0 + (p->a1 - p->a0) / 2, bm = p->b0 + (p->b1 - p->b0) / 2;
    bool crossed = p->ask == CROSSED;
    out[0] = (struct place){ACROSS, p->a0, am, crossed ? bm : p->b0, crossed ? p->b1 : bm};
    out[1] = (struct place){ACROSS, am, p->a1, crossed ? p->b0 : bm, crossed ? bm : p->b1};
    if (p->ask == HALVES)
        out[0].ask = out[1].ask = HALVES;
    if (p->ask == WHOLE) {
        out[0] = (struct place){HALVES, p->a0, p->a1, 0, 0};
        out[1] = (struct place){HALVES, 0, 0, 0, 0};
    }
}

static void set_group(int *group, const struct place *p, int number)
{
    for (int i = p->a0; i < p->a1; i++)
        group[i] = number;
    for (int i = p->b0; i < p->b1; i++)
        group[i] = number;
}

int pairs_bisect_round(const struct pairs_bisect *b, int *group)
{
    for (int i = 0; i < b->n; i++)
        group[i] = -1;
    for (int i = 0; i < b->count; i++) {
        struct place halves[2];
        groups_of(halves, &b->places[i]);
        set_group(group, &halves[0], 2 * i);
        set_group(group, &halves[1], 2 * i + 1);
    }
    return 2 * b->count;
}

/* Asks about a slow place in the next round. Few nodes are suspects as they are. */
static void keep(struct pairs_bisect *b, const struct place *p)
{
    if (p->a1 - p->a0 + p->b1 - p->b0 > 3) {
        b->places[b->count++] = *p;
        return;
    }
    for (int i = 0; i < b->n; i++)
        b->suspects[i] |= (i >= p->a0 && i < p->a1) || (i >= p->b0 && i < p->b1);
}

void pairs_bisect_answer(struct pairs_bisect *b, const bool *slow)
{
    int count = b->count;
    AUTO(free) struct place *places = b->places;
    b->places = xcalloc((size_t)b->n + 1, sizeof *b->places);
    b->count = 0;
    for (int i = 0; i < count; i++) {
        struct place halves[2], *p = &places[i];
        groups_of(halves, p);
        if (slow[2 * i])
            keep(b, &halves[0]);
        if (slow[2 * i + 1])
            keep(b, &halves[1]);
        if (slow[2 * i] || slow[2 * i + 1])
            continue;
        if (p->ask == HALVES)
            keep(b, &(struct place){ACROSS, halves[0].a0, halves[0].a1, halves[1].a0, p->a1});
        else if (p->ask == ACROSS)
            keep(b, &(struct place){CROSSED, p->a0, p->a1, p->b0, p->b1});
    }
}

bool pairs_bisect_suspects(const struct pairs_bisect *b, int node)
{
    return b->suspects[node];
}
