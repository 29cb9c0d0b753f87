/* gpu_lock - locks on GPUs: a placed job holds one per GPU or MIG instance, so that no other
 * placement on this machine selects it.
 *
 * A lock is a name of the kernel (an abstract Unix socket, unix(7)) that contains the UUID, the
 * process and a random number. The kernel frees the name when the last process with the descriptor
 * has ended, in any way, so a lock needs no file, no permission and no cleanup, and is the same for
 * all users. The kernel tells the user that has bound a name, and names of users without access to
 * the GPUs' devices are ignored.
 *
 * A network namespace has its own names. So a lock is also a read lock (F_OFD_SETLK, fcntl(2)) of
 * one byte of a file that containers share, at a hash of the UUID: of NVML's library, which
 * container runtimes mount from the host; or of /dev/nvidiactl, if not all users may write to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
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

AUTO_DEFINE_STRUCT(gpu_locks, struct gpu_locks, gpu_locks_free)

/* Returns true if a process of this machine holds the lock of a GPU, in any container. */
bool gpu_lock_is_held(const char *uuid);
enum { GPU_LOCK_OF_CONTAINER = -1 };
/* Returns the process that has locked the GPU; 0: it is not locked; GPU_LOCK_OF_CONTAINER: the lock
 * is that of a process which this container or network namespace cannot see. A process may have
 * ended while its guardian still holds the lock. */
pid_t gpu_lock_owner(const char *uuid);

/* Returns true if a lock of the user counts: root's, this user's, and one of a user who may write
 * to one of the devices, a glob such as "/dev/nvidia[0-9]*". Without devices everybody's counts. A
 * device with an access control list counts as one for everybody. */
bool gpu_lock_user_may(const char *devices, uid_t uid);

/* Announces that a placement waits for any of these GPUs (UUIDs), and has done so since
 * `arrived_ns` (of CLOCK_BOOTTIME), so that later ones of this network namespace leave them to it.
 * Returns a descriptor that the caller closes when it waits no longer, or -errno. */
int gpu_lock_wait(const char *const *uuids, int count, uint64_t arrived_ns);
/* Returns true if a placement has waited for the GPU since before `arrived_ns`. */
bool gpu_lock_is_awaited(const char *uuid, uint64_t arrived_ns);

/* Returns a hash of all locks and waits of this network namespace: another one if one was made or
 * released. Cheaper than a look at each GPU. */
uint64_t gpu_lock_state(void);

/* Opens the file whose bytes are locked: `device` if it exists and not all users may write to it,
 * else NVML's library, which stays loaded. The caller closes the descriptor. -1: there is none. */
int gpu_lock_file(const char *device);

/* Waits until no other process selects GPUs, at most for a few seconds, so that two placements do
 * not lock parts of each other's sets. Returns a descriptor that the caller closes, or -1 if the
 * time has passed: the locks alone already keep a GPU from being used twice. */
int gpu_lock_selection(void);
