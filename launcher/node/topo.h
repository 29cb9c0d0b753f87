/* topo - topology of a machine: cores, caches, NUMA nodes and devices (hwloc), GPUs (NVML), and
 * the parts that this process may use. Either this machine, or one that was recorded in a file. */
#pragma once

#include <hwloc.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/gpu/gpu.h"
#include "launcher/node/cpu_list.h"
#include "launcher/node/topo_known.h"

struct topo;

/* Loads the topology of this machine. Discovery with PCI devices takes 10 to 20 ms. So the result
 * is cached as XML in ${XDG_CACHE_HOME:-~/.cache}/drover, from which it is read in half a
 * millisecond (topo_cache_key()). The cache becomes invalid when the machine boots, when its CPUs
 * or those that this process may use change, and with another version of hwloc. A GPU driver that
 * does not respond causes a warning, not a failure. Call this only from a process with one thread,
 * since the first call changes the environment for a moment (HWLOC_PLUGINS_PATH). -EIO  hwloc
 * cannot discover the topology */
int topo_load(struct topo **out, struct err *e);
/* The same, with a time limit for NVIDIA's driver, which topo_load() gives TOPO_DRIVER_MS: without
 * its persistence mode, it needs seconds for several GPUs. */
enum { TOPO_DRIVER_MS = 30000 };
int topo_load_within(struct topo **out, int driver_ms, struct err *e);

/* Adds the NVLinks of the GPUs, which topo_load() leaves out: a job does not need them.
 *   -EIO  the driver does not respond */
int topo_add_nvlinks(struct topo *t, struct err *e);

/* Loads a recorded machine: the output of `lstopo NAME.xml` and, if it exists next to it,
 * NAME.gpus.json: [{"index": 0, "uuid": "GPU-…", "name": "…", "bus_id": "0000:07:00.0", "numa": 3,
 * "parts": ["MIG-…"]}, …]. "numa" and "parts" (the MIG instances) are optional; without "numa" the
 * NUMA node follows from bus_id. "nvlinks" is optional, too: {"0000:0f:00.0": 4} or
 * {"switch": 18}, the number of active links to a GPU or to all NVSwitches. If there is no such
 * file, the GPUs are the XML's NVIDIA display and 3D controllers, in PCI bus order. The root
 * object's infos HostName and CpuQuota are the machine's name and its limit of CPU time, in CPUs.
 *   -EINVAL, -EIO, -ENOENT  a file is missing or malformed */
int topo_load_file(struct topo **out, const char *xml_path, struct err *e);

/* Serialises the topology for another machine as a line without its end: a JSON object, a tab, and
 * hwloc's XML with tabs instead of newlines. (JSON would need most of the time to read the XML.)
 * The caller frees `*out`. -EIO  hwloc cannot export the topology */
int topo_export(char **out, size_t *len, const struct topo *t, struct err *e);
/* Loads what topo_export() returned on another machine. With `known` (NULL: none), equal machines
 * share one topology of hwloc.
 *   -EINVAL  malformed */
int topo_import(struct topo **out, struct topo_known *known, const char *bytes, size_t len,
                struct err *e);

void topo_free(struct topo *t);
AUTO_DEFINE(topo, struct topo *, topo_free)

/* Returns hwloc's topology, borrowed. If it is that of this machine, it may be used for binding and
 * be passed to PMIx (PMIX_TOPOLOGY2). */
hwloc_topology_t topo_hwloc(const struct topo *t);

/* Returns the host name, borrowed. */
const char *topo_name(const struct topo *t);

/* Returns the hardware threads that this process may use (OS indexes): those in its cgroup's cpuset
 * and in its own affinity. The set is never empty. Borrowed. */
hwloc_const_bitmap_t topo_allowed(const struct topo *t);

/* Returns the CPU time that this process's cgroup allows, in CPUs (cpu.max, rounded up); 0: no
 * limit. */
int topo_cpu_quota(const struct topo *t);

/* Returns true if the kernel refused to bind this process to the CPUs that it has: the seccomp
 * filter of a sandbox forbids sched_setaffinity(). */
bool topo_is_unbindable(const struct topo *t);

int topo_gpu_count(const struct topo *t);
/* Returns true if NVIDIA's driver did not respond when this machine's topology was loaded. */
bool topo_driver_failed(const struct topo *t);
/* Returns the i-th GPU in the driver's order, borrowed. Its member `index` is the index for
 * CUDA_VISIBLE_DEVICES. */
const struct gpu *topo_gpu(const struct topo *t, int i);

/* Finds the GPU or MIG instance that a word of a list names: by index, by UUID, or by a unique
 * prefix of a UUID ("GPU-5c8b", "MIG-5a1f"), as CUDA does. `*gpu` and `*uuid` are borrowed.
 * Returns false if there is none. */
bool topo_find_gpu(const struct gpu **gpu, const char **uuid, const struct topo *t,
                   const char *word, size_t len);

/* ---- cache ---------------------------------------------------------------------------------- */

/* A file of the cache is used only if it and its directory belong to this user and no other user
 * can write them, its first line describes this machine in its present state, and its checksum is
 * correct. Any other file is ignored. Failure to write the cache is not an error. */

/* Returns a text with the properties on which a topology depends: boot id, online CPUs, this
 * process's CPUs and memory nodes, hwloc's version. The caller frees it. Returns NULL, and nothing
 * is cached, if /proc does not show these properties, or if the user makes hwloc read another
 * source (such as HWLOC_XMLFILE). */
char *topo_cache_key(void);

/* Returns the XML that is cached under `key`, or NULL if there is none. It is NUL-terminated; the
 * caller frees it. */
char *topo_cache_get(const char *key, size_t *len);

/* Stores the XML atomically: a reader sees the old file or the new one. */
void topo_cache_put(const char *key, const char *xml, size_t len);
