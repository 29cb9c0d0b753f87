/* topo_path - how the devices of a machine are connected, in the terms of `nvidia-smi topo -m`, and
 * the network interfaces with a PCI device. Pure: reads a struct topo. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "launcher/node/topo.h"

/* From near to far. */
enum topo_path {
    TOPO_PATH_SELF, /* the same device */
    TOPO_PATH_PIX,  /* below one PCIe switch: at most one bridge from each device to it */
    TOPO_PATH_PXB,  /* below several PCIe bridges, but not through the host bridge */
    TOPO_PATH_PHB,  /* through one host bridge, usually the CPU */
    TOPO_PATH_NODE, /* through several host bridges of one NUMA node */
    TOPO_PATH_SYS,  /* through the link between NUMA nodes, or unknown */
    TOPO_PATHS
};

/* Returns how two PCI devices are connected. The arguments are bus ids ("0000:07:00.0"). */
enum topo_path topo_path(const struct topo *t, const char *bus_a, const char *bus_b);

extern const struct topo_path_words {
    const char *name;    /* "X", "PIX", "PXB", "PHB", "NODE" or "SYS" */
    const char *meaning; /* for legends */
} topo_path_words[TOPO_PATHS];

/* Returns the number of NVLinks between two GPUs: the direct ones, or, if both are connected to
 * NVSwitches, those of the GPU that has fewer. 0: none, or unknown (gpu_add_nvlinks()). */
int topo_nvlinks(const struct gpu *a, const struct gpu *b);

struct topo_nic {
    const char *name; /* "mlx5_0" or "eth0"; borrowed from the topology */
    char bus_id[24];
    bool rdma; /* InfiniBand or RoCE: a device of the verbs interface */
};

/* Lists the network interfaces that have a PCI device, in the order of the bus: those with RDMA, or
 * all if none has. The caller frees *out. Returns their number. */
size_t topo_nics(struct topo_nic **out, const struct topo *t);

/* Returns true if the machine has, or may have, a network that MPI libraries use by other means
 * than TCP: InfiniBand, RoCE, Omni-Path, BXI, Slingshot, EFA. A network card without a driver
 * counts if only such networks have it, since the driver may be loaded later than the topology. */
bool topo_has_fabric(const struct topo *t);

/* Returns the interface that a GPU should use: the nearest one. GPUs for which the same interfaces
 * are nearest share them in turn, by their index. Returns -1 if there is none. */
int topo_nearest_nic(const struct topo *t, const struct topo_nic *nics, size_t n, int gpu);

/* Returns the CPUs near a device that this process may use; the caller frees it. All that are
 * allowed, if the device's place is unknown. */
hwloc_bitmap_t topo_cpus_near(const struct topo *t, const char *bus_id);
