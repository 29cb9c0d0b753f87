/* train - data-parallel training: every rank computes the gradient of its part of each batch, the
 * ranks sum them, and all apply the same step. */
#ifndef DIGITS_TRAIN_H
#define DIGITS_TRAIN_H

#include <drover.h>

#include "data.h"
#include "mlp.h"

enum train_schedule { TRAIN_CONSTANT, TRAIN_COSINE };

struct train_config {
    struct mlp_config mlp;
    const struct mlp_backend *backend;
    int batch; /* over all ranks */
    int epochs;
    int warmup; /* steps with a growing learning rate */
    float lr;
    enum train_schedule schedule;
    int augment;
    const char *checkpoint_dir; /* NULL: none */
    int checkpoint_every;       /* epochs */
    int resume;
    int quiet;
    const char *comm; /* backend of the communicator; NULL: the best */
};

enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_TERMINATED };

/* Trains and reports. When drover wants a stop, or any rank got SIGTERM, all ranks end after the
 * same step, with a checkpoint where there is a place for one. An enum train_end, or -1 after
 * saying why on stderr. */
int train(const struct train_config *c, struct drover *d, const struct data *train_set,
          const struct data *test_set);

#endif
