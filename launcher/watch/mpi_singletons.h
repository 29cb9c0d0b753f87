/* mpi_singletons - detects MPI programs whose ranks do not find each other. They then run as N jobs
 * of one rank each: a common failure, which ends with status 0.
 *
 * A rank that finds the others connects to the PMIx server. Singletons are suspected if the job has
 * several ranks, no rank has ever connected, and the ranks use an MPI library. A running rank uses
 * one if the library is mapped for some seconds. After all ranks have exited with status 0, the
 * check reads the libraries that the program's file names. */
#pragma once

#include <uv.h>

#include "common/mem.h"
#include "launcher/engine/launch.h"

struct mpi_singletons;

/* Starts the checks. The loop calls `on_found` at most once, with a warning and advice. Borrows the
 * job. Returns NULL if nothing can be detected: the job has only one rank, or drover does not see
 * which ranks connect to PMIx. */
struct mpi_singletons *mpi_singletons_open(uv_loop_t *loop, const struct launch *job,
                                           void (*on_found)(void *arg, const char *text),
                                           void *arg);
/* Stops the checks. The handle closes in the loop's next iteration. `s` may be NULL. */
void mpi_singletons_close(struct mpi_singletons *s);
/* Makes the last check, after the job has ended. `s` may be NULL. */
void mpi_singletons_ended(struct mpi_singletons *s, const struct job_end *end);

/* Write the name of an MPI library ("libmpi.so.40") to `out`: the one that a process has mapped, or
 * that a program's file names. Return false if there is none, or if the information cannot be
 * read. */
bool mpi_singletons_mapped(char *out, size_t size, pid_t pid);
bool mpi_singletons_named(char *out, size_t size, const char *program);
