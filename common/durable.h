/* durable - files that survive a power failure: the kernel writes a file's bytes to the disk when
 * it is synced, and its name when its directory is synced. */
#pragma once

/* Syncs the directory that contains `path`, and with it a name that was made or replaced there.
 * Returns 0 or a negative errno. */
int durable_sync_dir_of(const char *path);

/* Replaces `path` by the file or directory `tmp`, which is in the same directory and is already
 * synced. Returns 0 or a negative errno. */
int durable_rename(const char *tmp, const char *path);

/* Returns the name of the network file system of a file or directory ("NFS"), in static memory;
 * NULL: a local one, or unknown. */
const char *durable_network(const char *path);
