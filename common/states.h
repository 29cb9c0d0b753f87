/* states - life cycles as tables: one row per transition.
 *
 * A life cycle has an enumeration of states, one of events, and a table. An event that has no row
 * in the present state has no meaning there, and is dropped. A row that leads to its own state
 * means that the event has an action only. Guards are part of the event: the caller chooses the
 * event before the lookup. The owner applies the next state and then runs its action. */
#pragma once

#include <stddef.h>

struct states_row {
    unsigned char from, event, to;
    const char *from_name, *event_name, *to_name;
};

struct states {
    const struct states_row *rows;
    size_t count;
};

/* The row PREFIX_FROM, PREFIX_EV_EVENT -> PREFIX_TO. */
#define STATES_ROW(prefix, from, event, to)                                     \
    {                                                                           \
        prefix##_##from, prefix##_EV_##event, prefix##_##to, #from, #event, #to \
    }

/* The table of an array of rows. */
#define STATES_TABLE(rows)                    \
    {                                         \
        (rows), sizeof(rows) / sizeof *(rows) \
    }

/* Returns the state after `event`, or -1 if the event has no meaning in `state`. */
int states_next(const struct states *t, int state, int event);

/* Does the same, and logs the transition or the dropped event at debug level. The text, as for
 * printf(3), names the object: "rank 3". */
int states_step(const struct states *t, int state, int event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Return the name of a state or event, as the table writes it: "RUNNING"; "?" if no row has it. */
const char *states_name(const struct states *t, int state);
const char *states_event_name(const struct states *t, int event);
