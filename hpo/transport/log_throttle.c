#include "hpo/transport/log_throttle.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"
#include "common/plural.h"

void log_throttle_warn(struct log_throttle *s, uint64_t now_ms, const char *fmt, ...)
{
    if (now_ms < s->due_ms) {
        s->suppressed++;
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (s->suppressed)
        log_warn("%s (%d similar warning%s suppressed)", text, s->suppressed,
                 plural_s(s->suppressed));
    else
        log_warn("%s", text);
    s->due_ms = now_ms + LOG_THROTTLE_MS;
    s->suppressed = 0;
}
