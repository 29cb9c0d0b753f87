/* slow_rank - for LD_PRELOAD: on rank 0 each fsync() takes SLOW_RANK_MS more, and limits on time
 * pass 300 times as fast: those of drover_wait() and alarm(). A training must end as it would
 * without. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FASTER = 300 };

struct drover_comm;

int fsync(int fd)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *rank = getenv("RANK"), *ms = getenv("SLOW_RANK_MS");
    struct timespec pause = {.tv_nsec =
                                 rank && strcmp(rank, "0") == 0 && ms ? atol(ms) * 1000000 : 0};
    nanosleep(&pause, NULL);
    return next(fd);
}

int drover_wait(struct drover_comm *c, int64_t timeout_ms)
{
    int (*next)(struct drover_comm *, int64_t) =
        (int (*)(struct drover_comm *, int64_t))dlsym(RTLD_NEXT, "drover_wait");
    return next(c, timeout_ms / FASTER);
}

unsigned alarm(unsigned seconds)
{
    return (unsigned)ualarm(seconds * 1000000 / FASTER, 0);
}
