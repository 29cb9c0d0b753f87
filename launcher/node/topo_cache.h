/* topo_cache - caches this machine's topology as XML for later commands.
 *
 * A file is used only if it and its directory belong to this user and no other user can write
 * them, its first line describes this machine in its present state, and its checksum is correct.
 * Any other file is ignored. Failure to write the cache is not an error. */
#pragma once

#include <stddef.h>

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
