/* topo_cache - cache of this machine's topology as XML, from one command to the next.
 *
 * A file is used only if it and its directory belong to this user and no other user can write
 * them, its first line describes this machine in its present state, and its checksum is correct.
 * Any other file is ignored. Failure to write the cache is not an error. */
#ifndef DROVER_TOPO_CACHE_H
#define DROVER_TOPO_CACHE_H

#include <stddef.h>

/* Returns the properties on which a topology depends: boot id, online CPUs, this process's CPUs
 * and memory nodes, hwloc's version. The caller frees it. NULL if /proc does not show them or the
 * user makes hwloc read another source (HWLOC_XMLFILE and the like): then nothing is cached. */
char *topo_cache_key(void);

/* Returns the XML that is cached under `key`, NUL-terminated; the caller frees it. NULL: not
 * cached. */
char *topo_cache_get(const char *key, size_t *len);

/* Stores the XML atomically: a reader sees the old file or the new one. */
void topo_cache_put(const char *key, const char *xml, size_t len);

#endif
