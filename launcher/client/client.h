/* client.h - the part of libdrover that every training program uses.
 *
 * It provides the rank and the world size, metrics, and the checkpoint directory. Programs include
 * <drover.h>, which adds communicators.
 *
 * Without drover, the program is rank 0 of 1, or has the rank that torchrun, mpirun or Slurm has
 * set. Its reports are then discarded.
 *
 * Functions return 0 or a negative errno, unless stated otherwise; drover_error() has the text. A
 * struct drover is used by one thread at a time. */
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

/* Reads the rank and the world size from the environment: RANK, WORLD_SIZE, LOCAL_RANK … (drover,
 * torchrun), else OMPI_COMM_WORLD_*, PMI_*, SLURM_PROCID … (only inside a step), else rank 0 of 1.
 * Close *out with drover_close().
 *   -EINVAL  a variable is not a number, variables contradict each other, or the number of ranks is
 *            missing; drover_error(NULL) has the text */
DROVER_API int drover_init(struct drover **out);

/* Frees `d`. Communicators must be closed before. NULL is allowed. */
DROVER_API void drover_close(struct drover *d);

/* Returns this process's rank in the job, 0 … size - 1. */
DROVER_API int drover_rank(const struct drover *d);

/* Returns the number of ranks in the job. */
DROVER_API int drover_size(const struct drover *d);

/* Returns this process's rank on its node, 0 … local_size - 1. */
DROVER_API int drover_local_rank(const struct drover *d);

/* Returns the number of the job's ranks on this node. */
DROVER_API int drover_local_size(const struct drover *d);

/* Returns the number of this node in the job, from 0 on. */
DROVER_API int drover_node_rank(const struct drover *d);

struct drover_metric {
    const char *name; /* UTF-8; not empty, not "step" */
    double value;     /* NaN and infinities are allowed; the sweep handles them */
};

enum { DROVER_GO = 0, DROVER_STOP = 1 };

/* Reports `n` metrics of a training step. `step` is 0 or more; -1 means the number of reports so
 * far. Only the reports of rank 0 count; other ranks may also call this. `m` is read only during
 * the call. Never waits for the sweep's coordinator. Returns DROVER_GO, or DROVER_STOP if the
 * program should save a checkpoint and exit, or a negative errno:
 *   -EINVAL    a name is empty, "step" or not UTF-8
 *   -EMSGSIZE  the report is longer than 60 KiB; nothing was sent */
DROVER_API int drover_report(struct drover *d, int64_t step, const struct drover_metric *m,
                             size_t n);

/* Returns DROVER_GO or DROVER_STOP, as drover_report() does, but reports nothing. */
DROVER_API int drover_should_stop(struct drover *d);

/* Tell the launcher that this rank is in a section of the program, such as "setup", "step" or
 * "checkpoint". Under `drover run` with --section-timeouts, a section that takes too long is
 * reported as a hang, with the rank and the section. With --stragglers, ranks whose sections take
 * longer than those of the other ranks are reported. Sections may be nested or overlap. `section`
 * is read only during the call. Return 0, or a negative errno:
 *   -EINVAL    the name is empty, longer than 200 bytes or not UTF-8, or no such section is open
 *   -EALREADY  the section is open */
DROVER_API int drover_section_begin(struct drover *d, const char *section);
DROVER_API int drover_section_end(struct drover *d, const char *section);

/* Tells the launcher that this rank makes progress (--heartbeat-timeout). Returns DROVER_GO or
 * DROVER_STOP, as drover_report() does, or a negative errno. */
DROVER_API int drover_heartbeat(struct drover *d);

/* Returns the directory for this job's checkpoints, or NULL if none is set. It is the same on all
 * ranks of a node, and after a restart of a trial. Borrowed from `d`. */
DROVER_API const char *drover_checkpoint_dir(const struct drover *d);

/* Returns the text of the last error of `d`, with a hint; never NULL. If `d` is NULL, returns that
 * of drover_init(). The text is valid until the next call in this thread. */
DROVER_API const char *drover_error(const struct drover *d);

#ifdef __cplusplus
}
#endif
#endif
