#include "launcher/doctor/doctor_expect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"

/* Returns the value of a row that is ok and the same on all nodes, or NULL. */
static const char *common_value(const struct doctor_report *r, size_t row)
{
    const char *value = NULL;
    for (int i = 0; i < r->count; i++) {
        const struct check_result *c = doctor_report_result(r, i, row);
        if (!c || !c->value || c->state != CHECK_OK || (value && strcmp(value, c->value) != 0))
            return NULL;
        value = c->value;
    }
    return value;
}

int doctor_expect_write(const struct doctor_report *r, const char *path, struct err *e)
{
    const struct check *table = check_table();
    json_t *values = json_object();
    for (size_t row = 0; row < CHECKS; row++) {
        const char *value = common_value(r, row);
        if (value && table[row].compared)
            json_object_set_new(values, table[row].id, json_text(value));
    }
    AUTO(json) json_t *root = json_pack("{s:i,s:o}", "v", 1, "values", values);
    AUTO(free) char *text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    int rc = file_replace(path, text, strlen(text), 0);
    return rc < 0 ? err_set(e, rc, "--save: %s: %s", path, strerror(-rc)) : 0;
}

int doctor_expect_read(json_t **out, const char *path, struct err *e)
{
    json_error_t error;
    if (access(path, R_OK) < 0)
        return err_set(e, -errno, "--expect: %s: %s", path, strerror(errno));
    AUTO(json) json_t *root = json_load_file(path, 0, &error);
    if (!root)
        return err_set(e, -EINVAL, "--expect: %s:%d: %s", path, error.line, error.text);
    json_t *values = json_object_get(root, "values"), *value;
    const char *id;
    if (!json_is_object(values))
        return err_set(e, -EINVAL, "--expect: %s: 'values' is missing", path);
    json_object_foreach (values, id, value)
        if (!check_find(id) || !json_is_string(value))
            return err_set(e, -EINVAL,
                           "--expect: %s: '%s' is not a check, or its value is not text", path, id);
    *out = json_incref(values);
    return 0;
}

void doctor_expect_compare(struct doctor_report *r, const json_t *expected)
{
    const struct check *table = check_table();
    for (int i = 0; i < r->count; i++)
        for (size_t row = 0; r->nodes[i].results && row < CHECKS; row++) {
            struct check_result *c = &r->nodes[i].results[row];
            const char *want = json_string_value(json_object_get(expected, table[row].id));
            if (!want || !c->value || c->state != CHECK_OK || strcmp(c->value, want) == 0)
                continue;
            c->state = CHECK_WARN;
            free(c->want);
            c->want = xstrdup(want);
        }
}
