/* places - where a worker's trials run: its shares of the node, who has which, and which may not be
 * given away because somebody else uses their GPUs. No clock, no loop. */
#ifndef DROVER_SLOTS_H
#define DROVER_SLOTS_H

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/worker/foreign_gpu_processes.h"
#include "hpo/worker/node_slice.h"

struct slots;

/* As node_slice_make(), which says the errors. */
int slots_new(struct slots **out, const struct topo *t, const struct node_slice_opts *w,
              struct err *e);
void slots_free(struct slots *p);
AUTO_DEFINE(slots, struct slots *, slots_free)

/* A free place for `who`, whose GPUs have the fewest trials; borrowed. NULL: there is none. */
const struct node_slice *slots_acquire(struct slots *p, const void *who);
/* Nothing of `who` runs any more; nothing where it has none. */
void slots_release(struct slots *p, const void *who, int64_t now_ms);

/* How many trials may run at once: places that are taken or may be. */
int slots_usable(const struct slots *p);
bool slots_have_gpus(const struct slots *p);

/* What strangers.h found. A process that is none of ours has its GPUs for itself: the places there
 * are given to no trial. Memory that somebody has counts alone where no trial of ours ran since
 * `asked_ms`. Returns what has changed, for people; NULL: nothing. To be freed. */
char *slots_set_foreign(struct slots *p, const struct foreign_gpu_process *list, int count,
                        int64_t asked_ms);

#endif
