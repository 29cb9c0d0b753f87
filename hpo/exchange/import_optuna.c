/* import_optuna - trials of a study in Optuna's SQLite file. */
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/exchange/import_read.h"

AUTO_DEFINE(db, sqlite3 *, sqlite3_close)
AUTO_DEFINE(statement, sqlite3_stmt *, sqlite3_finalize)

struct study {
    sqlite3 *db;
    int64_t id;
    struct import_trials *out;
};

static int failed(sqlite3 *db, struct err *e)
{
    return err_set(e, -EINVAL, "not a study of Optuna 3 or later: %s", sqlite3_errmsg(db));
}

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

/* Sets the id of the study with this name, or of the only one. */
static int find_study(struct study *s, const char *name, struct err *e)
{
    AUTO(statement) sqlite3_stmt *st = NULL;
    AUTO(strbuf) struct strbuf names = {0};
    int count = 0,
        rc = sqlite3_prepare_v2(s->db, "SELECT study_id, study_name FROM studies ORDER BY study_id",
                                -1, &st, NULL);
    while (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
        const char *found = text_at(st, 1);
        strbuf_printf(&names, "%s--study '%s'", names.len ? ", " : "", found);
        if (name && strcmp(name, found) != 0)
            continue;
        s->id = sqlite3_column_int64(st, 0);
        count++;
    }
    if (rc != SQLITE_OK)
        return failed(s->db, e);
    if (count == 1)
        return 0;
    if (names.len == 0)
        return err_set(e, -ENODATA, "there is no study");
    if (name)
        err_set(e, -EINVAL, "there is no study '%s'", name);
    else
        err_set(e, -EINVAL, "there are several studies");
    return err_hint(e, "%s", strbuf_str(&names));
}

