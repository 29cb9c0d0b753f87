#include "launcher/jobs/section_learning.h"

#include <unistd.h>

#include "common/clock.h"
#include "common/utf8.h"
#include "launcher/jobs/history_command.h"
#include "launcher/jobs/history_db.h"

/* The longest time of all jobs with the same program and options. */
struct row {
    char *program, *hash;
    int kind; /* enum section_limits_kind */
    char *name;
    int64_t longest_ms, stored_ms;
};

#define COLUMN(name, type)                      \
    {                                           \
#name, type, offsetof(struct row, name) \
    }
static const struct history_column columns[] = {
    COLUMN(program, HISTORY_TEXT),     COLUMN(hash, HISTORY_TEXT),
    COLUMN(kind, HISTORY_INT),         COLUMN(name, HISTORY_TEXT),
    COLUMN(longest_ms, HISTORY_INT64), COLUMN(stored_ms, HISTORY_INT64),
};

static const struct history_table table = {
    .name = "section",
    .age = "stored_ms",
    .upsert = "ON CONFLICT(program, hash, kind, name) DO UPDATE SET "
              "longest_ms = max(longest_ms, excluded.longest_ms), stored_ms = excluded.stored_ms",
    .columns = columns,
    .column_count = COUNT_OF(columns),
    .row_bytes = sizeof(struct row)};

static void read_command(struct history_command *c, char *const *argv, const char *wdir)
{
    AUTO(free) char *here = wdir ? NULL : getcwd(NULL, 0);
    history_command_read(c, argv, wdir ? wdir : here ? here : "/");
}

static void put(struct strbuf *text, const char *what, int64_t ms)
{
    if (ms <= 0)
        return;
    strbuf_puts(text, text->len ? ", " : "");
    utf8_add_line(text, what);
    strbuf_printf(text, " %g s", (double)ms / 1000);
}

/* Appends the limits of `now` that `before` does not have. */
static void describe(struct strbuf *text, const struct section_limits *before,
                     const struct section_limits *now)
{
    static const char *const names[SECTION_LIMITS_KINDS] = {
        [SECTION_LIMITS_OUTSIDE] = "no section",
        [SECTION_LIMITS_HEARTBEAT] = "heartbeat",
        [SECTION_LIMITS_FIRST_HEARTBEAT] = "first heartbeat"};
    for (int i = before->count; i < now->count; i++) /* new ones are added at the end */
        put(text, now->at[i].name, now->at[i].ms);
    for (int i = 1; i < SECTION_LIMITS_KINDS; i++)
        put(text, names[i], before->other_ms[i] ? 0 : now->other_ms[i]);
}

int section_learning_read(struct section_limits *limits, struct strbuf *text, char *const *argv,
                          const char *wdir, double factor, struct err *e)
{
    struct section_limits longest = {0}, before = {0};
    struct history_command c;
    struct history_rows rows;
    read_command(&c, argv, wdir);
    int rc =
        history_db_read(&rows, &table, "WHERE program = ?1 AND hash = ?2", c.program, c.hash, e);
    const struct row *r = rows.at;
    for (size_t i = 0; i < rows.count; i++) {
        if (r[i].kind == SECTION_LIMITS_SECTION)
            section_limits_set(&longest, r[i].name, r[i].longest_ms);
        else if (r[i].kind > 0 && r[i].kind < SECTION_LIMITS_KINDS)
            longest.other_ms[r[i].kind] = r[i].longest_ms;
    }
    section_limits_copy(&before, limits);
    if (rc == 0) {
        section_limits_learn(limits, &longest, factor, SECTION_LEARNING_MIN_MS);
        describe(text, &before, limits);
    }
    section_limits_free(&longest);
    section_limits_free(&before);
    history_db_end(&table, rows.at, rows.count);
    history_command_end(&c);
    return rc;
}

int section_learning_store(const struct section_limits *longest, char *const *argv,
                           const char *wdir, struct err *e)
{
    struct history_command c;
    if (!section_limits_any(longest))
        return 0;
    read_command(&c, argv, wdir);
    int sections = longest->count, n = 0;
    AUTO(free) struct row *rows = xcalloc((size_t)sections + SECTION_LIMITS_KINDS, sizeof *rows);
    for (int i = 0; i < sections + SECTION_LIMITS_KINDS; i++) {
        int kind = i < sections ? SECTION_LIMITS_SECTION : i - sections;
        int64_t ms = i < sections ? longest->at[i].ms : longest->other_ms[kind];
        if (ms > 0)
            rows[n++] = (struct row){.program = c.program,
                                     .hash = c.hash,
                                     .kind = kind,
                                     .name = i < sections ? longest->at[i].name : (char *)"",
                                     .longest_ms = ms,
                                     .stored_ms = clock_ms_of(CLOCK_REALTIME)};
    }
    int rc = history_db_put(&table, rows, (size_t)n, e);
    history_command_end(&c);
    return rc;
}
