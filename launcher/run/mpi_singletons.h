/* singleton - MPI programs of a job whose ranks do not find each other: N jobs of one rank, the
 * classic failure, which ends with status 0.
 *
 * A rank joins when it attaches to the PMIx server. A job has fallen apart, as far as can be told,
 * where it has several ranks of which none ever joined, and an MPI library is in the ranks: mapped
 * for some seconds while they run, or named in the program when they have all ended well. */
#ifndef DROVER_MPI_SINGLETONS_H
#define DROVER_MPI_SINGLETONS_H

#include <uv.h>

#include "common/mem.h"
#include "launcher/engine/launch.h"

struct mpi_singletons;

/* `found` is called at most once, from the loop, with the warning and the advice. NULL where there
 * is nothing to watch: a job of one rank, or an engine that serves PMIx by itself. Borrows the job.
 */
struct mpi_singletons *mpi_singletons_open(uv_loop_t *loop, const struct launch *job,
                                           void (*found)(void *arg, const char *text), void *arg);
/* Its handle closes on the loop's next turn. May be NULL. */
void mpi_singletons_close(struct mpi_singletons *s);
/* The job has ended: the last look. May be NULL. */
void mpi_singletons_ended(struct mpi_singletons *s, const struct job_end *end);

/* The MPI library that a process has mapped ("libmpi.so.40"), or that a program's file names, in
 * `out`; false where there is none, or it cannot be seen. */
bool mpi_singletons_mapped(char *out, size_t size, pid_t pid);
bool mpi_singletons_named(char *out, size_t size, const char *program);

#endif