/* Objectives have the names that the user gives, else those of the study, else "value". */
static int read_directions(struct study *s, struct err *e)
{
    AUTO(statement) sqlite3_stmt *st = NULL, *names = NULL;
    AUTO(json) json_t *words = NULL;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY "
                           "objective",
                           -1, &st, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(s->db,
                           "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND "
                           "\"key\" = 'study:metric_names'",
                           -1, &names, NULL) != SQLITE_OK)
        return failed(s->db, e);
    sqlite3_bind_int64(st, 1, s->id);
    sqlite3_bind_int64(names, 1, s->id);
    if (sqlite3_step(names) == SQLITE_ROW && text_at(names, 0))
        words = json_loads(text_at(names, 0), 0, NULL);
    int named = s->out->metric_count;
    for (int i = 0; sqlite3_step(st) == SQLITE_ROW; i++) {
        bool maximize = text_at(st, 0) && strcmp(text_at(st, 0), "MAXIMIZE") == 0;
        if (i < named) {
            s->out->metrics[i].maximize = maximize;
            continue;
        }
        const char *word = json_string_value(json_array_get(words, (size_t)i));
        AUTO(free)
        char *name = word ? xstrdup(word) : i ? xasprintf("value_%d", i) : xstrdup("value");
        int rc = import_trials_add_metric(s->out, name, maximize, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Milliseconds since 1970 of "2026-11-25 12:00:00.5" in local time; 0: none. */
static int64_t read_time(const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    const char *rest = text ? strptime(text, "%Y-%m-%d %H:%M:%S", &tm) : NULL;
    if (!rest)
        return 0;
    return (int64_t)mktime(&tm) * 1000 + (int64_t)(*rest == '.' ? strtod(rest, NULL) * 1000 : 0);
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* The value of a parameter from Optuna's number, by its distribution. New reference. */
static json_t *read_value(double number, const json_t *distribution)
{
    const char *name = json_string_value(json_object_get(distribution, "name"));
    const json_t *of = json_object_get(distribution, "attributes");
    json_t *choice = json_array_get(json_object_get(of, "choices"), (size_t)fmax(number, 0));
    if (choice)
        return json_incref(choice);
    return name && strncmp(name, "Int", 3) == 0 ? json_integer((json_int_t)number)
                                                : json_real(number);
}

/* The parameter of a sweep file for a distribution of Optuna (new reference). Names of older
 * releases are LogUniformDistribution, IntUniformDistribution and so on. */
static json_t *read_distribution(const json_t *distribution)
{
    const char *name = json_string_value(json_object_get(distribution, "name"));
    const json_t *of = json_object_get(distribution, "attributes");
    json_t *choices = json_object_get(of, "choices"), *low = json_object_get(of, "low");
    json_t *high = json_object_get(of, "high");
    if (json_is_array(choices))
        return json_array_size(choices) == 1
                   ? json_pack("{s:O}", "value", json_array_get(choices, 0))
                   : json_pack("{s:O}", "values", choices);
    if (!name || !json_is_number(low) || !json_is_number(high))
        return NULL;
    if (json_number_value(low) == json_number_value(high))
        return json_pack("{s:O}", "value", low);
    bool log = json_is_true(json_object_get(of, "log")) || strstr(name, "LogUniform");
    const char *kind = strncmp(name, "Int", 3) == 0 ? (log ? "int_log_uniform" : "int_uniform")
                                                    : (log ? "log_uniform_values" : "uniform");
    return json_pack("{s:s, s:O, s:O}", "distribution", kind, "min", low, "max", high);
}

/* Adds a parameter to the description of all trials, below its groups. The widest range counts. */
static void describe(json_t *parameters, const char *dotted, json_t *parameter)
{
    const char *dot = strchr(dotted, '.');
    AUTO(free) char *name = xstrndup(dotted, dot ? (size_t)(dot - dotted) : strlen(dotted));
    json_t *known = json_object_get(parameters, name);
    if (dot) {
        if (!known)
            json_object_set_new(parameters, name, known = json_pack("{s:{}}", "parameters"));
        describe(json_object_get(known, "parameters"), dot + 1, parameter);
        return;
    }
    if (!known) {
        json_object_set(parameters, name, parameter);
        return;
    }
    json_t *min = json_object_get(parameter, "min"), *max = json_object_get(parameter, "max");
    json_t *known_min = json_object_get(known, "min"), *known_max = json_object_get(known, "max");
    if (min && known_min && json_number_value(min) < json_number_value(known_min))
        json_object_set(known, "min", min);
    if (max && known_max && json_number_value(max) > json_number_value(known_max))
        json_object_set(known, "max", max);
}

static void read_param(struct study *s, json_t *trial, sqlite3_stmt *st)
{
    const char *name = text_at(st, 1), *text = text_at(st, 3);
    AUTO(json) json_t *distribution = text ? json_loads(text, 0, NULL) : NULL;
    AUTO(json) json_t *parameter = distribution ? read_distribution(distribution) : NULL;
    if (!name || !parameter)
        return;
    import_trials_set(json_object_get(trial, "params"), name,
                      read_value(sqlite3_column_double(st, 2), distribution));
    describe(s->out->parameters, name, parameter);
}

/* ---- values --------------------------------------------------------------------------------- */

static void read_final(struct study *s, json_t *trial, sqlite3_stmt *st)
{
    int objective = sqlite3_column_int(st, 1);
    if (objective >= 0 && objective < s->out->metric_count &&
        sqlite3_column_type(st, 2) == SQLITE_FLOAT)
        json_object_set_new(json_object_get(trial, "metrics"), s->out->metrics[objective].name,
                            json_real(sqlite3_column_double(st, 2)));
}

static void read_point(struct study *s, json_t *trial, sqlite3_stmt *st)
{
    json_t *curves = json_object_get(trial, "curves");
    const char *name = s->out->metrics[0].name;
    if (sqlite3_column_type(st, 2) != SQLITE_FLOAT)
        return;
    if (!json_object_get(curves, name))
        json_object_set_new(curves, name, json_array());
    json_array_append_new(
        json_object_get(curves, name),
        json_pack("[I,f]", (json_int_t)sqlite3_column_int64(st, 1), sqlite3_column_double(st, 2)));
}

/* ---- trials --------------------------------------------------------------------------------- */

/* Adds the trials to out->trials, and their ids to *index: id -> place in the list. */
static int read_trials(struct study *s, json_t *index, struct import_skipped *skipped,
                       struct err *e)
{
    AUTO(statement) sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT trial_id, state, datetime_start, datetime_complete FROM trials "
                           "WHERE study_id = ? ORDER BY number",
                           -1, &st, NULL) != SQLITE_OK)
        return failed(s->db, e);
    sqlite3_bind_int64(st, 1, s->id);
    while (sqlite3_step(st) == SQLITE_ROW) {
        const char *state = text_at(st, 1) ? import_trials_state(text_at(st, 1)) : NULL;
        int64_t begin = read_time(text_at(st, 2)), end = read_time(text_at(st, 3));
        char id[24];
        skipped->unfinished += state == NULL;
        if (!state)
            continue;
        snprintf(id, sizeof id, "%lld", (long long)sqlite3_column_int64(st, 0));
        json_t *trial =
            json_pack("{s:s, s:{}, s:{}, s:{}, s:I, s:I, s:f}", "state", state, "params", "metrics",
                      "curves", "leased_ms", (json_int_t)begin, "ended_ms", (json_int_t)end,
                      "seconds", end > begin && begin ? (double)(end - begin) / 1000 : 0.0);
        json_array_append_new(s->out->trials, trial);
        json_object_set(index, id, trial);
    }
    return 0;
}

/* Calls `fn` for the rows of a table whose first column is the id of a trial of this study. */
static int each_row(struct study *s, const json_t *index, const char *sql,
                    void (*fn)(struct study *, json_t *trial, sqlite3_stmt *), struct err *e)
{
    AUTO(statement) sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK)
        return failed(s->db, e);
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)sqlite3_column_int64(st, 0));
        json_t *trial = json_object_get(index, id);
        if (trial)
            fn(s, trial, st);
    }
    return rc == SQLITE_DONE ? 0 : failed(s->db, e);
}

