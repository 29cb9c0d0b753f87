#include "launcher/doctor/core/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

const char *check_state_name(enum check_state s)
{
    static const char *const names[CHECK_STATES] = {"ok", "warn", "fail", "skip"};
    return names[s];
}

void check_result_clear(struct check_result *r)
{
    free(r->value);
    free(r->want);
    free(r->source);
    free(r->advice);
    *r = (struct check_result){0};
}

static char *format(const char *fmt, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, fmt, args) < 0 ? xstrdup("?") : text;
}

static void set(struct check_result *r, enum check_state s, const char *want, const char *source)
{
    check_result_clear(r);
    r->state = s;
    r->want = want ? xstrdup(want) : NULL;
    r->source = source ? xstrdup(source) : NULL;
}

void check_ok(struct check_result *r, const char *source, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set(r, CHECK_OK, NULL, source);
    r->value = format(fmt, args);
    va_end(args);
}

void check_skip(struct check_result *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set(r, CHECK_SKIP, NULL, NULL);
    r->value = format(fmt, args);
    va_end(args);
}

void check_bad(struct check_result *r, enum check_state s, const char *want, const char *source,
               const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set(r, s, want, source);
    r->value = format(fmt, args);
    va_end(args);
}

void check_advise(struct check_result *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    free(r->advice);
    r->advice = format(fmt, args);
    va_end(args);
}

const struct check *check_find(const char *id)
{
    size_t n;
    const struct check *rows = check_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    return NULL;
}
