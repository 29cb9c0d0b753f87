/* wait_line - says on stderr what this process waits for: after 2 s, and then again.
 *
 * On a terminal this is one line, which is rewritten each second and disappears with the next
 * message (log_status()). Elsewhere these are lines at growing intervals, 1 minute at most. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A plain value. Times are of any monotonic clock. */
struct wait_line {
    int64_t began_ms, due_ms;
};

/* A wait begins. */
void wait_line_begin(struct wait_line *w, int64_t now_ms);
/* Returns true if it is time for wait_line_say(), and sets the next time. To be called at least
 * each second. */
bool wait_line_due(struct wait_line *w, int64_t now_ms);
/* Says for how long this has lasted, and the text: "waiting 4 s: no answer from c02". */
void wait_line_say(const struct wait_line *w, int64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