static int read_study(struct study *s, const char *name, struct import_skipped *skipped,
                      struct err *e)
{
    AUTO(json) json_t *index = json_object();
    int rc = find_study(s, name, e);
    if (rc == 0)
        rc = read_directions(s, e);
    if (rc == 0 && s->out->metric_count == 0)
        rc = err_set(e, -ENODATA, "the study has no direction");
    if (rc == 0)
        rc = read_trials(s, index, skipped, e);
    if (rc == 0)
        rc = each_row(s, index,
                      "SELECT trial_id, param_name, param_value, distribution_json FROM "
                      "trial_params ORDER BY param_id",
                      read_param, e);
    if (rc == 0)
        rc = each_row(s, index, "SELECT trial_id, objective, value FROM trial_values", read_final,
                      e);
    if (rc == 0)
        rc = each_row(s, index,
                      "SELECT trial_id, step, intermediate_value FROM trial_intermediate_values "
                      "ORDER BY trial_id, step",
                      read_point, e);
    return rc;
}

int import_optuna_read(struct import_trials *out, struct import_skipped *skipped,
                       const struct import_opts *o, struct err *e)
{
    AUTO(db) sqlite3 *db = NULL;
    if (sqlite3_open_v2(o->path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return err_set(e, -EINVAL, "%s: %s", o->path, sqlite3_errmsg(db));
    out->trials = out->trials ? out->trials : json_array();
    out->parameters = out->parameters ? out->parameters : json_object();
    struct study s = {.db = db, .out = out};
    int rc = read_study(&s, o->study, skipped, e);
    return rc < 0 ? err_wrap(e, "%s", o->path) : 0;
}
