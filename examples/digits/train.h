/* train - data-parallel training.
 *
 * Every rank computes the gradient of its part of each batch, the ranks sum these gradients, and
 * all apply the same update. */
#pragma once

#include <drover.h>

#include "../kit/schedule.h"
#include "data.h"
#include "mlp.h"

struct train_config {
    struct mlp_config mlp;
    const struct mlp_backend *backend;
    int batch; /* samples per step, for all ranks together */
    int epochs;
    int warmup; /* number of steps in which the learning rate rises */
    float lr;
    enum schedule schedule;
    int augment;
    const char *checkpoint_dir; /* NULL: no checkpoints */
    int checkpoint_every;       /* number of epochs between two checkpoints */
    int resume;
    int quiet;
    const char *comm; /* backend of the communicator; NULL: drover chooses */
};

enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_TERMINATED };

/* Trains and reports metrics. If drover requests a stop, or a rank receives SIGTERM, all ranks stop
 * after the same step, with a checkpoint if checkpoint_dir is set. Returns an enum train_end, or -1
 * after printing the error to stderr. */
int train(const struct train_config *c, struct drover *d, const struct data *train_set,
          const struct data *test_set);
