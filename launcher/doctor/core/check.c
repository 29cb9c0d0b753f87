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

void check_bad(struct check_result *r, enum check_state s, const char *want, const char *source,
               const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    check_result_clear(r);
    *r = (struct check_result){.state = s,
                               .value = xvasprintf(fmt, args),
                               .want = want ? xstrdup(want) : NULL,
                               .source = source ? xstrdup(source) : NULL};
    va_end(args);
}

void check_advise(struct check_result *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    free(r->advice);
    r->advice = xvasprintf(fmt, args);
    va_end(args);
}

static json_t *text_or_null(const char *text)
{
    return text ? json_text(text) : json_null();
}

json_t *check_result_json(const struct check_result *r, const char *id, const char *advice)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:i}", "id", id, "state", check_state_name(r->state),
                     "value", json_text(r->value ? r->value : ""), "want", text_or_null(r->want),
                     "source", text_or_null(r->source), "advice",
                     text_or_null(r->advice ? r->advice : advice), "ms", r->ms);
}

static char *take_text(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? xstrdup(text) : NULL;
}

void check_result_read(struct check_result *out, const json_t *o)
{
    const char *state = json_string_value(json_object_get(o, "state"));
    for (int s = 0; state && s < CHECK_STATES; s++)
        if (strcmp(state, check_state_name((enum check_state)s)) == 0)
            out->state = (enum check_state)s;
    out->value = take_text(o, "value");
    out->want = take_text(o, "want");
    out->source = take_text(o, "source");
    out->advice = take_text(o, "advice");
    out->ms = (int)json_integer_value(json_object_get(o, "ms"));
}

const struct check *check_find(const char *id)
{
    const struct check *rows = check_table();
    for (size_t i = 0; i < CHECKS; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    return NULL;
}
