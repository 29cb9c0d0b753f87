#include "launcher/estimate/estimate_peaks.h"

#include <limits.h>

#include "common/mem.h"
#include "launcher/jobs/history_peaks.h"

int estimate_peaks_read(struct estimate_peak **out, size_t *count, const struct history_command *c,
                        struct err *e)
{
    AUTO(free) struct history_peak *stored = NULL;
    int n = 0;
    *out = NULL;
    *count = 0;
    int rc = history_peaks_read(&stored, &n, c->program, c->hash, e);
    if (rc < 0)
        return rc;
    *out = xcalloc((size_t)n + 1, sizeof **out);
    for (int i = 0; i < n; i++)
        if (stored[i].batch > 0 && stored[i].batch <= INT_MAX && stored[i].peak_bytes > 0)
            (*out)[(*count)++] = (struct estimate_peak){.batch = (int)stored[i].batch,
                                                        .bytes = (uint64_t)stored[i].peak_bytes};
    return 0;
}
