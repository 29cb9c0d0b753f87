#include "launcher/jobs/history_jobs.h"

#include <string.h>

#include "launcher/jobs/history_db.h"

/* ---- all jobs ------------------------------------------------------------------------------- */

static void append(struct history_jobs *l, sqlite3_stmt *st)
{
    l->at = xrealloc(l->at, l->count + 1, sizeof *l->at);
    struct history_job *j = &l->at[l->count++];
    *j = (struct history_job){.begin_ms = sqlite3_column_int64(st, 0),
                              .end_ms = sqlite3_column_int64(st, 1),
                              .job = history_db_text(st, 2),
                              .program = history_db_text(st, 3),
                              .batch = sqlite3_column_int64(st, 5),
                              .gpu = history_db_text(st, 6),
                              .gpus = sqlite3_column_int(st, 7),
                              .status = sqlite3_column_int(st, 8),
                              .utilisation = sqlite3_column_double(st, 9),
                              .peak_bytes = sqlite3_column_int64(st, 10),
                              .memory_bytes = sqlite3_column_int64(st, 11),
                              .peaks = history_db_text(st, 12),
                              .energy_j = sqlite3_column_double(st, 13),
                              .cost = sqlite3_column_double(st, 14)};
    AUTO(free) char *hash = history_db_text(st, 4);
    snprintf(j->hash, sizeof j->hash, "%s", hash);
}

int history_jobs_read(struct history_jobs *out, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    sqlite3_stmt *st = NULL;
    *out = (struct history_jobs){0};
    int rc =
        history_db_query(&h, &st,
                         "SELECT begin_ms, end_ms, job, program, hash, batch, gpu, gpus, status, "
                         "utilisation, peak, memory, peaks, energy_j, cost FROM job "
                         "ORDER BY end_ms DESC, rowid DESC",
                         e);
    if (rc < 0 || !st)
        return rc;
    int step;
    while ((step = sqlite3_step(st)) == SQLITE_ROW)
        append(out, st);
    rc = step == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    return rc;
}

static void clear(struct history_job *j)
{
    free(j->job);
    free(j->program);
    free(j->gpu);
    free(j->peaks);
    *j = (struct history_job){0};
}

void history_jobs_end(struct history_jobs *l)
{
    for (size_t i = 0; i < l->count; i++)
        clear(&l->at[i]);
    free(l->at);
    *l = (struct history_jobs){0};
}

/* ---- storing -------------------------------------------------------------------------------- */

static int insert(struct history_db *h, const struct history_job *j, struct err *e)
{
    sqlite3_stmt *st = NULL;
    const char *texts[] = {j->job, j->program, j->hash, j->gpu, j->peaks};
    const int64_t numbers[] = {j->begin_ms, j->end_ms,     j->batch,       j->gpus,
                               j->status,   j->peak_bytes, j->memory_bytes};
    const double reals[] = {j->utilisation, j->energy_j, j->cost};
    int column = 1;
    int rc = history_db_prepare(h, &st,
                                "INSERT INTO job(job, program, hash, gpu, peaks, begin_ms, end_ms, "
                                "batch, gpus, status, peak, memory, utilisation, energy_j, cost) "
                                "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                                e);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        sqlite3_bind_text(st, column++, texts[i], -1, SQLITE_STATIC);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sqlite3_bind_int64(st, column++, numbers[i]);
    for (size_t i = 0; i < COUNT_OF(reals); i++)
        sqlite3_bind_double(st, column++, reals[i]);
    rc = sqlite3_step(st) == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    return rc;
}

int history_jobs_put(const struct history_job *j, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    int rc = history_db_open(&h, true, e);
    if (rc == 0)
        rc = history_db_exec(h, "BEGIN IMMEDIATE", e);
    if (rc == 0)
        rc = insert(h, j, e);
    if (rc == 0)
        rc = history_db_trim(h, "job", "end_ms", e);
    return rc < 0 ? rc : history_db_exec(h, "COMMIT", e); /* closing it rolls back */
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_known(json_t *o, const char *key, double value)
{
    if (value >= 0)
        json_object_set_new(o, key, json_real(value));
}

static void add_known_int(json_t *o, const char *key, int64_t value)
{
    if (value >= 0)
        json_object_set_new(o, key, json_integer(value));
}

json_t *history_jobs_json(const struct history_job *j)
{
    json_t *peaks = NULL;
    json_t *o = json_pack("{s:o, s:o, s:s, s:I, s:I, s:i, s:i, s:o}", "job", json_text(j->job),
                          "program", json_text(j->program), "hash", j->hash, "begin_ms",
                          (json_int_t)j->begin_ms, "end_ms", (json_int_t)j->end_ms, "status",
                          j->status, "gpus", j->gpus, "gpu", json_text(j->gpu));
    add_known_int(o, "batch", j->batch);
    add_known(o, "utilisation", j->utilisation);
    add_known_int(o, "peak_bytes", j->peak_bytes);
    add_known_int(o, "memory_bytes", j->memory_bytes);
    if (json_parse(&peaks, j->peaks, strlen(j->peaks), NULL) == 0)
        json_object_set_new(o, "peaks", peaks);
    add_known(o, "energy_j", j->energy_j);
    add_known(o, "cost", j->cost);
    return o;
}
