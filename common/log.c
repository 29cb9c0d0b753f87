#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2000 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *program = "drover";
static enum log_level max_level = LOG_WARN;
static void (*line_sink)(void *arg, const char *line); /* NULL: stderr */
static void *sink_arg;
static bool status_shown;

static const char erase[] = "\r\033[K";

void log_open(const char *program_name)
{
    program = program_name;
    const char *value = getenv("DROVER_LOG");
    if (!value || !*value)
        return;
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (strcmp(value, level_names[i]) == 0) {
            max_level = (enum log_level)i;
            return;
        }
    log_warn("DROVER_LOG='%s': must be error, warn, info or debug", value);
}

void log_set_level(enum log_level level)
{
    max_level = level;
}

void log_set_sink(void (*sink)(void *arg, const char *line), void *arg)
{
    line_sink = sink;
    sink_arg = arg;
}

bool log_shows(enum log_level level)
{
    return level <= max_level;
}

const char *log_program(void)
{
    return program;
}

bool log_has_status(void)
{
    const char *term = getenv("TERM");
    return !line_sink && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void log_status(const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    struct winsize size = {0};
    va_list ap;
    if (!fmt && !status_shown)
        return;
    int n = snprintf(line, sizeof line, "%s%s", erase, fmt ? program : "");
    if (fmt) {
        size_t used = (size_t)snprintf(line + n, sizeof line - (size_t)n, ": ") + (size_t)n;
        va_start(ap, fmt);
        vsnprintf(line + used, sizeof line - used, fmt, ap);
        va_end(ap);
        (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size); /* on failure the size stays 0 */
        size_t columns = size.ws_col > 1 ? size.ws_col - 1U : 79;
        if (columns < sizeof line - sizeof erase)
            line[sizeof erase - 1 + columns] = '\0'; /* a longer one would take a second line */
    }
    (void)!write(STDERR_FILENO, line, strlen(line)); /* failures cannot be reported */
    status_shown = fmt != NULL;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > max_level)
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES + 1];
    int n = snprintf(line, LINE_MAX_BYTES / 2, "%s: %s: ", program, level_names[level]);
    size_t prefix_len = n < LINE_MAX_BYTES / 2 ? (size_t)n : LINE_MAX_BYTES / 2 - 1;
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + prefix_len, LINE_MAX_BYTES - prefix_len, fmt, ap);
    va_end(ap);
    size_t len = prefix_len + (size_t)(m > 0 ? m : 0);
    if (len > LINE_MAX_BYTES - 1) {
        len = LINE_MAX_BYTES - 1;
        memset(line + len - 3, '.', 3);
    }
    /* The text may come from ranks and workers. It must not start a second line or contain terminal
     * escapes. */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[len] = '\n';
    line[len + 1] = 0;
    log_status(NULL);
    if (line_sink)
        line_sink(sink_arg, line);
    else
        (void)!write(STDERR_FILENO, line, len + 1); /* failures cannot be reported */
    errno = saved;
}
