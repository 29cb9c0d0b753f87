/* hostfile - host files of Open MPI, MPICH and DeepSpeed, host lists of the command line (-H), and
 * rank files of Open MPI.
 *
 *     # a comment                             c01:4            MPICH
 *     c01 slots=4 max_slots=8                 [fe80::1]:4
 *     me@c02 slots=4                          c03              slots not given: one per GPU or core
 *     c04 user=me port=2222                   for ssh; the same as me@c04
 *
 * A name that is alone on each of several lines has one slot per line (a PBS node file). Parsing is
 * pure; hostfile_text(), hostfile_read(), hostfile_read_ranks(), hostfile_is_here() and
 * hostfile_mark_here() read the system's state. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan.h"

/* Parses the text of a host file. Errors begin with "what:LINE:COLUMN: ".
 *   -EINVAL  a line is malformed, a host's slots are given twice, or no host is listed
 *   -E2BIG   too many hosts, or too many slots of a host */
int hostfile_parse(struct hosts **out, const char *what, const char *text, struct err *e);

/* Returns the text after the byte order mark that some editors put before UTF-8 text. */
const char *hostfile_after_mark(const char *text);

/* Reads the text of a file ("-": stdin). `*out` is freed by the caller.
 *   -ENOENT, -EACCES, …  the file cannot be read
 *   -EFBIG               the file is larger than 16 MiB */
int hostfile_text(char **out, const char *path, struct err *e);

/* Reads and parses a file. */
int hostfile_read(struct hosts **out, const char *path, struct err *e);

/* Adds the hosts of an -H list: "a:4,b:4", "a,a,b" (one slot per occurrence), "[::1]:2".
 *   -EINVAL  malformed, or one of Open MPI's relative hosts "+n1", "+e2" (only mpirun knows them)
 *   -E2BIG   too many hosts, or too many slots of a host */
int hostfile_list(struct hosts *h, const char *list, struct err *e);

/* Selects those hosts of a host file (`all`) that -H (`some`) names, in the order of `some`. As
 * with mpirun, the number of slots in `some` counts only if it is more than one and smaller than
 * that in the file.
 *   -EINVAL  a host of `some` is not in `all` */
int hostfile_filter(struct hosts **out, const struct hosts *all, const struct hosts *some,
                    struct err *e);

/* Returns true if `name` is this machine: localhost, a loopback address, the host's name (with or
 * without its domain), an address of a local interface, or a name that /etc/hosts maps to such an
 * address. Never contacts a name server, so it never blocks on one. "me@name" counts as another
 * machine. */
bool hostfile_is_here(const char *name);

/* Marks the hosts that are this machine. Several names of this machine are merged into the
 * first. */
void hostfile_mark_here(struct hosts *h);

/* ---- rank files ----------------------------------------------------------------------------- */

/* The host and the CPUs of each rank (mpirun(1), "Rankfiles"):
 *
 *     rank 0=c01 slot=1:0-2        cores 0 to 2 of package 1
 *     rank 1=c02 slot=3            core 3
 *     rank 2=+n0 slot=p0,8         the first host of the job; hardware threads with the system's
 *                                  numbers */
struct rankfile {
    struct launch_location *locations; /* by rank; they own their strings */
    int count;
    struct hosts *hosts; /* the hosts in the file; each has one slot per rank */
};

/* Parses the text of a rank file. `known` has the hosts to which "+n0" refers; it may be NULL.
 * Errors begin with "what:LINE: ".
 *   -EINVAL  a line is malformed, or a rank occurs twice or is missing */
int hostfile_parse_ranks(struct rankfile **out, const char *what, const char *text,
                         const struct hosts *known, struct err *e);

/* Reads and parses a file, and finds out which hosts are this machine.
 *   -ENOENT, -EACCES, …  the file cannot be read */
int hostfile_read_ranks(struct rankfile **out, const char *path, const struct hosts *known,
                        struct err *e);
void hostfile_free_ranks(struct rankfile *f);
AUTO_DEFINE(rankfile, struct rankfile *, hostfile_free_ranks)
