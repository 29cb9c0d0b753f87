#include "hpo/space/param_text.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/yaml.h"
#include "common/yaml_scalar.h"

static int read_flow(json_t **out, const char *text, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    if (json_parse(out, text, strlen(text), NULL) == 0)
        return 0;
    if (yaml_read(&doc, text, strlen(text), "the value", NULL, e) < 0)
        return -EINVAL;
    *out = json_incref((json_t *)yaml_root(doc)); /* counting references changes no value */
    return 0;
}

int param_text_value(json_t **out, const char *text, struct err *e)
{
    const char *why = NULL;
    text += strspn(text, " \t");
    if (*text && strchr("[{\"'!", *text))
        return read_flow(out, text, e);
    AUTO(free) char *plain = xstrdup(text);
    for (size_t n = strlen(plain); n > 0 && strchr(" \t", plain[n - 1]); n--)
        plain[n - 1] = 0;
    json_t *value = yaml_scalar(plain, &why);
    if (!value)
        return err_set(e, -EINVAL, "the value %s", why ? why : "is not UTF-8");
    *out = value;
    return 0;
}

void param_text_add(struct strbuf *b, const json_t *value)
{
    const char *text = json_string_value(value);
    AUTO(json) json_t *read = NULL;
    AUTO(free) char *line = json_line(value);
    bool plain = text && param_text_value(&read, text, NULL) == 0 && json_equal(read, value);
    strbuf_puts(b, plain ? text : line);
}

/* Sets "optimizer.lr" in its group. Takes over `value`.
 *   -EINVAL  the parameter has a value, or one of its groups has one */
static int set_param(json_t *params, char *name, json_t *value)
{
    for (char *dot; json_is_object(params) && (dot = strchr(name, '.')); name = dot + 1) {
        *dot = 0;
        if (!json_object_get(params, name))
            json_object_set_new(params, name, json_object());
        params = json_object_get(params, name);
    }
    bool known = !json_is_object(params) || json_object_get(params, name);
    if (known)
        json_decref(value);
    else
        json_object_set_new(params, name, value);
    return known ? -EINVAL : 0;
}

int param_text_set(json_t **out, char *const *words, struct err *e)
{
    AUTO(json) json_t *params = json_object();
    for (; words && *words; words++) {
        AUTO(free) char *name = xstrdup(*words);
        char *value = strchr(name, '=');
        json_t *v = NULL;
        if (!value || value == name || !value[1])
            return err_set(e, -EINVAL, "'%s': not of the form NAME=VALUE", *words);
        *value++ = 0;
        if (param_text_value(&v, value, e) < 0)
            return err_wrap(e, "'%s'", *words);
        if (set_param(params, name, v) < 0)
            return err_set(e, -EINVAL, "'%s': this parameter is given twice", *words);
    }
    *out = TAKE(params);
    return 0;
}
