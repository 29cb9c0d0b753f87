#include "launcher/jobs/baseline_store.h"

#include <time.h>

#include "launcher/jobs/history_db.h"

static void append(struct baseline_list *l, sqlite3_stmt *st)
{
    l->at = xrealloc(l->at, l->count + 1, sizeof *l->at);
    l->at[l->count++] = (struct baseline){
        .name = history_db_text(st, 0),
        .hardware = history_db_text(st, 1),
        .unit = history_db_text(st, 2),
        .rate = {.mean = sqlite3_column_double(st, 3),
                 .deviation = sqlite3_column_double(st, 4),
                 .n = sqlite3_column_int(st, 5)},
        .step_s = sqlite3_column_double(st, 6),
        .cpu = sqlite3_column_double(st, 7),
        .gpu = sqlite3_column_double(st, 8),
        .seconds = sqlite3_column_double(st, 9),
        .stored_ms = sqlite3_column_int64(st, 10),
    };
}

int baseline_store_read(struct baseline_list *out, const char *name, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    sqlite3_stmt *st = NULL;
    *out = (struct baseline_list){0};
    int rc =
        history_db_query(&h, &st,
                         "SELECT name, hardware, unit, mean, deviation, blocks, step_s, cpu, gpu, "
                         "seconds, stored_ms FROM baseline WHERE ?1 IS NULL OR name = ?1 "
                         "ORDER BY name, hardware",
                         e);
    if (rc < 0 || !st)
        return rc;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC); /* NULL binds NULL */
    int step;
    while ((step = sqlite3_step(st)) == SQLITE_ROW)
        append(out, st);
    rc = step == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    return rc;
}

void baseline_store_end(struct baseline_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        baseline_clear(&l->at[i]);
    free(l->at);
    *l = (struct baseline_list){0};
}

static int insert(struct history_db *h, const struct baseline *m, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = history_db_prepare(
        h, &st,
        "INSERT OR REPLACE INTO baseline VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)", e);
    if (rc < 0)
        return rc;
    const char *texts[] = {m->name, m->hardware, m->unit};
    const double reals[] = {m->rate.mean, m->rate.deviation, m->rate.n, m->step_s, m->cpu,
                            m->gpu,       m->seconds};
    int column = 1;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        sqlite3_bind_text(st, column++, texts[i], -1, SQLITE_STATIC);
    for (size_t i = 0; i < COUNT_OF(reals); i++)
        sqlite3_bind_double(st, column++, reals[i]);
    sqlite3_bind_int64(st, column, m->stored_ms);
    rc = sqlite3_step(st) == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    return rc;
}

int baseline_store_put(struct baseline *m, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->stored_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int rc = history_db_open(&h, true, e);
    if (rc == 0)
        rc = history_db_exec(h, "BEGIN IMMEDIATE", e);
    if (rc == 0)
        rc = insert(h, m, e);
    if (rc == 0)
        rc = history_db_trim(h, "baseline", "stored_ms", e);
    return rc < 0 ? rc : history_db_exec(h, "COMMIT", e); /* closing it rolls back */
}
