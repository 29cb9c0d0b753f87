/* plan_hardware - names the hardware on which a job runs, so that its speed is compared only with
 * that of jobs on the same kind of hardware. Pure. The names do not depend on hosts. */
#pragma once

#include "launcher/plan/gpu_assignment.h"
#include "launcher/plan/plan.h"

/* Returns the CPU model of a node, and the GPUs that its `ranks` ranks use: "AMD EPYC 7763 64-Core
 * Processor with 8 x NVIDIA H100". The caller frees it. */
char *plan_hardware_node(const struct topo *t, const struct gpu_assignment *gpus, int ranks);

/* Returns the number of ranks, the hardware of the nodes, and the CPUs of a rank: "8 ranks on 1 x
 * AMD EPYC 7763, 8 bound cores per rank". The other nodes of an external part
 * (launch_external_part) are assumed to be like this one. The caller frees it. */
char *plan_hardware_job(const struct plan *p, const struct launch_spec *s);

/* Returns the number of GPUs that the ranks of a plan use. A GPU that several ranks share counts
 * once. */
int plan_hardware_gpus(const struct plan *p);
