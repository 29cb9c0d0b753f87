/* mpi_singletons - detects MPI programs whose ranks do not find each other: N jobs of one rank
 * each, a common failure that ends with status 0.
 *
 * A rank that finds the others connects to the PMIx server. Singletons are suspected if the job has
 * several ranks, none of them has ever connected, and the ranks use an MPI library: it is mapped
 * for some seconds while they run, or the program names it when all have ended well. */
#ifndef DROVER_MPI_SINGLETONS_H
#define DROVER_MPI_SINGLETONS_H

#include <uv.h>

#include "common/mem.h"
#include "launcher/engine/launch.h"

struct mpi_singletons;

/* Calls `on_found` at most once, from the loop, with a warning and advice. Returns NULL if there is
 * nothing to detect: the job has one rank, or the engine does not show who connects to PMIx.
 * Borrows the job. */
struct mpi_singletons *mpi_singletons_open(uv_loop_t *loop, const struct launch *job,
                                           void (*on_found)(void *arg, const char *text),
                                           void *arg);
/* Its handle closes in the loop's next iteration. May be NULL. */
void mpi_singletons_close(struct mpi_singletons *s);
/* Checks for the last time, when the job has ended. May be NULL. */
void mpi_singletons_ended(struct mpi_singletons *s, const struct job_end *end);

/* Writes the MPI library that a process has mapped ("libmpi.so.40"), or that a program's file
 * names, to `out`. Returns false if there is none, or if it cannot be read. */
bool mpi_singletons_mapped(char *out, size_t size, pid_t pid);
bool mpi_singletons_named(char *out, size_t size, const char *program);

#endif
