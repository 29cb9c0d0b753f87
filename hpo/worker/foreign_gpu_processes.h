/* strangers - who uses this node's GPUs beside our trials: the driver is asked again and again, in
 * a second thread, since it may take its time. */
#ifndef DROVER_FOREIGN_GPU_PROCESSES_H
#define DROVER_FOREIGN_GPU_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/mem.h"

struct foreign_gpu_process {
    char uuid[96]; /* of the GPU, or the part of one */
    bool seen;     /* it is a process that is none of ours; false: memory is in use, and by whom
                      cannot be seen here: our own trials, where there are some */
    char who[256]; /* "process 4711 of bob (python train.py)"; "3 GiB of its memory are in use" */
};

/* Whether it descends from this process, or is it. */
bool foreign_gpu_processes_is_drover(pid_t pid);

/* One entry at most for each GPU. `count` -1: the driver did not answer, what it said before
 * stands. `asked_ms` is when it was asked, in uv_now()'s time. */
typedef void foreign_gpu_processes_fn(void *arg, const struct foreign_gpu_process *list, int count,
                                      int64_t asked_ms);

struct foreign_gpu_processes;

/* Looks at once, and every `period_ms` after an answer. Ours are this process's descendants. */
struct foreign_gpu_processes *foreign_gpu_processes_open(uv_loop_t *loop, int period_ms,
                                                         foreign_gpu_processes_fn *fn, void *arg);
/* Its handles close on the loop's next turns. Nothing is told any more. */
void foreign_gpu_processes_close(struct foreign_gpu_processes *s);
AUTO_DEFINE(foreign_gpu_processes, struct foreign_gpu_processes *, foreign_gpu_processes_close)

#endif
