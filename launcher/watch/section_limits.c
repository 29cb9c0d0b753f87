#include "launcher/watch/section_limits.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/duration.h"

void section_limits_free(struct section_limits *l)
{
    for (int i = 0; i < l->count; i++)
        free(l->at[i].name);
    free(l->at);
    *l = (struct section_limits){0};
}

static bool is_none(const char *text)
{
    return !*text || strcasecmp(text, "null") == 0 || strcasecmp(text, "none") == 0;
}

/* Limits are whole milliseconds; a shorter one is 1 ms. */
static int64_t to_ms(double seconds)
{
    const double max_s = 1e9;
    return seconds > max_s   ? (int64_t)(max_s * 1000)
           : seconds < 0.001 ? 1
                             : (int64_t)(seconds * 1000);
}

int section_limits_read_ms(int64_t *out, const char *text, struct err *e)
{
    double seconds = 0;
    if (!is_none(text)) {
        if (duration_parse(&seconds, text, e) < 0)
            return -EINVAL;
        if (seconds <= 0) {
            err_set(e, -EINVAL, "'%s' is not a time limit", text);
            return err_hint(e, "a duration such as 180 or 10m, or null for no limit");
        }
    }
    *out = seconds > 0 ? to_ms(seconds) : 0;
    return 0;
}

static struct section_limit *find(const struct section_limits *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->at[i].name, name) == 0)
            return &l->at[i];
    return NULL;
}

void section_limits_set(struct section_limits *l, const char *name, int64_t ms)
{
    struct section_limit *at = find(l, name);
    if (!at) {
        l->at = xrealloc(l->at, (size_t)l->count + 1, sizeof *l->at);
        at = &l->at[l->count++];
        at->name = xstrdup(name);
    }
    at->ms = ms;
}

/* Reads "step:180". The name may contain a colon. */
static int parse_one(struct section_limits *l, char *pair, struct err *e)
{
    char *name = pair + strspn(pair, " "), *colon = strrchr(name, ':');
    int64_t ms = 0;
    if (!colon || colon == name) {
        err_set(e, -EINVAL, "'%s' is not SECTION:TIME", pair);
        return err_hint(e, "setup:600,step:180");
    }
    *colon = '\0';
    if (find(l, name))
        return err_set(e, -EINVAL, "section '%s' is named twice", name);
    if (section_limits_read_ms(&ms, colon + 1 + strspn(colon + 1, " "), e) < 0)
        return err_wrap(e, "section '%s'", name);
    section_limits_set(l, name, ms);
    return 0;
}

int section_limits_parse(struct section_limits *l, const char *text, struct err *e)
{
    AUTO(free) char *copy = xstrdup(text);
    struct section_limits read = {0};
    int rc = 0;
    for (char *rest = copy, *pair; rc == 0 && *text && (pair = strsep(&rest, ","));)
        rc = parse_one(&read, pair, e);
    for (int i = 0; rc == 0 && i < read.count; i++)
        section_limits_set(l, read.at[i].name, read.at[i].ms);
    section_limits_free(&read);
    return rc;
}

static int read_seconds(int64_t *out, const char *key, const json_t *value, struct err *e)
{
    if (json_is_null(value)) {
        *out = 0;
        return 0;
    }
    if (!json_is_number(value) || json_number_value(value) <= 0) {
        err_set(e, -EINVAL, "%s: not a time limit", key);
        return err_hint(e, "a number of seconds, or null for no limit");
    }
    *out = to_ms(json_number_value(value));
    return 0;
}

int section_limits_read(struct section_limits *l, const json_t *from, struct err *e)
{
    static const char *const keys[SECTION_LIMITS_KINDS] = {
        [SECTION_LIMITS_OUTSIDE] = "out_of_section",
        [SECTION_LIMITS_HEARTBEAT] = "heartbeat",
        [SECTION_LIMITS_FIRST_HEARTBEAT] = "initial_heartbeat"};
    const char *name;
    const json_t *value;
    int rc = 0;
    for (int i = 1; i < SECTION_LIMITS_KINDS && rc == 0; i++)
        if ((value = json_object_get(from, keys[i])))
            rc = read_seconds(&l->other_ms[i], keys[i], value, e);
    const json_t *sections = json_object_get(from, "sections");
    if (rc == 0 && sections && !json_is_null(sections) && !json_is_object(sections))
        rc = err_set(e, -EINVAL, "sections: %s, not a mapping", json_type_name(sections));
    json_object_foreach ((json_t *)sections, name, value) {
        int64_t ms = 0;
        if (rc == 0 && (rc = read_seconds(&ms, name, value, e)) == 0)
            section_limits_set(l, name, ms);
    }
    return rc;
}

void section_limits_copy(struct section_limits *to, const struct section_limits *from)
{
    *to = *from;
    to->at = NULL;
    to->count = 0;
    for (int i = 0; i < from->count; i++)
        section_limits_set(to, from->at[i].name, from->at[i].ms);
}

void section_limits_raise(struct section_limits *to, const struct section_limits *from)
{
    for (int i = 0; i < SECTION_LIMITS_KINDS; i++)
        if (from->other_ms[i] > to->other_ms[i])
            to->other_ms[i] = from->other_ms[i];
    for (int i = 0; i < from->count; i++)
        if (from->at[i].ms > section_limits_of(to, from->at[i].name))
            section_limits_set(to, from->at[i].name, from->at[i].ms);
}

static int64_t learn(int64_t longest_ms, double factor, int64_t min_ms)
{
    int64_t ms = to_ms((double)longest_ms / 1000 * factor);
    return ms > min_ms ? ms : min_ms;
}

void section_limits_learn(struct section_limits *l, const struct section_limits *longest,
                          double factor, int64_t min_ms)
{
    for (int i = 0; i < SECTION_LIMITS_KINDS; i++)
        if (l->other_ms[i] == 0 && longest->other_ms[i] > 0)
            l->other_ms[i] = learn(longest->other_ms[i], factor, min_ms);
    for (int i = 0; i < longest->count; i++)
        if (!find(l, longest->at[i].name) && longest->at[i].ms > 0)
            section_limits_set(l, longest->at[i].name, learn(longest->at[i].ms, factor, min_ms));
}

int64_t section_limits_of(const struct section_limits *l, const char *name)
{
    const struct section_limit *at = find(l, name);
    return at ? at->ms : 0;
}

bool section_limits_any(const struct section_limits *l)
{
    bool any = false;
    for (int i = 0; i < SECTION_LIMITS_KINDS; i++)
        any |= l->other_ms[i] > 0;
    for (int i = 0; i < l->count; i++)
        any |= l->at[i].ms > 0;
    return any;
}
