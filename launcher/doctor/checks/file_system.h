/* file_system - recognises network file systems. */
#pragma once

#include <stdbool.h>

/* Returns the name of the network file system of a directory ("NFS"), in static memory; NULL: a
 * local one, or unknown. */
const char *file_system_network(const char *dir);

/* Returns true if `type`, as in /proc/mounts, is a network file system or one in user space. */
bool file_system_may_hang(const char *type);
