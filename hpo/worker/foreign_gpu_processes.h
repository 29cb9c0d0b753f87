/* foreign_gpu_processes - scans of this node's GPUs for processes outside drover. A second thread
 * asks the driver periodically, since the answer may take long. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/mem.h"

struct foreign_gpu_process {
    char uuid[96];  /* of the GPU or MIG instance */
    bool seen;      /* it is a process outside drover; false: memory is in use, and the process is
                       not visible from here: it may be a trial of this worker */
    char text[256]; /* "process 4711 of bob (python train.py)"; "3 GiB of its memory are in use" */
};

/* At most one entry per GPU. `count` -1: the driver did not answer, and the last answer stays
 * valid. `asked_ms` is when the driver was asked, in uv_now()'s time. */
typedef void foreign_gpu_processes_fn(void *arg, const struct foreign_gpu_process *list, int count,
                                      int64_t asked_ms);

struct foreign_gpu_processes;

/* Scans at once, and `period_ms` after each answer. Descendants of this process are not foreign. */
struct foreign_gpu_processes *foreign_gpu_processes_open(uv_loop_t *loop, int period_ms,
                                                         foreign_gpu_processes_fn *fn, void *arg);
/* Its handles close on the loop's next turns. `fn` is not called any more. */
void foreign_gpu_processes_close(struct foreign_gpu_processes *s);
AUTO_DEFINE(foreign_gpu_processes, struct foreign_gpu_processes *, foreign_gpu_processes_close)
