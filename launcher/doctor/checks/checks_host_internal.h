/* checks_host_internal - the checks of the group host, and what its files share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launcher/doctor/core/check.h"

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

/* checks_host_limits.c */
void checks_host_shm(struct check_result *r, struct check_env *env);
void checks_host_memlock(struct check_result *r, struct check_env *env);
void checks_host_nofile(struct check_result *r, struct check_env *env);
void checks_host_nproc(struct check_result *r, struct check_env *env);
void checks_host_cpus(struct check_result *r, struct check_env *env);
void checks_host_mem(struct check_result *r, struct check_env *env);

/* checks_host_files.c */
void checks_host_shm_left(struct check_result *r, struct check_env *env);
void checks_host_disk(struct check_result *r, struct check_env *env);
void checks_host_fs(struct check_result *r, struct check_env *env);
void checks_host_nfs_hang(struct check_result *r, struct check_env *env);

/* checks_host_kernel.c */
void checks_host_oom(struct check_result *r, struct check_env *env);
void checks_host_clock(struct check_result *r, struct check_env *env);
void checks_host_dstate(struct check_result *r, struct check_env *env);
void checks_host_thp(struct check_result *r, struct check_env *env);
void checks_host_governor(struct check_result *r, struct check_env *env);
void checks_host_numa_bal(struct check_result *r, struct check_env *env);
