/* import_csv - trials from a table: of `sweep show --csv`, of Optuna's trials_dataframe(), of Ray's
 * get_dataframe(), of W&B's page, or of a spreadsheet. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "hpo/exchange/import_read.h"
#include "hpo/exchange/import_table.h"

enum role { ROLE_NONE, ROLE_PARAM, ROLE_METRIC, ROLE_STATE, ROLE_SECONDS, ROLE_ERROR };

struct column {
    enum role role;
    char *name; /* of the parameter or metric, without a prefix */
};

struct csv {
    struct column *columns;
    size_t count;
};

/* Columns with one of these prefixes are the parameters, and then no others are. */
static const char *const prefixes[] = {"params_", "param.", "config/", "config."};

/* Columns that are neither a parameter nor a metric, of the tools above. */
static const struct {
    const char *name;
    enum role role;
} known[] = {
    {"state", ROLE_STATE},     {"status", ROLE_STATE},  {"seconds", ROLE_SECONDS},
    {"runtime", ROLE_SECONDS}, {"error", ROLE_ERROR},   {"trial", ROLE_NONE},
    {"number", ROLE_NONE},     {"id", ROLE_NONE},       {"name", ROLE_NONE},
    {"value", ROLE_NONE},      {"steps", ROLE_NONE},    {"node", ROLE_NONE},
    {"why", ROLE_NONE},        {"notes", ROLE_NONE},    {"user", ROLE_NONE},
    {"tags", ROLE_NONE},       {"created", ROLE_NONE},  {"updated", ROLE_NONE},
    {"end time", ROLE_NONE},   {"hostname", ROLE_NONE}, {"github", ROLE_NONE},
    {"sweep", ROLE_NONE},      {"group", ROLE_NONE},    {"job type", ROLE_NONE},
    {"duration", ROLE_NONE},   {"logdir", ROLE_NONE},   {"done", ROLE_NONE},
    {"timestamp", ROLE_NONE},  {"date", ROLE_NONE},     {"pid", ROLE_NONE},
};

static size_t prefix_of(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return strlen(prefixes[i]);
    return 0;
}

static bool in(char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static bool is_metric(const struct import_trials *t, const char *name)
{
    for (int i = 0; i < t->metric_count; i++)
        if (strcmp(t->metrics[i].name, name) == 0)
            return true;
    return false;
}

static enum role role_of(const char *name, const struct import_trials *t,
                         const struct import_opts *o, bool prefixed)
{
    if (is_metric(t, name))
        return ROLE_METRIC;
    if (o->params ? in(o->params, name + prefix_of(name)) || in(o->params, name)
                  : prefixed && prefix_of(name) > 0)
        return ROLE_PARAM;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcasecmp(known[i].name, name) == 0)
            return known[i].role;
    bool stamp = strncmp(name, "datetime_", 9) == 0 || strncmp(name, "user_attrs_", 11) == 0 ||
                 strncmp(name, "system_attrs_", 13) == 0;
    return o->params || prefixed || stamp || !*name ? ROLE_NONE : ROLE_PARAM;
}

/* Names a column that a wanted name has not. */
static int check_columns(const struct csv *c, const struct import_trials *t,
                         const struct import_opts *o, struct err *e)
{
    for (int i = 0; i < t->metric_count; i++) {
        size_t k = 0;
        while (k < c->count && strcmp(c->columns[k].name, t->metrics[i].name) != 0)
            k++;
        if (k == c->count)
            return err_set(e, -EINVAL, "there is no column '%s'", t->metrics[i].name);
    }
    for (char *const *name = o->params; name && *name; name++) {
        size_t k = 0;
        while (k < c->count && strcmp(c->columns[k].name, *name) != 0)
            k++;
        if (k == c->count)
            return err_set(e, -EINVAL, "there is no column '%s'", *name);
    }
    return 0;
}

