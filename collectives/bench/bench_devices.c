#include "collectives/bench/bench.h"

#include <string.h>
#include <unistd.h>

#include "collectives/bench/local/local_device.h"
#include "common/file.h"
#include "common/mem.h"
#include "launcher/client/client_internal.h"

#define NCCL_BYTES_MAX (UINT64_C(2) << 30) /* per GPU, for NCCL's own buffers */

/* Memory that the kernel can give to programs, with what it would take from its caches; 0: not
 * known. */
static uint64_t available_bytes(void)
{
    AUTO(free) char *kib = file_field("/proc/meminfo", "MemAvailable:");
    return kib ? (uint64_t)strtoull(kib, NULL, 10) << 10 : 0;
}

int bench_devices(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
                  struct bench_report_device *devices, struct err *e)
{
    const struct backend *backend = comm_backend(c);
    struct bench_report_device mine;
    memset(&mine, 0, sizeof mine);
    mine.rank = drover_rank(d);
    mine.group = rank_groups_color(&o->split, mine.rank);
    mine.pid = (int)getpid();
    (void)gethostname(mine.host, sizeof mine.host - 1); /* on failure it stays empty */
    mine.host[strcspn(mine.host, ".")] = '\0';
    if (backend->device) {
        backend->device(comm_inner(c), &mine.is);
        uint64_t available = mine.is.integrated ? available_bytes() : 0;
        if (available && available < mine.is.free_bytes)
            mine.is.free_bytes = available;
    } else {
        mine.is.index = drover_local_rank(d);
        mine.is.free_bytes = available_bytes();
        local_device_cpu_name(mine.is.name, sizeof mine.is.name);
    }
    int rc = comm_gather(c, &mine, sizeof mine, devices, o->wait_ms);
    if (rc < 0)
        *e = *client_err(d);
    return rc;
}

/* Ranks on one GPU share its free memory, and so do ranks on the CPUs of one host. An eighth of it,
 * at most NCCL_BYTES_MAX, is left to NCCL.
 */
uint64_t bench_max_bytes(const struct bench_opts *o, const struct bench_report_device *devices,
                         int n)
{
    uint64_t max_bytes = UINT64_MAX;
    uint64_t overhead = 2 * BUFFERS_GUARD + (uint64_t)o->unalign * sizeof(double);
    for (int r = 0; r < n; r++) {
        const struct bench_report_device *d = &devices[r];
        uint64_t sharers = 0;
        for (int k = 0; k < n; k++)
            sharers += strcmp(devices[k].host, d->host) == 0 &&
                       devices[k].is.pci_domain == d->is.pci_domain &&
                       devices[k].is.pci_bus == d->is.pci_bus &&
                       devices[k].is.pci_device == d->is.pci_device;
        uint64_t nccl =
            d->is.free_bytes / 8 < NCCL_BYTES_MAX ? d->is.free_bytes / 8 : NCCL_BYTES_MAX;
        uint64_t buffer = (d->is.free_bytes - nccl) / 2 / sharers;
        buffer = buffer > overhead ? buffer - overhead : 1;
        max_bytes = d->is.free_bytes && buffer < max_bytes ? buffer : max_bytes;
    }
    return max_bytes;
}
