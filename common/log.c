#include "common/log.h"

#include <errno.h>
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
    if (!want || !*want)
        return;
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (strcmp(want, names[i]) == 0) {
            limit = (enum log_level)i;
            return;
        }
    log_warn("DROVER_LOG='%s' is none of error, warn, info, debug", want);
}

void log_set_level(enum log_level level)
{
    limit = level;
}

bool log_shows(enum log_level level)
{
    return level <= limit;
}

const char *log_program(void)
{
    return speaker;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > limit)
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, LINE_MAX_BYTES / 2, "%s: %s: ", speaker, names[level]);
    size_t head = n < LINE_MAX_BYTES / 2 ? (size_t)n : LINE_MAX_BYTES / 2 - 1;
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + head, LINE_MAX_BYTES - head, fmt, ap);
    va_end(ap);
    size_t len = head + (size_t)(m > 0 ? m : 0);
    if (len > LINE_MAX_BYTES - 1) {
        len = LINE_MAX_BYTES - 1;
        memcpy(line + len - 3, "...", 3);
    }
    /* texts of ranks and workers come through here: no second line, no terminal's escapes */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[len] = '\n';
    (void)!write(STDERR_FILENO, line, len + 1); /* nowhere is left to say that stderr is gone */
    errno = saved;
}
