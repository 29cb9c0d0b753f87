#include "hpo/sweep/metric.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

enum { LINE_MAX_BYTES = 64 * 1024, PATTERN_LINE_MAX = 4096, VALUES_MAX = 1024 };

struct metric {
    char *name; /* NULL where there is no pattern */
    regex_t pattern;
};

int metric_new(struct metric **out, const char *name, const char *pattern, struct err *e)
{
    AUTO(metric) struct metric *m = xzalloc(sizeof *m);
    if (pattern && !name)
        return err_set(e, -EINVAL, "metric.pattern needs metric.name");
    if (pattern) {
        int rc = regcomp(&m->pattern, pattern, REG_EXTENDED);
        if (rc != 0) {
            char why[128];
            regerror(rc, &m->pattern, why, sizeof why);
            return err_set(e, -EINVAL, "metric.pattern '%s': %s", pattern, why);
        }
        m->name = xstrdup(name);
    }
    *out = TAKE(m);
    return 0;
}

void metric_free(struct metric *m)
{
    if (!m)
        return;
    if (m->name)
        regfree(&m->pattern);
    free(m->name);
    free(m);
}

/* Python's words for what JSON has no numbers for, and json_number()'s. */
static const struct {
    const char *python, *ours;
} not_finite[] = {{"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}, {"NaN", "\"nan\""}};

/* The text with these words replaced, outside of strings. */
static void replace_not_finite(struct strbuf *out, const char *text, size_t len)
{
    bool in_string = false;
    for (size_t i = 0; i < len;) {
        size_t n = in_string && text[i] == '\\' && i + 1 < len ? 2 : 1;
        const char *instead = NULL;
        for (size_t w = 0; !in_string && !instead && w < COUNT_OF(not_finite); w++) {
            size_t word = strlen(not_finite[w].python);
            if (word > len - i || memcmp(text + i, not_finite[w].python, word) != 0)
                continue;
            n = word;
            instead = not_finite[w].ours;
        }
        if (text[i] == '"')
            in_string = !in_string;
        strbuf_add(out, instead ? instead : text + i, instead ? strlen(instead) : n);
        i += n;
    }
}

static json_t *parse(const char *text, size_t len)
{
    json_t *j = json_loadb(text, len, 0, NULL);
    if (j)
        return j;
    AUTO(strbuf) struct strbuf said = {0};
    replace_not_finite(&said, text, len);
    return json_loadb(said.data, said.len, 0, NULL);
}

json_t *metric_from_json(const char *text, size_t len)
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

json_t *metric_from_pattern(const struct metric *m, const char *text, size_t len)
{
    if (!m->name || len > PATTERN_LINE_MAX)
        return NULL;
    AUTO(free) char *line = xstrndup(text, len);
    regmatch_t at[2];
    if (regexec(&m->pattern, line, 2, at, 0) != 0)
        return NULL;
    regmatch_t hit = m->pattern.re_nsub > 0 ? at[1] : at[0];
    if (hit.rm_so < 0)
        return NULL;
    line[hit.rm_eo] = 0;
    const char *digits = line + hit.rm_so;
    char *end;
    double value = strtod(digits, &end);
    end += strspn(end, " \t\r");
    if (end == digits || *end)
        return NULL;
    return json_pack("{so}", m->name, json_number(value));
}
