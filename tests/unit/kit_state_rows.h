/* kit_state_rows - walks a whole table of transitions and compares it with the expected rows. */
#ifndef DROVER_KIT_STATE_ROWS_H
#define DROVER_KIT_STATE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/unit/test.h"

struct state_row {
    int from, event, to;
};

struct state_rows {
    int (*next)(int state, int event);
    const char *(*name)(int state);
    int states, events;
    const struct state_row *rows;
    size_t count;
};

/* The next state that the rows give; -1: there is no row. */
static inline int state_rows_next(const struct state_rows *t, int from, int event)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].from == from && t->rows[i].event == event)
            return t->rows[i].to;
    return -1;
}

/* Each row exists, and each event without a row gives -1. */
static inline void state_rows_check_all(const struct state_rows *t)
{
    for (int s = 0; s < t->states; s++)
        for (int ev = 0; ev < t->events; ev++) {
            int got = t->next(s, ev), want = state_rows_next(t, s, ev);
            if (got != want)
                FAIL("%s: event %d: %d, expected %d", t->name(s), ev, got, want);
        }
}

/* Every state is reachable from the first one, and every state but the last has a way out. */
static inline void state_rows_check_graph(const struct state_rows *t)
{
    bool reached[64] = {true};
    CHECK(t->states <= 64);
    for (int pass = 0; pass < t->states; pass++)
        for (int s = 0; s < t->states; s++)
            for (int ev = 0; reached[s] && ev < t->events; ev++)
                if (t->next(s, ev) >= 0)
                    reached[t->next(s, ev)] = true;
    for (int s = 0; s < t->states; s++) {
        bool out = false;
        for (int ev = 0; ev < t->events; ev++)
            out |= t->next(s, ev) >= 0 && t->next(s, ev) != s;
        if (!reached[s] || out == (s == t->states - 1))
            FAIL("%s: %s", t->name(s), reached[s] ? "its ways out are wrong" : "not reachable");
    }
}

/* Every state has a name of its own. */
static inline void state_rows_check_names(const struct state_rows *t)
{
    for (int s = 0; s < t->states; s++) {
        CHECK(t->name(s) && t->name(s)[0]);
        for (int other = 0; other < s; other++)
            CHECK(strcmp(t->name(s), t->name(other)) != 0);
    }
}

#endif
