/* checks_gpu_internal - the checks of single GPUs (checks_gpu_each.c), for the rows in
 * checks_gpu.c. */
#pragma once

#include "launcher/doctor/core/check.h"

void checks_gpu_ecc(struct check_result *r, struct check_env *env);
void checks_gpu_remap(struct check_result *r, struct check_env *env);
void checks_gpu_temp(struct check_result *r, struct check_env *env);
void checks_gpu_slow(struct check_result *r, struct check_env *env);
void checks_gpu_pcie(struct check_result *r, struct check_env *env);
void checks_gpu_busy(struct check_result *r, struct check_env *env);
void checks_gpu_mode(struct check_result *r, struct check_env *env);
void checks_gpu_same(struct check_result *r, struct check_env *env);
void checks_gpu_arch(struct check_result *r, struct check_env *env);
