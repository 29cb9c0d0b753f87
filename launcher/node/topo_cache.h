/* topo_cache - this machine's topology as XML, kept from one command to the next.
 *
 * A file is read only where its directory and itself belong to this user and to nobody else's
 * pen, its first line says that it is about this machine in its present state, and its checksum
 * is right. Whatever else is found there is ignored; a cache that cannot be written is no error. */
#ifndef DROVER_TOPO_CACHE_H
#define DROVER_TOPO_CACHE_H

#include <stddef.h>

/* What a topology depends on: boot id, online CPUs, this process's CPUs and memory nodes, hwloc's
 * version. To be freed; NULL where /proc does not say or the user has hwloc look elsewhere
 * (HWLOC_XMLFILE and the like): then nothing is kept. */
char *topo_cache_key(void);

/* The XML that was kept under `key`, NUL-terminated, to be freed; NULL where there is none. */
char *topo_cache_get(const char *key, size_t *len);

/* Keeps it, in one step: a reader sees the old file or the new one. */
void topo_cache_put(const char *key, const char *xml, size_t len);

#endif
