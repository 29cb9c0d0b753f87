#include "profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 10 };

static void add(struct profile *p, const char *name, double ms)
{
    int i = 0;
    while (i < p->rows && strcmp(p->row[i].name, name) != 0)
        i++;
    if (i == PROFILE_ROWS)
        return;
    if (i == p->rows)
        p->row[p->rows++] = (struct profile_row){.name = name};
    p->row[i].ms += ms;
    p->row[i].calls++;
}

void profile_begin(struct profile *p, int on)
{
    p->on = on;
    p->used = 0;
    if (on)
        p->ops->mark(p->dev, PROFILE_FIRST, 0);
}

void profile_operation(struct profile *p, const char *name)
{
    if (!p->on)
        return;
    p->name[++p->used] = name;
    p->ops->mark(p->dev, PROFILE_FIRST + p->used, 0);
    if (PROFILE_FIRST + p->used < OPS_MARKS - 1)
        return;
    profile_end(p);
    profile_begin(p, 1);
}

void profile_end(struct profile *p)
{
    for (int i = 1; i <= p->used; i++)
        add(p, p->name[i], p->ops->between(p->dev, PROFILE_FIRST + i - 1, PROFILE_FIRST + i));
    p->on = p->used = 0;
}

static int slower_first(const void *a, const void *b)
{
    double x = ((const struct profile_row *)a)->ms, y = ((const struct profile_row *)b)->ms;
    return (x < y) - (x > y);
}

void profile_print(struct profile *p)
{
    double total = 0;
    qsort(p->row, (size_t)p->rows, sizeof *p->row, slower_first);
    for (int i = 0; i < p->rows; i++)
        total += p->row[i].ms;
    for (int i = 0; i < p->rows && i < TOP; i++)
        printf("profile  %-20s %8ld calls %10.3f ms %5.1f %%\n", p->row[i].name, p->row[i].calls,
               p->row[i].ms, 100 * p->row[i].ms / total);
}
