#include "hpo/transport/log_throttle.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"

void log_throttle_warn(struct log_throttle *s, uint64_t now_ms, const char *fmt, ...)
{
    if (now_ms < s->due_ms) {
        s->unsaid++;
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (s->unsaid)
        log_warn("%s; and %d like it before", text, s->unsaid);
    else
        log_warn("%s", text);
    s->due_ms = now_ms + LOG_THROTTLE_MS;
    s->unsaid = 0;
}
