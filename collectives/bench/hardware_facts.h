/* bench_facts - what a rank sees of its machine that bears on how fast collectives can be: sysfs,
 * the environment, and a copy of memory. Takes some 50 ms. */
#ifndef DROVER_HARDWARE_FACTS_H
#define DROVER_HARDWARE_FACTS_H

#include "collectives/bench/bench_report.h"
#include "collectives/bench/verdict.h"

/* `self` is this rank's line of the head; `gpu` says that it computes on a GPU. What cannot be read
 * stays "not known". */
void hardware_facts_read(struct verdict_facts *out, const struct bench_report_device *self,
                         bool gpu);

#endif
