#include "launcher/estimate/estimate_peaks.h"

#include <limits.h>

#include "common/mem.h"
#include "launcher/jobs/history_jobs.h"

int estimate_peaks_read(struct estimate_peak **out, size_t *count, const struct history_command *c,
                        struct err *e)
{
    struct history_jobs stored;
    int rc = history_jobs_read(&stored, c, e);
    *out = xcalloc(stored.count + 1, sizeof **out);
    *count = 0;
    for (size_t i = 0; i < stored.count && rc == 0; i++)
        if (stored.at[i].batch > 0 && stored.at[i].batch <= INT_MAX)
            (*out)[(*count)++] = (struct estimate_peak){.batch = (int)stored.at[i].batch,
                                                        .bytes = (uint64_t)stored.at[i].peak_bytes};
    history_jobs_end(&stored);
    return rc;
}
