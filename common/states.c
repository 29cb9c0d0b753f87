#include "common/states.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"

int states_next(const struct states *t, int state, int event)
{
    for (const struct states_row *r = t->rows; r < t->rows + t->count; r++)
        if (r->from == state && r->event == event)
            return r->to;
    return -1;
}

const char *states_name(const struct states *t, int state)
{
    for (const struct states_row *r = t->rows; r < t->rows + t->count; r++)
        if (r->from == state || r->to == state)
            return r->from == state ? r->from_name : r->to_name;
    return "?";
}

const char *states_event_name(const struct states *t, int event)
{
    for (const struct states_row *r = t->rows; r < t->rows + t->count; r++)
        if (r->event == event)
            return r->event_name;
    return "?";
}

int states_step(const struct states *t, int state, int event, const char *fmt, ...)
{
    int next = states_next(t, state, event);
    if (!log_shows(LOG_DEBUG) || next == state)
        return next;
    char object[100]; /* a longer one is cut */
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(object, sizeof object, fmt, args);
    va_end(args);
    log_debug("%s: %s in %s: %s", object, states_event_name(t, event), states_name(t, state),
              next < 0 ? "dropped" : states_name(t, next));
    return next;
}
