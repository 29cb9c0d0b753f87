/* rankfile - rank files of Open MPI (mpirun(1), "Rankfiles"): the host and the CPUs of each rank.
 *
 *     rank 0=c01 slot=1:0-2        cores 0 to 2 of package 1
 *     rank 1=c02 slot=3            core 3
 *     rank 2=+n0 slot=p0,8         the first host of the job; hardware threads with the system's
 *                                  numbers */
#pragma once

#include "common/err.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan.h"

struct rankfile {
    struct launch_location *locations; /* by rank; they own their strings */
    int count;
    struct hosts *hosts; /* the hosts in the file; each has one slot per rank */
};

/* Parses the text of a rank file. `known` has the hosts to which "+n0" refers; it may be NULL.
 * Errors begin with "what:LINE: ".
 *   -EINVAL  a line is malformed, or a rank occurs twice or is missing */
int rankfile_parse(struct rankfile **out, const char *what, const char *text,
                   const struct hosts *known, struct err *e);

/* Reads and parses a file, and finds out which hosts are this machine.
 *   -ENOENT, -EACCES, …  the file cannot be read */
int rankfile_read(struct rankfile **out, const char *path, const struct hosts *known,
                  struct err *e);
void rankfile_free(struct rankfile *f);
AUTO_DEFINE(rankfile, struct rankfile *, rankfile_free)
