/* The tables are those of Optuna's storage (optuna/storages/_rdb/models.py) at the revision
 * v3.2.0.a, which Optuna 3.2 to 5.0 write. Optuna upgrades older revisions by itself. */
#include "hpo/exchange/export_optuna.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"

static const char tables[] =
    "CREATE TABLE studies(study_id INTEGER PRIMARY KEY, study_name VARCHAR(512) NOT NULL);"
    "CREATE UNIQUE INDEX ix_studies_study_name ON studies(study_name);"
    "CREATE TABLE version_info(version_info_id INTEGER PRIMARY KEY CHECK(version_info_id = 1),"
    " schema_version INTEGER, library_version VARCHAR(256));"
    "CREATE TABLE alembic_version(version_num VARCHAR(32) PRIMARY KEY NOT NULL);"
    "CREATE TABLE study_directions(study_direction_id INTEGER PRIMARY KEY, direction VARCHAR(8)"
    " NOT NULL, study_id INTEGER NOT NULL REFERENCES studies, objective INTEGER NOT NULL,"
    " UNIQUE(study_id, objective));"
    "CREATE TABLE study_user_attributes(study_user_attribute_id INTEGER PRIMARY KEY,"
    " study_id INTEGER REFERENCES studies, \"key\" VARCHAR(512), value_json TEXT,"
    " UNIQUE(study_id, \"key\"));"
    "CREATE TABLE study_system_attributes(study_system_attribute_id INTEGER PRIMARY KEY,"
    " study_id INTEGER REFERENCES studies, \"key\" VARCHAR(512), value_json TEXT,"
    " UNIQUE(study_id, \"key\"));"
    "CREATE TABLE trials(trial_id INTEGER PRIMARY KEY, number INTEGER, study_id INTEGER"
    " REFERENCES studies, state VARCHAR(8) NOT NULL, datetime_start DATETIME,"
    " datetime_complete DATETIME);"
    "CREATE INDEX ix_trials_study_id ON trials(study_id);"
    "CREATE TABLE trial_user_attributes(trial_user_attribute_id INTEGER PRIMARY KEY,"
    " trial_id INTEGER REFERENCES trials, \"key\" VARCHAR(512), value_json TEXT,"
    " UNIQUE(trial_id, \"key\"));"
    "CREATE TABLE trial_system_attributes(trial_system_attribute_id INTEGER PRIMARY KEY,"
    " trial_id INTEGER REFERENCES trials, \"key\" VARCHAR(512), value_json TEXT,"
    " UNIQUE(trial_id, \"key\"));"
    "CREATE TABLE trial_params(param_id INTEGER PRIMARY KEY, trial_id INTEGER REFERENCES trials,"
    " param_name VARCHAR(512), param_value FLOAT, distribution_json TEXT,"
    " UNIQUE(trial_id, param_name));"
    "CREATE TABLE trial_values(trial_value_id INTEGER PRIMARY KEY, trial_id INTEGER NOT NULL"
    " REFERENCES trials, objective INTEGER NOT NULL, value FLOAT, value_type VARCHAR(7) NOT NULL,"
    " UNIQUE(trial_id, objective));"
    "CREATE TABLE trial_intermediate_values(trial_intermediate_value_id INTEGER PRIMARY KEY,"
    " trial_id INTEGER NOT NULL REFERENCES trials, step INTEGER NOT NULL,"
    " intermediate_value FLOAT, intermediate_value_type VARCHAR(7) NOT NULL,"
    " UNIQUE(trial_id, step));"
    "CREATE TABLE trial_heartbeats(trial_heartbeat_id INTEGER PRIMARY KEY, trial_id INTEGER"
    " NOT NULL REFERENCES trials, heartbeat DATETIME NOT NULL, UNIQUE(trial_id));"
    "INSERT INTO version_info VALUES(1, 12, '3.2.0');"
    "INSERT INTO alembic_version VALUES('v3.2.0.a');";

