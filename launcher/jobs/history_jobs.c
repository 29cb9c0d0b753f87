#include "launcher/jobs/history_jobs.h"

#include <string.h>

#include "launcher/jobs/history_db.h"
#include "launcher/jobs/usage_report.h"

#define COLUMN(name, type, member)                       \
    {                                                    \
        name, type, offsetof(struct history_job, member) \
    }
static const struct history_column columns[] = {
    COLUMN("begin_ms", HISTORY_INT64, begin_ms),
    COLUMN("end_ms", HISTORY_INT64, end_ms),
    COLUMN("job", HISTORY_TEXT, job),
    COLUMN("program", HISTORY_TEXT, program),
    COLUMN("hash", HISTORY_TEXT, hash),
    COLUMN("batch", HISTORY_INT64, batch),
    COLUMN("gpu", HISTORY_TEXT, gpu),
    COLUMN("gpus", HISTORY_INT, gpus),
    COLUMN("status", HISTORY_INT, status),
    COLUMN("utilisation", HISTORY_REAL, utilisation),
    COLUMN("peak", HISTORY_INT64, peak_bytes),
    COLUMN("peak_of_all", HISTORY_INT, peak_of_all),
    COLUMN("memory", HISTORY_INT64, memory_bytes),
    COLUMN("peaks", HISTORY_TEXT, peaks),
    COLUMN("energy_j", HISTORY_REAL, energy_j),
    COLUMN("cost", HISTORY_REAL, cost),
};

static const struct history_table table = {.name = "job",
                                           .age = "end_ms",
                                           .columns = columns,
                                           .column_count = COUNT_OF(columns),
                                           .row_bytes = sizeof(struct history_job)};

int history_jobs_read(struct history_jobs *out, const struct history_command *of, struct err *e)
{
    struct history_rows rows;
    int rc = history_db_read(&rows, &table,
                             of ? "WHERE program = ?1 AND hash = ?2 "
                                  "ORDER BY end_ms DESC, rowid DESC LIMIT 100"
                                : "ORDER BY end_ms DESC, rowid DESC",
                             of ? of->program : NULL, of ? of->hash : NULL, e);
    *out = (struct history_jobs){rows.at, rows.count};
    return rc;
}

void history_jobs_end(struct history_jobs *l)
{
    history_db_end(&table, l->at, l->count);
    *l = (struct history_jobs){0};
}

int history_jobs_put(const struct history_job *j, struct err *e)
{
    return history_db_put(&table, j, 1, e);
}

static json_t *real(double value)
{
    return value >= 0 ? json_real(value) : NULL;
}

static json_t *integer(int64_t value)
{
    return value >= 0 ? json_integer(value) : NULL;
}

json_t *history_jobs_json(const struct history_job *j)
{
    json_t *peaks = NULL;
    (void)json_parse(&peaks, j->peaks, strlen(j->peaks), NULL);
    return json_pack("{s:o, s:o, s:s, s:I, s:I, s:i, s:i, s:o, s:o*, s:o*, s:o*, s:s*, s:o*, s:o*, "
                     "s:o*, s:o*}",
                     "job", json_text(j->job), "program", json_text(j->program), "hash", j->hash,
                     "begin_ms", (json_int_t)j->begin_ms, "end_ms", (json_int_t)j->end_ms, "status",
                     j->status, "gpus", j->gpus, "gpu", json_text(j->gpu), "batch",
                     integer(j->batch), "utilisation", real(j->utilisation), "peak_bytes",
                     integer(j->peak_bytes), "peak_of",
                     usage_report_peak_of(j->peak_bytes, j->peak_of_all), "memory_bytes",
                     integer(j->memory_bytes), "peaks", peaks, "energy_j", real(j->energy_j),
                     "cost", real(j->cost));
}
