/* checks_host - what the files of the group host share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/doctor/checks/checks.h"

/* Returns the ranks of this node. If they are unknown: one per GPU, or 1. */
int checks_host_ranks(const struct check_env *env);

/* Reads the number after `key` in lines such as "VmRSS:  12 kB" or "oom_kill 3". Returns false if
 * `text` is NULL or has no such line. */
bool checks_host_field(int64_t *out, const char *text, const char *key);

/* Returns the three processes with the largest numbers of kB at `key` in /proc/PID/status:
 * "python (pid 12) 3.5 GiB, …"; NULL: none. The caller frees it. */
char *checks_host_biggest(const char *key);

/* Returns a size as text: "1.5 GiB". */
struct checks_host_size {
    char text[16];
};
struct checks_host_size checks_host_size(uint64_t bytes);
