#include "hpo/trial/metric_parse.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

enum { LINE_MAX_BYTES = 64 * 1024, PATTERN_LINE_MAX = 4096, VALUES_MAX = 1024 };

struct metric_parse {
    struct metric_pattern {
        char *name;
        regex_t regex;
    } * patterns;
    size_t count;
};

int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e)
{
    AUTO(metric_parse) struct metric_parse *m = xzalloc(sizeof *m);
    m->patterns = xcalloc(json_object_size(patterns), sizeof *m->patterns);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)patterns, name,
                         value) { /* the macro reads only, but takes no const */
        struct metric_pattern *p = &m->patterns[m->count];
        const char *pattern = json_string_value(value);
        int rc = pattern ? regcomp(&p->regex, pattern, REG_EXTENDED) : REG_BADPAT;
        if (rc != 0) {
            char reason[128];
            regerror(rc, &p->regex, reason, sizeof reason);
            return err_set(e, -EINVAL, "pattern '%s' of '%s': %s", pattern ? pattern : "", name,
                           reason);
        }
        p->name = xstrdup(name);
        m->count++;
    }
    *out = TAKE(m);
    return 0;
}

void metric_parse_free(struct metric_parse *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        regfree(&m->patterns[i].regex);
        free(m->patterns[i].name);
    }
    free(m->patterns);
    free(m);
}

/* Python's words for numbers that JSON does not have, and what json_number() writes for them. */
static const struct {
    const char *python, *json;
} not_finite[] = {{"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}, {"NaN", "\"nan\""}};

/* Appends the text with these words replaced, except inside of strings. */
static void replace_not_finite(struct strbuf *out, const char *text, size_t len)
{
    bool in_string = false;
    for (size_t i = 0; i < len;) {
        size_t n = in_string && text[i] == '\\' && i + 1 < len ? 2 : 1;
        const char *replacement = NULL;
        for (size_t w = 0; !in_string && !replacement && w < COUNT_OF(not_finite); w++) {
            size_t word = strlen(not_finite[w].python);
            if (word > len - i || memcmp(text + i, not_finite[w].python, word) != 0)
                continue;
            n = word;
            replacement = not_finite[w].json;
        }
        if (text[i] == '"')
            in_string = !in_string;
        strbuf_add(out, replacement ? replacement : text + i,
                   replacement ? strlen(replacement) : n);
        i += n;
    }
}

static json_t *parse(const char *text, size_t len)
{
    json_t *j = json_loadb(text, len, 0, NULL);
    if (j)
        return j;
    AUTO(strbuf) struct strbuf replaced = {0};
    replace_not_finite(&replaced, text, len);
    return json_loadb(replaced.data, replaced.len, 0, NULL);
}

json_t *metric_parse_from_json(const char *text, size_t len)
{
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    if (len < 2 || len > LINE_MAX_BYTES || *text != '{')
        return NULL;
    json_t *j = parse(text, len), *report = NULL;
    const char *name;
    json_t *v;
    json_object_foreach (j, name, v) {
        double number;
        if (json_as_number(&number, v) < 0 || json_object_size(report) >= VALUES_MAX)
            continue;
        if (!report)
            report = json_object();
        json_object_set(report, name, v);
    }
    json_decref(j);
    return report;
}

/* Returns the value that the pattern finds in the line; NULL: none. */
static json_t *find(const struct metric_pattern *p, const char *line)
{
    regmatch_t at[2];
    if (regexec(&p->regex, line, 2, at, 0) != 0)
        return NULL;
    regmatch_t hit = p->regex.re_nsub > 0 ? at[1] : at[0];
    if (hit.rm_so < 0)
        return NULL;
    AUTO(free) char *digits = xstrndup(line + hit.rm_so, (size_t)(hit.rm_eo - hit.rm_so));
    char *end;
    double value = strtod(digits, &end);
    end += strspn(end, " \t\r");
    return end == digits || *end ? NULL : json_number(value);
}

json_t *metric_parse_from_pattern(const struct metric_parse *m, const char *text, size_t len)
{
    if (m->count == 0 || len > PATTERN_LINE_MAX)
        return NULL;
    AUTO(free) char *line = xstrndup(text, len);
    json_t *report = NULL;
    for (size_t i = 0; i < m->count; i++) {
        json_t *value = find(&m->patterns[i], line);
        if (value && !report)
            report = json_object();
        if (value)
            json_object_set_new(report, m->patterns[i].name, value);
    }
    return report;
}
