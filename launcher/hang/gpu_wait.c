#include "launcher/hang/gpu_wait.h"

#include <stdbool.h>
#include <stdlib.h>

enum {
    SPINS_PERCENT = 95, /* utilisation from which a kernel runs all the time */
    IDLE_PERCENT = 5,   /* … and below which none does */
    /* Power of a wait: at most a third of the limit, which is a quarter of the way from idle to the
     * limit; from sample to sample it changes by 1 % of the limit at most */
    POWER_DIVISOR = 3,
    POWER_CHANGE_DIVISOR = 100,
    LINK_BYTES = 16 << 20 /* per second, or per sample: more is data */
};

enum gpu_wait gpu_wait_add(struct gpu_wait_state *s, const struct gpu_sample *g)
{
    int64_t busy, memory;
    if (!gpu_sample_get(&busy, g, GPU_FACT_BUSY) ||
        !gpu_sample_get(&memory, g, GPU_FACT_MEMORY_BUSY))
        return GPU_WAIT_UNKNOWN;
    int64_t limit_mw = gpu_sample_value(g, GPU_FACT_POWER_LIMIT, 0);
    int64_t power_mw = gpu_sample_value(g, GPU_FACT_POWER, 0);
    int64_t pcie =
        gpu_sample_value(g, GPU_FACT_PCIE_TX, 0) + gpu_sample_value(g, GPU_FACT_PCIE_RX, 0);
    int64_t nvlink =
        gpu_sample_value(g, GPU_FACT_NVLINK_TX, 0) + gpu_sample_value(g, GPU_FACT_NVLINK_RX, 0);
    bool is_steady =
        s->power_mw == 0 || llabs(power_mw - s->power_mw) * POWER_CHANGE_DIVISOR <= limit_mw;
    bool is_low = power_mw * POWER_DIVISOR <= limit_mw;
    bool moves =
        pcie > LINK_BYTES || (s->nvlink_bytes > 0 && nvlink - s->nvlink_bytes > LINK_BYTES);
    *s = (struct gpu_wait_state){.power_mw = power_mw, .nvlink_bytes = nvlink};
    if (memory > 0 || moves)
        return GPU_WAIT_WORKS;
    if (busy < IDLE_PERCENT)
        return GPU_WAIT_IDLE;
    bool waits = busy >= SPINS_PERCENT && (limit_mw == 0 || (is_low && is_steady));
    return waits ? GPU_WAIT_SPINS : GPU_WAIT_WORKS;
}
