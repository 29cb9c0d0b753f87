/* fixture - a rank's communicator and memory for the conformance kit.
 *
 * It runs one collective at a time, compares the result, and counts. */
#pragma once

#include "collectives/comm/comm.h"
#include "tests/conform/values.h"

enum { FIXTURE_TEXT = 200 };

/* The results of a rank. A plain value that ranks send to each other. */
struct fixture_count {
    uint64_t checks, failed, refused;
    char first[FIXTURE_TEXT]; /* description of the first failure */
};

struct fixture {
    struct drover *d;
    struct drover_comm *c;
    int rank, size; /* in c */
    int64_t wait_ms;
    uint64_t seed;
    size_t room;                 /* bytes of each buffer */
    char *in, *out;              /* memory of the backend */
    char *host, *got, *expected; /* host memory */
    struct fixture_count count;
};

/* Takes the communicator over and allocates memory for calls of `part_bytes` per rank. Exits the
 * program on any failure, as do all functions of fixture; the other ranks exit at their deadlines.
 */
void fixture_open(struct fixture *k, struct drover *d, struct drover_comm *c, size_t part_bytes);
/* Frees the memory and closes the communicator. */
void fixture_close(struct fixture *k);

/* Runs the collective and checks its result, the bytes behind the output, and the input. */
void fixture_run(struct fixture *k, const struct values *v, bool in_place);

/* Counts a check; the first failure is described. */
__attribute__((format(printf, 3, 4))) void fixture_check(struct fixture *k, bool fine,
                                                         const char *format, ...);
/* Exits the program if rc < 0. */
void fixture_must(const struct fixture *k, int rc, const char *what);
/* Waits for all calls on the communicator. */
void fixture_wait(const struct fixture *k, const char *what);

/* Copy host memory to and from the backend's memory. */
void fixture_copy_in(const struct fixture *k, void *to, const void *host, size_t bytes);
void fixture_copy_out(const struct fixture *k, void *host, const void *from, size_t bytes);
