#include "common/wait_line.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"

enum { FIRST_MS = 2000, SECOND_MS = 1000, INTERVAL_MAX_MS = 60000 };

void wait_line_begin(struct wait_line *w, int64_t now_ms)
{
    *w = (struct wait_line){.began_ms = now_ms, .due_ms = now_ms + FIRST_MS};
}

bool wait_line_due(struct wait_line *w, int64_t now_ms)
{
    int64_t waited_ms = now_ms - w->began_ms;
    if (now_ms < w->due_ms)
        return false;
    w->due_ms = now_ms + (log_has_status()              ? SECOND_MS
                          : waited_ms < INTERVAL_MAX_MS ? waited_ms
                                                        : INTERVAL_MAX_MS);
    return true;
}

void wait_line_say(const struct wait_line *w, int64_t now_ms, const char *fmt, ...)
{
    char text[1000];
    int waited_s = (int)((now_ms - w->began_ms) / 1000);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (log_has_status())
        log_status("waiting %d s: %s", waited_s, text);
    else
        log_warn("waiting %d s: %s", waited_s, text);
}
