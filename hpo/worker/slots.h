/* places - where a worker's trials run: its shares of the node, who has which, and which may not be
 * given away because somebody else uses their GPUs. No clock, no loop. */
#ifndef DROVER_SLOTS_H
#define DROVER_SLOTS_H

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/worker/foreign_gpu_processes.h"
#include "hpo/worker/node_slices.h"

struct places;

/* As share_make(), which says the errors. */
int places_new(struct places **out, const struct topo *t, const struct share_want *w,
               struct err *e);
void places_free(struct places *p);
AUTO_DEFINE(places, struct places *, places_free)

/* A free place for `who`, whose GPUs have the fewest trials; borrowed. NULL: there is none. */
const struct share *places_take(struct places *p, const void *who);
/* Nothing of `who` runs any more; nothing where it has none. */
void places_give_back(struct places *p, const void *who, int64_t now_ms);

/* How many trials may run at once: places that are taken or may be. */
int places_usable(const struct places *p);
bool places_have_gpus(const struct places *p);

/* What strangers.h found. A process that is none of ours has its GPUs for itself: the places there
 * are given to no trial. Memory that somebody has counts alone where no trial of ours ran since
 * `asked_ms`. Returns what has changed, for people; NULL: nothing. To be freed. */
char *places_strangers(struct places *p, const struct stranger *list, int count, int64_t asked_ms);

#endif
