/* hostfile - hosts and their slots as people write them: host files of Open MPI, MPICH and
 * DeepSpeed, and lists on the command line.
 *
 *     # a comment                             c01:4            MPICH
 *     c01 slots=4 max_slots=8                 [fe80::1]:4
 *     me@c02 slots=4                          c03              slots not said: one a GPU or core
 *
 * A name that stands alone several times has a slot for each time (a PBS node file). Parsing is
 * pure; hostfile_read(), hostfile_is_here() and hostfile_mark_here() look at the system. */
#ifndef DROVER_HOSTFILE_H
#define DROVER_HOSTFILE_H

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/hosts.h"

/* Reads a file's `text`. Errors begin with "what:LINE:COLUMN: ".
 *   -EINVAL  a line is malformed, a host has its slots twice, or there is no host at all */
int hostfile_parse(struct hosts **out, const char *what, const char *text, struct err *e);

/* The text of a file ("-": stdin). -ENOENT, -EACCES, … where it cannot be read, -EFBIG above 16
 * MiB.
 */
int hostfile_text(char **out, const char *path, struct err *e);

/* Both. */
int hostfile_read(struct hosts **out, const char *path, struct err *e);

/* Adds the hosts of a list as -H takes it: "a:4,b:4", "a,a,b" (a slot for each time), "[::1]:2".
 *   -EINVAL  malformed, or Open MPI's relative "+n1", "+e2" (only mpirun knows these hosts) */
int hostfile_list(struct hosts *h, const char *list, struct err *e);

/* A host file together with -H: of `all` those that `some` names, in `some`'s order. mpirun's
 * rule: a count in `some` (more than one slot, or fewer than the file's) is kept where it is
 * smaller than the file's.
 *   -EINVAL  a host of `some` is not in `all` */
int hostfile_filter(struct hosts **out, const struct hosts *all, const struct hosts *some,
                    struct err *e);

/* True where `name` is this machine: localhost, a loopback address, our own name (with or without
 * its domain), an address of one of our interfaces, or a name that /etc/hosts gives such an
 * address. Never asks a name server, so it never waits. "me@name" is another machine. */
bool hostfile_is_here(const char *name);

/* Marks the hosts that are this machine; several names of it become one host, the first. */
void hostfile_mark_here(struct hosts *h);

#endif