static int read_header(struct csv *c, char *const *names, struct import_trials *t,
                       const struct import_opts *o, struct err *e)
{
    bool prefixed = false;
    c->count = strv_len(names);
    c->columns = xcalloc(c->count + 1, sizeof *c->columns);
    for (size_t i = 0; i < c->count; i++)
        prefixed = prefixed || prefix_of(names[i]) > 0;
    if (t->metric_count == 0 && in(names, "value"))
        (void)import_trials_add_metric(t, "value", false, NULL); /* the first: it cannot fail */
    for (size_t i = 0; i < c->count; i++) {
        enum role role = role_of(names[i], t, o, prefixed);
        size_t skip = role == ROLE_PARAM && !in(o->params, names[i]) ? prefix_of(names[i]) : 0;
        c->columns[i] = (struct column){role, xstrdup(names[i] + skip)};
    }
    if (t->metric_count == 0) {
        err_set(e, -EINVAL, "which column is the metric?");
        return err_hint(e, "--metric NAME");
    }
    return check_columns(c, t, o, e);
}

/* Returns the trial of a row (new reference), or NULL if it has not ended. */
static json_t *read_trial(const struct csv *c, char *const *cells)
{
    json_t *params = json_object(), *metrics = json_object();
    json_t *o = json_pack("{s:o, s:o, s:s}", "params", params, "metrics", metrics, "state", "done");
    bool ended = true;
    for (size_t i = 0; i < c->count && cells[i]; i++) {
        json_t *value = import_trials_cell(cells[i]);
        const char *state = NULL;
        switch (value ? c->columns[i].role : ROLE_NONE) {
        case ROLE_PARAM:
            import_trials_set(params, c->columns[i].name, json_incref(value));
            break;
        case ROLE_METRIC:
            if (json_is_number(value))
                json_object_set(metrics, c->columns[i].name, value);
            break;
        case ROLE_STATE:
            state = import_trials_state(cells[i]);
            ended = state != NULL;
            json_object_set_new(o, "state", json_string(state ? state : ""));
            break;
        case ROLE_SECONDS:
            if (json_is_number(value))
                json_object_set(o, "seconds", value);
            break;
        case ROLE_ERROR:
            json_object_set_new(o, "error", json_text(cells[i]));
            break;
        case ROLE_NONE:
            break;
        }
        json_decref(value);
    }
    if (ended)
        return o;
    json_decref(o);
    return NULL;
}

static int read_rows(struct import_table *table, struct csv *c, struct import_trials *out,
                     struct import_skipped *skipped, const struct import_opts *o, struct err *e)
{
    int rc = import_table_next(table, e);
    if (rc == 0)
        return err_set(e, -EINVAL, "the file is empty");
    if (rc > 0)
        rc = read_header(c, table->row, out, o, e);
    while (rc == 0 && (rc = import_table_next(table, e)) > 0) {
        json_t *trial = read_trial(c, table->row);
        skipped->unfinished += trial == NULL;
        if (trial)
            json_array_append_new(out->trials, trial);
        rc = table->cells == c->count
                 ? 0
                 : err_set(e, -EINVAL, "line %d: %zu cells, the header has %zu", table->line - 1,
                           table->cells, c->count);
    }
    return rc;
}

int import_csv_read(struct import_trials *out, struct import_skipped *skipped,
                    const struct import_opts *o, struct err *e)
{
    AUTO(free) char *text = NULL;
    size_t len;
    int rc = import_read_file(&text, &len, o->path, e);
    if (rc < 0)
        return rc;
    struct import_table table = import_table_begin(text);
    struct csv c = {0};
    out->trials = out->trials ? out->trials : json_array();
    rc = read_rows(&table, &c, out, skipped, o, e);
    for (size_t i = 0; i < c.count; i++)
        free(c.columns[i].name);
    free(c.columns);
    import_table_end(&table);
    return rc < 0 ? err_wrap(e, "%s", o->path) : 0;
}
