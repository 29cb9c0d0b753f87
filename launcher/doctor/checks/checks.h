/* checks - the checks of `drover doctor` in groups, each in a file of its own: the rows, and an
 * empty one. */
#pragma once

#include "launcher/doctor/core/check.h"

extern const struct check checks_host_limits[], checks_host_files[], checks_host_kernel[],
    checks_driver[], checks_gpu[], checks_gpu_each[], checks_link[], checks_soft[], checks_net[],
    checks_store[];
