/* metrics_gpu - what GPUs do, as metrics with the names and labels of dcgm-exporter. Pure. */
#pragma once

#include "launcher/gpu/gpu_sample.h"
#include "launcher/metrics/metrics_text.h"

/* Adds the values of `count` GPUs of the machine `host`. An unknown value is left out. */
void metrics_gpu_add(struct metrics_text *t, const struct gpu_sample *gpus, int count,
                     const char *host);
