/* drover client - what a training program asks of the drover around it: who am I, here are my
 * metrics, where do I keep checkpoints. Without drover it is rank 0 of 1 (or what torchrun, mpirun
 * or Slurm say) and reports go nowhere. Include <drover.h>, which brings communicators too.
 *
 * Functions return 0 or a negative errno; drover_error() has the text. One thread at a time. */
#ifndef DROVER_CLIENT_H
#define DROVER_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef DROVER_BUILD
#define DROVER_API __attribute__((visibility("default")))
#else
#define DROVER_API
#endif

struct drover;

/* Reads the environment: RANK WORLD_SIZE LOCAL_RANK … (drover, torchrun), else OMPI_COMM_WORLD_*,
 * PMIX_RANK, SLURM_PROCID (only inside a step), else rank 0 of 1.
 *   -EINVAL  these contradict each other; drover_error(NULL) has the text */
DROVER_API int drover_init(struct drover **out);
DROVER_API void drover_close(struct drover *d);

DROVER_API int drover_rank(const struct drover *d);
DROVER_API int drover_size(const struct drover *d);
DROVER_API int drover_local_rank(const struct drover *d);
DROVER_API int drover_local_size(const struct drover *d);
DROVER_API int drover_node_rank(const struct drover *d);

struct drover_metric {
    const char *name;
    double value; /* NaN and inf are allowed; the sweep knows what they mean */
};

enum { DROVER_GO = 0, DROVER_STOP = 1 };

/* Reports `n` metrics at `step` (>= 0; -1: the count of reports so far). Only rank 0's count; the
 * others may call it. Returns DROVER_GO or DROVER_STOP (save and end, please), or a negative
 * errno. Never waits for the sweep's coordinator. */
DROVER_API int drover_report(struct drover *d, int64_t step, const struct drover_metric *m,
                             size_t n);
/* DROVER_GO or DROVER_STOP, without a report. */
DROVER_API int drover_should_stop(struct drover *d);

/* A directory for this job's checkpoints, the same on each rank of a node and across restarts of a
 * trial; NULL where nobody gave one. Borrowed. */
DROVER_API const char *drover_checkpoint_dir(const struct drover *d);

/* What went wrong last, with the way out. Never NULL. NULL asks about drover_init(). */
DROVER_API const char *drover_error(const struct drover *d);

#ifdef __cplusplus
}
#endif
#endif
