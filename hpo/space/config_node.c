#include "hpo/space/config_node.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "common/yaml.h"

struct config_node config_node_root(const struct yaml_doc *doc)
{
    return (struct config_node){.doc = doc, .value = yaml_root(doc)};
}

struct config_node config_node_of_json(const json_t *value)
{
    return (struct config_node){.value = value};
}

/* Appends "/key" to the path. '~' and '/' in the key are escaped as in JSON pointers. */
static void path_add(char *path, size_t cap, const char *key)
{
    size_t len = strlen(path);
    if (len + 1 < cap)
        path[len++] = '/';
    for (; *key && len + 2 < cap; key++) {
        bool escape = *key == '~' || *key == '/';
        if (escape)
            path[len++] = '~';
        path[len++] = *key == '~' ? '0' : *key == '/' ? '1' : *key;
    }
    path[len] = '\0';
}

struct config_node config_node_member(const struct config_node *n, const char *key)
{
    struct config_node m = *n;
    m.value = json_object_get(n->value, key);
    path_add(m.path, sizeof m.path, key);
    return m;
}

struct config_node config_node_item(const struct config_node *n, size_t i)
{
    struct config_node m = *n;
    char number[24];
    snprintf(number, sizeof number, "%zu", i);
    m.value = json_array_get(n->value, i);
    path_add(m.path, sizeof m.path, number);
    return m;
}

bool config_node_has(const struct config_node *n, const char *key)
{
    return json_object_get(n->value, key) != NULL;
}

int config_node_error(const struct config_node *n, struct err *e, const char *fmt, ...)
{
    char text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n->doc)
        return yaml_error_at(n->doc, n->path, e, -EINVAL, "%s", text);
    return n->path[0] ? err_set(e, -EINVAL, "%s: %s", n->path, text)
                      : err_set(e, -EINVAL, "%s", text);
}

/* Returns 0 if `rc` is. Otherwise sets `e` to the failure `cause`, with the position of the member,
 * and returns -EINVAL. */
static int at_member(const struct config_node *n, const char *key, int rc, const struct err *cause,
                     struct err *e)
{
    struct config_node m = config_node_member(n, key);
    return rc < 0 ? config_node_error(&m, e, "%s", cause->text) : 0;
}

int config_node_int(int *out, const struct config_node *n, const char *key, int min, int max,
                    struct err *e)
{
    struct err cause = {0};
    int64_t v = *out;
    int rc = json_optional_int(&v, n->value, key, &cause);
    if (rc == 0 && config_node_has(n, key) && (v < min || v > max))
        rc = err_set(&cause, -EINVAL, "'%s' must be from %d to %d, not %lld", key, min, max,
                     (long long)v);
    if (rc == 0)
        *out = (int)v;
    return at_member(n, key, rc, &cause, e);
}

int config_node_real(double *out, const struct config_node *n, const char *key, struct err *e)
{
    struct err cause = {0};
    return at_member(n, key, json_optional_real(out, n->value, key, &cause), &cause, e);
}

int config_node_bool(bool *out, const struct config_node *n, const char *key, struct err *e)
{
    struct err cause = {0};
    return at_member(n, key, json_optional_bool(out, n->value, key, &cause), &cause, e);
}

int config_node_text(char **out, const struct config_node *n, const char *key, struct err *e)
{
    struct err cause = {0};
    const char *text = NULL;
    int rc = json_optional_str(&text, n->value, key, &cause);
    if (text) {
        free(*out);
        *out = xstrdup(text);
    }
    return at_member(n, key, rc, &cause, e);
}

int config_node_only_keys(const struct config_node *n, const char *const *names, size_t count,
                          const char *where, struct err *e)
{
    struct err cause = {0};
    if (!json_is_object(n->value))
        return config_node_error(n, e, "%s must be a mapping, not %s", where,
                                 json_type_name(n->value));
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)n->value, key, value) { /* the macro rejects const pointers */
        AUTO(json) json_t *one = json_object();
        json_object_set(one, key, value);
        if (json_only_keys(one, names, count, where, &cause) < 0) {
            int rc = at_member(n, key, -EINVAL, &cause, e);
            return cause.hint[0] ? err_hint(e, "%s", cause.hint) : rc;
        }
    }
    return 0;
}

int config_node_hint(const struct config_node *n, struct err *e, const char *key, const char *word,
                     const char *const *names, size_t count)
{
    AUTO(strbuf) struct strbuf text = {0};
    const char *near = word ? opt_suggest(word, names, count) : NULL;
    for (size_t i = 0; !near && i < count; i++)
        strbuf_printf(&text, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", names[i]);
    return near ? err_hint(e, n->doc ? "%s: %s" : "\"%s\":\"%s\"", key, near)
                : err_hint(e, "%s", strbuf_str(&text));
}