enum statement { STUDY, DIRECTION, TRIAL, PARAM, VALUE, STEP, ATTRIBUTE, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [STUDY] = "INSERT INTO studies VALUES(1, ?)",
    [DIRECTION] = "INSERT INTO study_directions(direction, study_id, objective) VALUES(?, 1, ?)",
    [TRIAL] = "INSERT INTO trials VALUES(?, ?, 1, ?, ?, ?)",
    [PARAM] = "INSERT INTO trial_params(trial_id, param_name, param_value, distribution_json) "
              "VALUES(?, ?, ?, ?)",
    [VALUE] = "INSERT INTO trial_values(trial_id, objective, value, value_type) "
              "VALUES(?, ?, ?, 'FINITE')",
    [STEP] = "INSERT INTO trial_intermediate_values(trial_id, step, intermediate_value, "
             "intermediate_value_type) VALUES(?, ?, ?, 'FINITE')",
    [ATTRIBUTE] = "INSERT INTO trial_user_attributes(trial_id, \"key\", value_json) "
                  "VALUES(?, ?, ?)",
};

/* Optuna's names of the states. A trial that was cancelled, is invalid or ran out of memory failed,
 * there. */
static const char *const states[TRIAL_STATES] = {
    [TRIAL_WAITING] = "WAITING",  [TRIAL_LEASED] = "RUNNING",  [TRIAL_RUNNING] = "RUNNING",
    [TRIAL_STOPPING] = "RUNNING", [TRIAL_PAUSING] = "RUNNING", [TRIAL_PAUSED] = "RUNNING",
    [TRIAL_DONE] = "COMPLETE",    [TRIAL_PRUNED] = "PRUNED",   [TRIAL_FAILED] = "FAIL",
    [TRIAL_OOM] = "FAIL",         [TRIAL_INVALID] = "FAIL",    [TRIAL_CANCELLED] = "FAIL",
};

struct writer {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    const struct sweep_reader *sweep;
    const struct export_params *params;
    char **distributions; /* JSON per parameter */
};

/* Executes a statement. `kinds` has one letter per value: i (int64_t), d (double), s (text; NULL:
 * no value). */
static int insert(struct writer *w, enum statement s, const char *kinds, ...)
{
    sqlite3_stmt *st = w->statements[s];
    va_list values;
    va_start(values, kinds);
    int rc = SQLITE_OK;
    for (int i = 0; kinds[i] && rc == SQLITE_OK; i++) {
        if (kinds[i] == 'i')
            rc = sqlite3_bind_int64(st, i + 1, va_arg(values, int64_t));
        else if (kinds[i] == 'd')
            rc = sqlite3_bind_double(st, i + 1, va_arg(values, double));
        else
            rc = sqlite3_bind_text(st, i + 1, va_arg(values, const char *), -1, SQLITE_TRANSIENT);
    }
    va_end(values);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_DONE)
        rc = SQLITE_OK;
    sqlite3_reset(st);
    return rc == SQLITE_OK ? 0 : -EIO;
}

/* "2026-11-25 12:00:00.000000" in local time, as Optuna writes it; NULL if `ms` is 0. */
static const char *time_text(char *out, size_t size, int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    if (ms <= 0 || !localtime_r(&s, &tm))
        return NULL;
    size_t n = strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(out + n, size - n, ".%03d000", (int)(ms % 1000));
    return out;
}

static char *distribution_text(const struct export_param *p)
{
    static const char *const names[] = {"FloatDistribution", "IntDistribution",
                                        "CategoricalDistribution"};
    AUTO(json) json_t *of = export_params_json(p);
    json_t *attributes = json_object();
    if (p->kind == EXPORT_PARAM_CHOICE) {
        json_object_set(attributes, "choices", json_object_get(of, "choices"));
    } else {
        json_object_set(attributes, "low", json_object_get(of, "low"));
        json_object_set(attributes, "high", json_object_get(of, "high"));
        json_object_set(attributes, "log", json_object_get(of, "log"));
        json_object_set_new(attributes, "step",
                            p->kind == EXPORT_PARAM_INTEGER ? json_integer(1) : json_null());
    }
    AUTO(json)
    json_t *o = json_pack("{s:s, s:o}", "name", names[p->kind], "attributes", attributes);
    return json_line(o);
}

static int write_params(struct writer *w, size_t trial)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->params->count; i++) {
        double value = export_params_value(w->params, w->sweep->columns, i, trial);
        if (!isnan(value))
            rc = insert(w, PARAM, "isds", (int64_t)trial + 1, w->params->at[i].name, value,
                        w->distributions[i]);
    }
    return rc;
}

