/* gpu_sample - what the GPUs of this machine do at one moment, as NVML reports it.
 *
 * A value that the driver does not report, as for MIG instances, is UNKNOWN; it never becomes 0. */
#ifndef DROVER_GPU_SAMPLE_H
#define DROVER_GPU_SAMPLE_H

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    GPU_SAMPLE_UNKNOWN = -1,
    GPU_SAMPLE_THROTTLED = 0xe8 /* bits of throttle_reasons: heat, or too little power */
};

struct gpu_sample {
    char uuid[96]; /* of a GPU without MIG, or of a MIG instance */
    char name[96];
    char bus_id[24];
    int index;          /* the driver's index */
    int busy_percent;   /* share of the driver's last sample period in which a kernel ran */
    int memory_percent; /* share of it in which memory was read or written */
    int64_t memory_used_bytes, memory_total_bytes; /* used: by all processes */
    double power_w, power_limit_w;
    int64_t energy_mj; /* millijoules since the driver was loaded */
    int temperature_c;
    int sm_mhz, memory_mhz;
    int64_t throttle_reasons; /* bits of nvmlDeviceGetCurrentClocksEventReasons() */
    int64_t pcie_tx_bytes_per_s, pcie_rx_bytes_per_s; /* over the driver's last 20 ms */
    int64_t nvlink_tx_bytes, nvlink_rx_bytes;         /* counters: since the driver was loaded */
    int64_t pcie_max_bytes_per_s, nvlink_max_bytes_per_s; /* what the links carry per direction */
};

struct gpu_sampler;

/* Loads NVML once and keeps it open. `uuids`: a strv, which is copied; NULL: all GPUs and MIG
 * instances of this machine.
 *   -ENODEV  no driver, no library, or none of these GPUs
 *   -EIO     there is a driver, but it does not respond */
int gpu_sampler_open(struct gpu_sampler **out, char *const *uuids, struct err *e);
void gpu_sampler_close(struct gpu_sampler *s);
AUTO_DEFINE(gpu_sampler, struct gpu_sampler *, gpu_sampler_close)

/* Returns the number of GPUs, which does not change. */
int gpu_sampler_count(const struct gpu_sampler *s);
/* Fills out[0 … count - 1]. May take tens of milliseconds, or hang in the driver: call it from a
 * thread that nothing waits for. A GPU that the driver has lost has only unknown values. */
void gpu_sampler_read(struct gpu_sampler *s, struct gpu_sample *out);

#endif
