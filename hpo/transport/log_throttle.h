/* log_throttle - a warning that is logged at most once per minute, with the number of those that
 * were suppressed. For events that peers can cause at will. */
#ifndef DROVER_LOG_THROTTLE_H
#define DROVER_LOG_THROTTLE_H

#include <stdint.h>

enum { LOG_THROTTLE_MS = 60000 };

struct log_throttle { /* zeroed before its first use */
    uint64_t due_ms;  /* when the next line may be written */
    int suppressed;   /* since the last line */
};

/* Logs a warning like log_warn(). `now_ms` is the time of a monotonic clock. */
void log_throttle_warn(struct log_throttle *s, uint64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
