/* file_system - recognises network file systems. */
#pragma once

#include <stdbool.h>

/* Returns true if `type`, as in /proc/mounts, is a network file system or one in user space. */
bool file_system_may_hang(const char *type);
