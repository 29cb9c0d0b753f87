/* top_local - reads what `drover top` shows of this machine. */
#pragma once

#include "launcher/top/top_node.h"
#include "launcher/watch/job_monitor.h"

/* Fills in the node, which must be empty: the latest reading of the GPUs, and the processes and
 * jobs of now. `late_ms`: a reading that is older is a problem of the driver, and is not shown. */
void top_local_read(struct top_node *out, struct job_monitor *gpus, int late_ms);
