/* topo_visible - what CUDA_VISIBLE_DEVICES shows of a machine. Pure. */
#pragma once

#include "launcher/node/topo.h"

/* Returns true if a word of CUDA_VISIBLE_DEVICES hides GPUs on purpose: empty, "-1", "none", "void"
 * or "NoDevFiles". */
bool topo_hides_gpus(const char *word, size_t len);
/* Checks that CUDA_VISIBLE_DEVICES (NULL: not set) shows a GPU, or hides all of them on purpose.
 * Old names of MIG instances ("MIG-GPU-…/1/0") are not checked.
 *   -EINVAL  it shows none of the machine's GPUs; the text names the word */
int topo_check_visible(const struct topo *t, const char *list, struct err *e);
