/* hardware_facts - reads the facts about a rank's node that the verdict needs.
 *
 * The sources are sysfs, the environment, and the rate of a memory copy. */
#pragma once

#include "collectives/bench/analysis/verdict.h"
#include "collectives/bench/bench_report.h"

/* Reads the facts; takes about 50 ms. `self` is this rank's device; `gpu` is true if the rank
 * computes on a GPU. A fact that cannot be read stays "not known". */
void hardware_facts_read(struct verdict_facts *out, const struct bench_report_device *self,
                         bool gpu);
