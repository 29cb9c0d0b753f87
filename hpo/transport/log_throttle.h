/* log_throttle - logs a warning at most once per minute, with the number of warnings suppressed
 * since the last one. For events that a peer can cause at any rate. */
#pragma once

#include <stdint.h>

enum { LOG_THROTTLE_MS = 60000 };

struct log_throttle { /* must be zeroed before its first use */
    uint64_t due_ms;  /* time from which on the next warning is logged */
    int suppressed;   /* number of warnings suppressed since the last one */
};

/* Logs a warning as log_warn() does, or suppresses it. `now_ms` is the time of a monotonic
 * clock. */
void log_throttle_warn(struct log_throttle *s, uint64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
