#include "hpo/trial/metric_parse.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>

#include "common/json.h"

enum { PATTERN_LINE_MAX = 4096 };

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
    json_object_foreach ((json_t *)patterns, name, value) { /* the macro rejects const pointers */
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

/* Returns the number that the pattern finds in the line (new reference), or NULL if it finds none.
 */
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
