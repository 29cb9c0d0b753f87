/* desk - a rank's communicator and memory for the conformance kit: runs one collective, compares
 * what came of it, and counts. */
#ifndef DROVER_FIXTURE_H
#define DROVER_FIXTURE_H

#include "collectives/comm/comm.h"
#include "tests/conform/values.h"

enum { DESK_TEXT = 200 };

/* What a rank found, as it is gathered. */
struct desk_count {
    uint64_t checks, failed, refused;
    char first[DESK_TEXT]; /* failure */
};

struct desk {
    struct drover *d;
    struct drover_comm *c;
    int rank, size; /* in c */
    int64_t wait_ms;
    uint64_t seed;
    size_t room;             /* bytes of each buffer */
    char *in, *out;          /* the backend's memory */
    char *host, *got, *want; /* ours */
    struct desk_count count;
};

/* Takes the communicator and makes room for calls of `part_bytes` a rank. Ends the program on any
 * failure, as all of desk's functions do: the other ranks' deadlines end them too. */
void desk_open(struct desk *k, struct drover *d, struct drover_comm *c, size_t part_bytes);
/* Closes the communicator too. */
void desk_close(struct desk *k);

void desk_run(struct desk *k, const struct values *v, bool in_place);

/* Counts a check; a failure is described once. */
__attribute__((format(printf, 3, 4))) void desk_check(struct desk *k, bool fine, const char *format,
                                                      ...);
/* For calls that must succeed: ends the program when rc < 0. */
void desk_must(const struct desk *k, int rc, const char *what);
void desk_wait(const struct desk *k, const char *what);

/* Host memory to and from the backend's. */
void desk_put(const struct desk *k, void *to, const void *host, size_t bytes);
void desk_take(const struct desk *k, void *host, const void *from, size_t bytes);

#endif
