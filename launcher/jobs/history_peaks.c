#include "launcher/jobs/history_peaks.h"

#include "launcher/jobs/history_db.h"

int history_peaks_read(struct history_peak **out, int *count, const char *program, const char *hash,
                       struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    AUTO(free) struct history_peak *peaks = NULL;
    sqlite3_stmt *st = NULL;
    *out = NULL;
    *count = 0;
    int rc = history_db_query(&h, &st,
                              "SELECT batch, peak, gpu FROM job WHERE program = ?1 AND peak > 0 "
                              "AND (?2 IS NULL OR hash = ?2) "
                              "ORDER BY end_ms DESC, rowid DESC LIMIT ?3",
                              e);
    if (rc < 0 || !st)
        return rc;
    sqlite3_bind_text(st, 1, program, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, hash, -1, SQLITE_STATIC); /* NULL binds NULL */
    sqlite3_bind_int64(st, 3, HISTORY_PEAKS_MAX);
    int step, n = 0;
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        AUTO(free) char *gpu = history_db_text(st, 2);
        peaks = xrealloc(peaks, (size_t)n + 1, sizeof *peaks);
        peaks[n] = (struct history_peak){.batch = sqlite3_column_int64(st, 0),
                                         .peak_bytes = sqlite3_column_int64(st, 1)};
        snprintf(peaks[n++].gpu, sizeof peaks->gpu, "%s", gpu);
    }
    rc = step == SQLITE_DONE ? 0 : history_db_failed(h, e);
    sqlite3_finalize(st);
    if (rc < 0)
        return rc;
    *count = n;
    *out = TAKE(peaks);
    return 0;
}
