/* checks - the checks of `drover doctor` in groups, each in a file of its own. A function returns
 * the rows of its group in static memory. */
#pragma once

#include "launcher/doctor/core/check.h"

const struct check *checks_host(size_t *count);
const struct check *checks_driver(size_t *count);
const struct check *checks_gpu(size_t *count);
const struct check *checks_link(size_t *count);
const struct check *checks_soft(size_t *count);
const struct check *checks_net(size_t *count);
const struct check *checks_store(size_t *count);
