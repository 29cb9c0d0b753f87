#include "hpo/trial/metric_parse.h"

#include <errno.h>
#include <regex.h>
#include <string.h>

#include "common/json.h"
#include "hpo/trial/pattern_check.h"

enum {
    /* glibc tries each start in the line and keeps each set of places in the pattern that it meets.
     * Its time grows with the square of the line's length, and with the number of places. These
     * limits and those of pattern_check.c bound both. The slowest pattern that was tried takes
     * 1.7 s and 150 MB per line; usual patterns take some µs. */
    PATTERN_LINE_MAX = 1024,
    PATTERN_TEXT_MAX = 16 << 10 /* bytes of lines, after which the kept sets are freed */
};

struct metric_parse {
    struct metric_pattern {
        char *name, *text;
        regex_t regex;
        regex_t any; /* ^.*(text): rejects a line in one pass, from its start only */
    } * patterns;
    size_t count;
    size_t searched; /* bytes of lines since the patterns were compiled */
};

/* ---- patterns ------------------------------------------------------------------------------- */

static int compile(struct metric_pattern *p, struct err *e)
{
    AUTO(free) char *any = xasprintf("^.*(%s)", p->text);
    int rc = regcomp(&p->regex, p->text, REG_EXTENDED);
    if (rc == 0 && (rc = regcomp(&p->any, any, REG_EXTENDED | REG_NOSUB)) != 0)
        regfree(&p->regex);
    if (rc == 0)
        return 0;
    char reason[128];
    regerror(rc, &p->regex, reason, sizeof reason);
    return err_set(e, -EINVAL, "pattern '%s' of '%s': %s", p->text, p->name, reason);
}

static void free_compiled(struct metric_pattern *p)
{
    regfree(&p->regex);
    regfree(&p->any);
}

int metric_parse_new(struct metric_parse **out, const json_t *patterns, struct err *e)
{
    AUTO(metric_parse) struct metric_parse *m = xzalloc(sizeof *m);
    m->patterns = xcalloc(json_object_size(patterns), sizeof *m->patterns);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)patterns, name, value) { /* the macro rejects const pointers */
        const char *text = json_string_value(value);
        const char *excess = text ? pattern_check(text) : "not a text";
        if (excess)
            return err_set(e, -EINVAL, "pattern '%.40s%s' of '%s': %s", text ? text : "",
                           text && strlen(text) > 40 ? "…" : "", name, excess);
        struct metric_pattern p = {.name = (char *)name, .text = (char *)text};
        int rc = compile(&p, e);
        if (rc < 0)
            return rc;
        p.name = xstrdup(name);
        p.text = xstrdup(text);
        m->patterns[m->count++] = p;
    }
    *out = TAKE(m);
    return 0;
}

void metric_parse_free(struct metric_parse *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        free_compiled(&m->patterns[i]);
        free(m->patterns[i].name);
        free(m->patterns[i].text);
    }
    free(m->patterns);
    free(m);
}

/* Returns the number that the pattern finds in the line (new reference), or NULL if it finds
 * none. */
static json_t *find(const struct metric_pattern *p, const char *line)
{
    regmatch_t at[2];
    if (regexec(&p->any, line, 0, NULL, 0) != 0 || regexec(&p->regex, line, 2, at, 0) != 0)
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

/* Compiles the patterns anew, which frees the sets of places that the searches have kept. */
static void forget_searches(struct metric_parse *m)
{
    for (size_t i = 0; i < m->count; i++) {
        struct err e = {0};
        free_compiled(&m->patterns[i]);
        if (compile(&m->patterns[i], &e) < 0)
            abort(); /* no memory */
    }
    m->searched = 0;
}

json_t *metric_parse_from_pattern(struct metric_parse *m, const char *text, size_t len)
{
    if (m->count == 0 || len > PATTERN_LINE_MAX)
        return NULL;
    if ((m->searched += len) > PATTERN_TEXT_MAX)
        forget_searches(m);
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
