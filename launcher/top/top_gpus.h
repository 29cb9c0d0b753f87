/* top_gpus - reads the GPUs of this machine and their processes again and again, in a thread: the
 * driver may hang, and nothing waits for it. */
#pragma once

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"

struct top_gpus;

/* What the driver has reported last. */
struct top_gpus_reading {
    struct gpu_sample *samples;
    int count;
    char problem[512]; /* why there are none; empty: there is a reading, or none yet */
    int64_t number;    /* counts the readings; 0: none yet */
    int64_t at_ms;     /* clock_ms() of the reading; before the first one, of the start */
};
void top_gpus_reading_end(struct top_gpus_reading *r);
static inline void auto_top_gpus_reading(struct top_gpus_reading *r)
{
    top_gpus_reading_end(r);
}

/* Starts to read. Returns NULL if no thread can be started. */
struct top_gpus *top_gpus_open(int interval_ms);
/* Returns at once. The thread ends by itself. */
void top_gpus_close(struct top_gpus *g);
AUTO_DEFINE(top_gpus, struct top_gpus *, top_gpus_close)

/* Returns the number of the latest reading. Neither this nor the next waits for the
 * driver. */
int64_t top_gpus_number(struct top_gpus *g);
/* Copies the latest reading; the caller ends it. */
void top_gpus_latest(struct top_gpus *g, struct top_gpus_reading *out);
