/* gpu_users - the processes that use a GPU, for people. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Writes "process 4711 of bob (python train.py)". The command is empty if it cannot be read. A
 * process that has ended, or is in another namespace, is "not visible here". */
void gpu_users_describe(char *out, size_t size, pid_t pid);

/* The same for the owner of the GPU's lock: "the placed job of process 4711 of …". */
void gpu_users_describe_lock(char *out, size_t size, const char *uuid);
