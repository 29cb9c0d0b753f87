#include "collectives/bench/hardware_facts.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "collectives/bench/local/pcie_link.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/mem.h"

enum { COPY_BYTES = 32 << 20, COPIES = 3, CONFIG_BYTES = 4096 };

/* Reads the number at the start of a sysfs file; returns `missing` if there is none. */
static double read_number(const char *path, double missing)
{
    double value = missing;
    return file_scan(path, "%lf", &value) == 1 ? value : missing;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

/* Walks the extended capabilities of PCI to Access Control Services (PCI Express Base Specification
 * 7.7.11): id 13; the control word is 6 bytes after its start; bits 2 to 4 redirect requests
 * upstream. Needs root. */
static bool has_acs(const char *path)
{
    unsigned char c[CONFIG_BYTES];
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, c, sizeof c) != CONFIG_BYTES || c[0x0b] != 6 || c[0x0a] != 4)
        return false; /* class 6, 4: a bridge */
    unsigned at = 0x100;
    for (int steps = 0; steps < 64 && at >= 0x100 && at + 8 <= CONFIG_BYTES; steps++) {
        unsigned head = (unsigned)c[at] | (unsigned)c[at + 1] << 8 | (unsigned)c[at + 2] << 16 |
                        (unsigned)c[at + 3] << 24;
        if ((head & 0xffff) == 13)
            return c[at + 6] & 0x1c;
        at = head >> 20;
    }
    return false;
}

AUTO_DEFINE_STRUCT(glob, glob_t, globfree)

static bool any_acs(void)
{
    AUTO(glob) glob_t found = {0};
    bool acs = false;
    (void)glob("/sys/bus/pci/devices/*/config", 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc && !acs; i++)
        acs = has_acs(found.gl_pathv[i]);
    return acs;
}

/* sysfs shows the rate of an InfiniBand port as "400 Gb/sec (4X NDR)", that of a network interface
 * as 100000 (Mb/s). */
static void read_network(struct verdict_facts *f)
{
    const char *named = getenv("NCCL_SOCKET_IFNAME");
    AUTO(glob) glob_t ports = {0}, interfaces = {0};
    (void)glob("/sys/class/infiniband/*/ports/*/rate", 0, NULL, &ports);
    (void)glob("/sys/class/net/*/speed", 0, NULL, &interfaces);
    for (size_t i = 0; i < ports.gl_pathc; i++)
        f->rdma_gbit += read_number(ports.gl_pathv[i], 0);
    for (size_t i = 0; i < interfaces.gl_pathc; i++) {
        double gbit = read_number(interfaces.gl_pathv[i], 0) / 1000;
        char name[64] = "";
        sscanf(interfaces.gl_pathv[i], "/sys/class/net/%63[^/]", name);
        f->net_gbit = fmax(f->net_gbit, gbit);
        if (named && strcmp(named, name) == 0)
            f->named_gbit = fmax(gbit, 0);
    }
}

/* Returns the rate in GB/s of the best of COPIES copies between buffers whose pages are already
 * mapped. */
static double copy_rate(void)
{
    AUTO(free) char *from = try_calloc(1, COPY_BYTES), *to = try_calloc(1, COPY_BYTES);
    double best = 0;
    if (!from || !to)
        return 0;
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    for (int i = 0; i < COPIES; i++) {
        double begin = clock_s();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory"); /* keeps the copy from being optimised away */
        best = fmax(best, COPY_BYTES / 1e9 / (clock_s() - begin));
    }
    return best;
}

void hardware_facts_read(struct verdict_facts *out, const struct bench_report_device *self,
                         bool gpu)
{
    memset(out, 0, sizeof *out); /* the struct is sent with its padding */
    snprintf(out->host, sizeof out->host, "%s", self->host);
    if (gpu) {
        snprintf(out->gpu, sizeof out->gpu, "%.95s", self->is.name);
        struct pcie_link link;
        pcie_link_read(&link, "/sys", self->is.pci_domain, self->is.pci_bus, self->is.pci_device);
        out->pcie_gen = link.generation;
        out->pcie_width = link.width;
        out->pcie_width_max = link.width_max;
        out->acs = any_acs();
    } else {
        out->memory_gbps = copy_rate();
    }
    AUTO(free)
    char *package =
        xasprintf("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", sched_getcpu());
    out->package = (int)read_number(package, -1);
    read_network(out);
    struct statvfs shm;
    out->shm_bytes =
        statvfs("/dev/shm", &shm) == 0 ? (uint64_t)shm.f_bavail * shm.f_frsize : UINT64_MAX;
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    out->nvls_off = nvls && strcmp(nvls, "0") == 0;
    out->p2p_off = is_set("NCCL_P2P_DISABLE");
    out->ib_off = is_set("NCCL_IB_DISABLE");
    out->shm_off = is_set("NCCL_SHM_DISABLE");
    out->gpudirect = access("/sys/module/nvidia_peermem", F_OK) == 0 ||
                     access("/sys/module/nv_peer_mem", F_OK) == 0;
}
