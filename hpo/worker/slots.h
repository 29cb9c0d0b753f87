/* slots - the slots of a worker: their slices of the node, which lease has which, and those that
 * are blocked because a foreign process uses their GPUs. No clock, no loop. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/worker/foreign_gpu_processes.h"
#include "hpo/worker/node_slice.h"

struct slots;

/* Divides the node. Errors as node_slice_make(). */
int slots_new(struct slots **out, const struct topo *t, const struct node_slice_opts *opts,
              struct err *e);
void slots_free(struct slots *s);
AUTO_DEFINE(slots, struct slots *, slots_free)

/* Gives `owner` a free slot whose GPUs have the fewest trials. Borrowed; NULL: no slot is free. */
const struct node_slice *slots_acquire(struct slots *s, const void *owner);
/* Frees the slot of `owner`, of which no process is left. Returns false if it has none. */
bool slots_release(struct slots *s, const void *owner, int64_t now_ms);

/* How many trials may run at once: slots that are used, or free and not blocked. */
int slots_usable(const struct slots *s);
bool slots_have_gpus(const struct slots *s);

/* Stores the result of a scan (foreign_gpu_processes.h). A foreign process has its GPUs for itself:
 * slots with these GPUs are blocked. Memory whose user is unknown blocks a GPU only if no trial of
 * this worker has run on it since `asked_ms`. Returns what has changed, for people; NULL: nothing.
 * To be freed. */
char *slots_set_foreign(struct slots *s, const struct foreign_gpu_process *list, int count,
                        int64_t asked_ms);
