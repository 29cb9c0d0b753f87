#include "launcher/jobs/baseline_store.h"

#include "common/clock.h"
#include "launcher/jobs/history_db.h"

#define COLUMN(name, type, member)                    \
    {                                                 \
        name, type, offsetof(struct baseline, member) \
    }
static const struct history_column columns[] = {
    COLUMN("name", HISTORY_TEXT, name),
    COLUMN("hardware", HISTORY_TEXT, hardware),
    COLUMN("unit", HISTORY_TEXT, unit),
    COLUMN("mean", HISTORY_REAL, rate.mean),
    COLUMN("deviation", HISTORY_REAL, rate.deviation),
    COLUMN("blocks", HISTORY_INT, rate.n),
    COLUMN("step_s", HISTORY_REAL, step_s),
    COLUMN("cpu", HISTORY_REAL, cpu),
    COLUMN("gpu", HISTORY_REAL, gpu),
    COLUMN("seconds", HISTORY_REAL, seconds),
    COLUMN("stored_ms", HISTORY_INT64, stored_ms),
};

static const struct history_table table = {.name = "baseline",
                                           .age = "stored_ms",
                                           .columns = columns,
                                           .column_count = COUNT_OF(columns),
                                           .row_bytes = sizeof(struct baseline)};

int baseline_store_read(struct baseline_list *out, const char *name, struct err *e)
{
    struct history_rows rows;
    int rc = history_db_read(&rows, &table, "WHERE ?1 IS NULL OR name = ?1 ORDER BY name, hardware",
                             name, NULL, e);
    *out = (struct baseline_list){rows.at, rows.count};
    return rc;
}

void baseline_store_end(struct baseline_list *l)
{
    history_db_end(&table, l->at, l->count);
    *l = (struct baseline_list){0};
}

int baseline_store_put(struct baseline *m, struct err *e)
{
    m->stored_ms = clock_ms_of(CLOCK_REALTIME);
    return history_db_put(&table, m, 1, e);
}
