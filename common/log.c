#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2000 };

static const char *const names[] = {"error", "warn", "info", "debug"};
static const char *speaker = "drover";
static enum log_level limit = LOG_WARN;

void log_open(const char *who)
{
    speaker = who;
    const char *want = getenv("DROVER_LOG");
    for (int i = LOG_ERROR; want && i <= LOG_DEBUG; i++)
        if (strcmp(want, names[i]) == 0)
            limit = (enum log_level)i;
}

void log_set_level(enum log_level level)
{
    limit = level;
}

const char *log_who(void)
{
    return speaker;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > limit)
        return;
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, sizeof line, "%s: %s: ", speaker, names[level]);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (size_t)(m > 0 ? m : 0);
    if (len > sizeof line - 1)
        len = sizeof line - 1;
    line[len] = '\n';
    (void)!write(STDERR_FILENO, line, len + 1); /* nowhere is left to say that stderr is gone */
}
