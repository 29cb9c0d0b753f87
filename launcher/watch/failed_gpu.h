/* failed_gpu - what the GPU of a rank has done until the rank failed, as a line of the failure
 * report and in the event `ended`. Pure. */
#pragma once

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/watch/job_usage.h"

struct failed_gpu {
    int index; /* on its node */
    const struct job_usage_gpu *gpu;
    double epoch_s; /* what a time of the samples lacks to the seconds since 1970 … */
    long zone_s;    /* … and these to the local time */
};

/* Appends "  GPU 3 (NVIDIA H100): Xid 79 at 12:01:03: the GPU has fallen off the bus, restart the
 * machine; 2 new uncorrected ECC errors; throttled 40 % of the time (hot); memory peak 78.2 of 80
 * GiB", and a newline. Appends nothing if nothing is known. */
void failed_gpu_write(struct strbuf *b, const struct failed_gpu *f);
/* Returns the same (new reference); unknown figures are left out. */
json_t *failed_gpu_json(const struct failed_gpu *f);
