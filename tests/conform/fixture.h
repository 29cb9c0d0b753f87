/* desk - a rank's communicator and memory for the conformance kit: runs one collective, compares
 * what came of it, and counts. */
#ifndef DROVER_FIXTURE_H
#define DROVER_FIXTURE_H

#include "collectives/comm/comm.h"
#include "tests/conform/values.h"

enum { FIXTURE_TEXT = 200 };

/* What a rank found, as it is gathered. */
struct fixture_count {
    uint64_t checks, failed, refused;
    char first[FIXTURE_TEXT]; /* failure */
};

struct fixture {
    struct drover *d;
    struct drover_comm *c;
    int rank, size; /* in c */
    int64_t wait_ms;
    uint64_t seed;
    size_t room;             /* bytes of each buffer */
    char *in, *out;          /* the backend's memory */
    char *host, *got, *want; /* ours */
    struct fixture_count count;
};

/* Takes the communicator and makes room for calls of `part_bytes` a rank. Ends the program on any
 * failure, as all of desk's functions do: the other ranks' deadlines end them too. */
void fixture_open(struct fixture *k, struct drover *d, struct drover_comm *c, size_t part_bytes);
/* Closes the communicator too. */
void fixture_close(struct fixture *k);

void fixture_run(struct fixture *k, const struct values *v, bool in_place);

/* Counts a check; a failure is described once. */
__attribute__((format(printf, 3, 4))) void fixture_check(struct fixture *k, bool fine,
                                                         const char *format, ...);
/* For calls that must succeed: ends the program when rc < 0. */
void fixture_must(const struct fixture *k, int rc, const char *what);
void fixture_wait(const struct fixture *k, const char *what);

/* Host memory to and from the backend's. */
void fixture_copy_in(const struct fixture *k, void *to, const void *host, size_t bytes);
void fixture_copy_out(const struct fixture *k, void *host, const void *from, size_t bytes);

#endif
