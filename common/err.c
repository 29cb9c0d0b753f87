#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CONTEXT_MIN = 128, /* characters of a context that stay before any cause */
    OUTER_MIN = 64,    /* characters that a cut context leaves for contexts around it */
};

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (!e)
        return code;
    e->code = code;
    e->hint[0] = '\0';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return code;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -EIO;
    char context[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    size_t cause_len = strlen(e->text), room = sizeof e->text - OUTER_MIN;
    room = room - CONTEXT_MIN < cause_len ? CONTEXT_MIN : room - cause_len;
    if (strlen(context) > room)
        strcpy(context + room - strlen("..."), "...");
    char wrapped[2 * sizeof e->text + 2];
    snprintf(wrapped, sizeof wrapped, "%s: %s", context, e->text);
    wrapped[sizeof e->text - 1] = '\0';
    memcpy(e->text, wrapped, strlen(wrapped) + 1);
    return e->code;
}

int err_hint(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -EIO;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return e->code;
}

void err_print(const struct err *e, const char *program)
{
    fprintf(stderr, "%s: %s\n", program, e->text);
    if (e->hint[0])
        fprintf(stderr, "  try: %s\n", e->hint);
}
