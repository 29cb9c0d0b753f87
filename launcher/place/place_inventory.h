/* place_inventory - the GPUs of this machine: models, memory, speed, NVLinks, load, users, locks
 * and labels. */
#pragma once

#include "launcher/place/place_gpu.h"

struct place_inventory {
    struct place_gpu *gpus; /* in the driver's order; a GPU with MIG instances counts as these */
    int count;
};

/* `labels_file` may be NULL. This takes tens of milliseconds.
 *   -EIO     the driver does not respond
 *   -EINVAL  the file of labels is malformed, or names a GPU that does not exist here
 *   -errno   the file cannot be read */
int place_inventory_read(struct place_inventory *out, const char *labels_file, struct err *e);
/* Reads the locks again, and what placements wait for since before `arrived_ns` (see
 * gpu_lock.h; 0: none), which is fast. */
void place_inventory_update_locks(struct place_inventory *i, uint64_t arrived_ns);
void place_inventory_free(struct place_inventory *i);

static inline void auto_place_inventory(struct place_inventory *i)
{
    place_inventory_free(i);
}
