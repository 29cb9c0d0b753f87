/* topo - one machine: its cores, caches, NUMA nodes and devices (hwloc), its GPUs, and what of it
 * this process may use. This machine, or one that was recorded in a file. */
#ifndef DROVER_TOPO_H
#define DROVER_TOPO_H

#include <hwloc.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/node/gpu.h"

struct topo;

/* This machine. Discovery with PCI devices takes 10 to 20 ms, so its result is kept as XML in
 * ${XDG_CACHE_HOME:-~/.cache}/drover (half a millisecond) until the machine boots, its CPUs or what
 * this process may use of them change, or hwloc does (topo_cache.h). A GPU driver that does not
 * answer is a warning, not a failure. For a process with one thread: the first call changes its
 * environment for a moment (HWLOC_PLUGINS_PATH).
 *   -EIO  hwloc cannot tell what this machine is */
int topo_load(struct topo **out, struct err *e);

/* A recorded machine: what `lstopo NAME.xml` writes and, where there is one beside it,
 * NAME.gpus.json: [{"index": 0, "uuid": "GPU-…", "name": "…", "bus_id": "0000:07:00.0",
 * "numa": 3, "parts": ["MIG-…"]}, …] ("numa" and "parts" may be left out; the first follows from
 * bus_id). Without that file the GPUs are
 * the XML's NVIDIA display and 3D controllers, in the order of the bus. The root object's infos
 * HostName and CpuQuota are the machine's name and its limit of CPU time, in CPUs.
 *   -EINVAL, -EIO, -ENOENT  a file is missing or is not what it should be */
int topo_load_file(struct topo **out, const char *xml_path, struct err *e);

/* The machine as bytes, for another one: a JSON object. To be freed.
 *   -EIO  hwloc cannot write it */
int topo_export(char **out, size_t *len, const struct topo *t, struct err *e);
/* What topo_export() wrote on another machine.
 *   -EINVAL  it is not that */
int topo_import(struct topo **out, const char *bytes, size_t len, struct err *e);

void topo_free(struct topo *t);
AUTO_DEFINE(topo, struct topo *, topo_free)

/* Borrowed. Of this machine it can be bound with and handed to PMIx (PMIX_TOPOLOGY2). */
hwloc_topology_t topo_hwloc(const struct topo *t);

/* The host's name. Borrowed. */
const char *topo_name(const struct topo *t);

/* The hardware threads that this process may use (OS indexes): the machine's, inside its cgroup's
 * cpuset and its own affinity. Never empty. Borrowed. */
hwloc_const_bitmap_t topo_allowed(const struct topo *t);

/* How many CPUs' time this process's cgroup may use (cpu.max, rounded up); 0: as much as there is.
 */
int topo_cpu_quota(const struct topo *t);

int topo_gpu_count(const struct topo *t);
/* The i-th of them, in the driver's order; its .index is what CUDA_VISIBLE_DEVICES means. Borrowed.
 */
const struct gpu *topo_gpu(const struct topo *t, int i);

/* The GPU, or the part of one, that a word of a list means: an index, or a UUID or its beginning
 * where that is unique ("GPU-5c8b", "MIG-5a1f"), as CUDA takes them. `*uuid` is its own; both are
 * borrowed. False: there is none. */
bool topo_find_gpu(const struct gpu **gpu, const char **uuid, const struct topo *t,
                   const char *word, size_t len);

/* Reads a list of numbers as the kernel writes them ("0-3,8") into `set`, which is overwritten.
 *   -EINVAL  it is no such list, or a number is above 65,535; `set` is then unchanged */
int cpu_list_parse(hwloc_bitmap_t set, const char *text, struct err *e);

static inline void auto_bitmap(hwloc_bitmap_t *b)
{
    hwloc_bitmap_free(*b);
}

#endif
