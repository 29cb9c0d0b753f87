#include "hpo/worker/sched_batch.h"

#include <sched.h>
#include <stdbool.h>

static const struct sched_param none = {0};
static bool changed;

void sched_batch_begin(void)
{
    if (sched_getscheduler(0) == SCHED_OTHER)
        changed = sched_setscheduler(0, SCHED_BATCH, &none) == 0; /* may fail: then no change */
}

void sched_batch_end(void)
{
    if (changed)
        (void)sched_setscheduler(0, SCHED_OTHER, &none); /* restores the previous policy */
    changed = false;
}