/* The value of each objective. Optuna refuses a complete trial without all of them. */
static bool read_values(const struct sweep_reader *v, size_t trial, double *out)
{
    bool all = true;
    for (int i = 0; i < v->spec->metric_count; i++) {
        const struct columns_metric *m =
            i > 0 ? sweep_columns_metric(v->columns, trial, v->spec->metrics[i].name) : NULL;
        out[i] = i == 0 ? sweep_columns_score(v->columns, trial) : m ? m->last : (double)NAN;
        all = all && isfinite(out[i]);
    }
    return all;
}

/* Steps are integers in Optuna: of several points between two integers, the last one counts. */
static int write_curve(struct writer *w, size_t trial, const struct trial_curve *curve)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < curve->count; i++) {
        double step = floor(curve->points[i].step);
        if (i + 1 == curve->count || floor(curve->points[i + 1].step) > step)
            rc = insert(w, STEP, "iid", (int64_t)trial + 1, (int64_t)step, curve->points[i].value);
    }
    return rc;
}

static int write_trial(struct writer *w, size_t trial)
{
    const struct sweep_reader *v = w->sweep;
    const struct columns_trial *t = sweep_columns_trial(v->columns, trial);
    const struct columns_metric *m =
        sweep_columns_metric(v->columns, trial, v->spec->metrics[0].name);
    const char *error = text_table_at(sweep_columns_texts(v->columns), t->error);
    double values[SPEC_METRICS_MAX];
    char begin[40], end[40];
    bool all = read_values(v, trial, values);
    const char *state = t->state == TRIAL_DONE && !all ? "FAIL" : states[t->state];
    int rc = insert(w, TRIAL, "iisss", (int64_t)trial + 1, (int64_t)trial, state,
                    time_text(begin, sizeof begin, t->leased_ms ? t->leased_ms : t->created_ms),
                    time_text(end, sizeof end, t->ended_ms));
    if (rc == 0)
        rc = write_params(w, trial);
    bool counts = all && (t->state == TRIAL_DONE || t->state == TRIAL_PRUNED);
    for (int i = 0; rc == 0 && counts && i < v->spec->metric_count; i++)
        rc = insert(w, VALUE, "iid", (int64_t)trial + 1, (int64_t)i, values[i]);
    if (rc == 0 && m && v->spec->metric_count == 1)
        rc = write_curve(w, trial, &m->curve);
    if (rc == 0 && error) {
        AUTO(json) json_t *text = json_string(error);
        AUTO(free) char *line = json_line(text);
        rc = insert(w, ATTRIBUTE, "iss", (int64_t)trial + 1, "error", line);
    }
    return rc;
}

static int write_study(struct writer *w)
{
    const struct spec *spec = w->sweep->spec;
    if (sqlite3_exec(w->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(w->db, tables, NULL, NULL, NULL) != SQLITE_OK)
        return -EIO;
    for (int i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v2(w->db, texts[i], -1, &w->statements[i], NULL) != SQLITE_OK)
            return -EIO;
    int rc = insert(w, STUDY, "s", w->sweep->dir->name);
    for (int i = 0; rc == 0 && i < spec->metric_count; i++)
        rc = insert(w, DIRECTION, "si", spec->metrics[i].maximize ? "MAXIMIZE" : "MINIMIZE",
                    (int64_t)i);
    for (size_t i = 0; rc == 0 && i < sweep_columns_count(w->sweep->columns); i++)
        rc = write_trial(w, i);
    if (rc == 0 && sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = -EIO;
    return rc;
}

int export_optuna_write(const char *path, const struct sweep_reader *v,
                        const struct export_params *p, struct err *e)
{
    if (v->spec->metric_count == 0)
        return err_set(e, -ENODATA, "sweep '%s' has no metric, which a study of Optuna needs",
                       v->dir->name);
    if (access(path, F_OK) == 0) {
        err_set(e, -EEXIST, "%s: the file exists", path);
        return err_hint(e, "another name; a study is written into a new file");
    }
    struct writer w = {.sweep = v, .params = p};
    int rc = sqlite3_open(path, &w.db) == SQLITE_OK ? 0 : -EIO;
    for (size_t i = 0; i < p->count; i++)
        strv_push(&w.distributions, distribution_text(&p->at[i]));
    if (rc == 0)
        rc = write_study(&w);
    if (rc < 0)
        err_set(e, rc, "%s: %s", path, sqlite3_errmsg(w.db));
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(w.statements[i]);
    sqlite3_close(w.db);
    strv_free(w.distributions);
    if (rc < 0)
        (void)unlink(path); /* it may not exist */
    return rc;
}
