#include "launcher/jobs/history_sections.h"

#include <time.h>

#include "launcher/jobs/history_db.h"

/* The column `kind`. */
enum { SECTION, OUT_OF_SECTION, HEARTBEAT, INITIAL_HEARTBEAT };

int history_sections_read(struct section_limits *longest, const struct history_command *c,
                          struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    sqlite3_stmt *st = NULL;
    struct section_limits stored = {0};
    int64_t *const others[] = {[OUT_OF_SECTION] = &stored.out_of_section_ms,
                               [HEARTBEAT] = &stored.heartbeat_ms,
                               [INITIAL_HEARTBEAT] = &stored.initial_heartbeat_ms};
    int rc = history_db_query(
        &h, &st, "SELECT kind, name, longest_ms FROM section WHERE program = ?1 AND hash = ?2", e);
    if (rc < 0 || !st)
        return rc;
    sqlite3_bind_text(st, 1, c->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, c->hash, -1, SQLITE_STATIC);
    int step;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t kind = sqlite3_column_int64(st, 0), ms = sqlite3_column_int64(st, 2);
        AUTO(free) char *name = history_db_text(st, 1);
        if (kind == SECTION)
            section_limits_set(&stored, name, ms);
        else if (kind > SECTION && kind <= INITIAL_HEARTBEAT)
            *others[kind] = ms;
    }
    rc = step == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    if (rc == 0)
        section_limits_raise(longest, &stored);
    section_limits_free(&stored);
    return rc;
}

/* Stores one time, unless it is unknown or the stored one is longer. */
static int put(struct history_db *h, const struct history_command *c, int kind, const char *name,
               int64_t ms, struct err *e)
{
    struct timespec now;
    sqlite3_stmt *st = NULL;
    if (ms <= 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = history_db_prepare(
        h, &st,
        "INSERT INTO section VALUES(?1, ?2, ?3, ?4, ?5, ?6) "
        "ON CONFLICT(program, hash, kind, name) DO UPDATE SET longest_ms = max(longest_ms, ?5), "
        "stored_ms = ?6",
        e);
    if (rc < 0)
        return rc;
    sqlite3_bind_text(st, 1, c->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, c->hash, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, kind);
    sqlite3_bind_text(st, 4, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, ms);
    sqlite3_bind_int64(st, 6, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    rc = sqlite3_step(st) == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    return rc;
}

int history_sections_put(const struct section_limits *longest, const struct history_command *c,
                         struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    int rc = history_db_open(&h, true, e);
    if (rc == 0)
        rc = history_db_exec(h, "BEGIN IMMEDIATE", e);
    for (int i = 0; i < longest->count && rc == 0; i++)
        rc = put(h, c, SECTION, longest->at[i].name, longest->at[i].ms, e);
    rc = rc < 0 ? rc : put(h, c, OUT_OF_SECTION, "", longest->out_of_section_ms, e);
    rc = rc < 0 ? rc : put(h, c, HEARTBEAT, "", longest->heartbeat_ms, e);
    rc = rc < 0 ? rc : put(h, c, INITIAL_HEARTBEAT, "", longest->initial_heartbeat_ms, e);
    if (rc == 0)
        rc = history_db_trim(h, "section", "stored_ms", e);
    return rc < 0 ? rc : history_db_exec(h, "COMMIT", e); /* closing it rolls back */
}
