/* kit_states - sentences about a table of common/states.h. A set of states has a bit per state. */
#pragma once

#include <stdbool.h>

#include "common/states.h"
#include "tests/unit/test.h"

#define SET(s) (1u << (s))

/* The states in which an event has a meaning. */
static inline unsigned states_with(const struct states *t, int event)
{
    unsigned set = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].event == event)
            set |= SET(t->rows[i].from);
    return set;
}

/* The states that can follow a state. */
static inline unsigned states_after(const struct states *t, int state)
{
    unsigned set = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].from == state)
            set |= SET(t->rows[i].to);
    return set;
}

/* Each event leads from each state of `from` to `to`. The events end with -1. */
static inline void states_lead(const struct states *t, unsigned from, int to, const int *events)
{
    for (; *events >= 0; events++)
        for (int s = 0; from >> s; s++)
            if ((from & SET(s)) && states_next(t, s, *events) != to)
                FAIL("%s: %s leads to %d, expected %s", states_name(t, s),
                     states_event_name(t, *events), states_next(t, s, *events), states_name(t, to));
}
#define LEAD(t, from, to, ...) states_lead(t, from, to, (const int[]){__VA_ARGS__, -1})

/* Every state is reachable from the first one, every state but those of `ends` has a way out, every
 * event has a meaning in some state, and no event has two rows in one state. */
static inline void states_check_graph(const struct states *t, int states, int events, unsigned ends)
{
    unsigned reached = SET(0);
    CHECK(states <= 32);
    for (int pass = 0; pass < states; pass++)
        for (int s = 0; s < states; s++)
            if (reached & SET(s))
                reached |= states_after(t, s);
    for (int s = 0; s < states; s++) {
        bool out = states_after(t, s) & ~SET(s);
        if (!(reached & SET(s)) || out == !!(ends & SET(s)))
            FAIL("%s: %s", states_name(t, s),
                 reached & SET(s) ? "its ways out are wrong" : "not reachable");
    }
    for (int ev = 0; ev < events; ev++)
        if (!states_with(t, ev))
            FAIL("event %d has no meaning in any state", ev);
    for (size_t i = 0; i < t->count; i++)
        for (size_t k = 0; k < i; k++)
            if (t->rows[i].from == t->rows[k].from && t->rows[i].event == t->rows[k].event)
                FAIL("%s: two rows for %s", t->rows[i].from_name, t->rows[i].event_name);
}
