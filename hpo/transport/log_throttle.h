/* seldom - a warning once a minute at most, with how many were left out: for what strangers cause.
 */
#ifndef DROVER_LOG_THROTTLE_H
#define DROVER_LOG_THROTTLE_H

#include <stdint.h>

enum { LOG_THROTTLE_MS = 60000 };

struct log_throttle { /* zeroed before its first use */
    uint64_t due_ms;  /* when the next line may be written */
    int unsaid;
};

/* As log_warn(). `now_ms`: of any clock that does not go back. */
void log_throttle_warn(struct log_throttle *s, uint64_t now_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
