/* gpu_lock - locks on GPUs: a placed job holds one per GPU or MIG instance, so that no other
 * placement on this machine selects it.
 *
 * A lock is a name of the kernel (an abstract Unix socket, unix(7)) that contains the UUID. The
 * kernel frees the name when the last process with the descriptor has ended, in any way, so a lock
 * needs no file, no permission and no cleanup, and is the same for all users. A network namespace
 * has its own names: jobs in different containers do not see each other's locks. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/mem.h"

/* The descriptors of some locks. Zero-initialised, it has none. */
struct gpu_locks {
    int *fds;
    int count;
};

/* Locks a GPU, and keeps the lock in `l`. The descriptors close on exec.
 *   -EBUSY   another placement holds it
 *   -EINVAL  the UUID is empty or too long for a name
 *   -errno   no socket can be opened */
int gpu_locks_add(struct gpu_locks *l, const char *uuid, struct err *e);
/* Closes the descriptors of this process. A lock lasts until the other processes that hold a copy,
 * such as the guardian, have ended. */
void gpu_locks_free(struct gpu_locks *l);

static inline void auto_gpu_locks(struct gpu_locks *l)
{
    gpu_locks_free(l);
}

/* Returns true if a process of this machine holds the lock of a GPU. */
bool gpu_lock_is_held(const char *uuid);
/* Returns the process that has locked the GPU; 0: unknown, or not locked. It may have ended while
 * its guardian still holds the lock. */
pid_t gpu_lock_owner(const char *uuid);

/* Waits until no other process selects GPUs, at most for a few seconds, so that two placements do
 * not lock parts of each other's sets. Returns a descriptor that the caller closes, or -1 if the
 * time has passed: the locks alone already keep a GPU from being used twice. */
int gpu_lock_selection(void);
