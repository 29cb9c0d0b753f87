/* gwire - what a launcher and its guardian say to each other, as bytes on a stream socket.
 *
 * A message is a fixed head and, for GWIRE_SPAWN, a payload: argv, env and the rest as strings.
 * Descriptors travel with the first byte of their message. Both ends are the same program, so
 * numbers go as they lie in memory. */
#ifndef DROVER_GUARDIAN_MSG_H
#define DROVER_GUARDIAN_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"

enum gwire_type {
    GWIRE_SPAWN = 1,   /* a payload and descriptors follow */
    GWIRE_SIGNAL,      /* value: the signal */
    GWIRE_CLEAR,       /* the whole job */
    GWIRE_STARTED,     /* value: the pid */
    GWIRE_NOT_STARTED, /* value: errno; detail: enum spawn_step */
    GWIRE_EXITED,      /* value: the wait status; detail: 1: nothing of the job is left */
    GWIRE_CLEARED
};

enum {
    GWIRE_PAYLOAD_MAX = 4 << 20 /* bytes of one rank's argv, env and names */
};

struct gwire_head {
    uint32_t type; /* enum gwire_type */
    uint32_t job;
    int32_t rank;
    int32_t value;
    int32_t detail;
    uint32_t payload; /* bytes that follow */
};

/* The descriptors that came with one message. */
struct gwire_fds {
    int fd[GUARDIAN_RANK_FDS];
    int count;
};
void gwire_close(struct gwire_fds *f);

/* Appends a whole GWIRE_SPAWN message. -E2BIG where it passes GWIRE_PAYLOAD_MAX. */
int gwire_put_rank(struct strbuf *to, uint32_t job, const struct guardian_rank *r, struct err *e);

/* The payload of a GWIRE_SPAWN message. `r` points into `payload` and into `*words`, which the
 * caller frees. `f` must hold what the message needs; the descriptors stay the caller's.
 *   -EBADMSG  the payload is cut or malformed
 *   -EMFILE   not all descriptors came: this process may not open so many */
int gwire_get_rank(struct guardian_rank *r, char ***words, const struct gwire_head *h,
                   char *payload, const struct gwire_fds *f);

/* What came in and was not yet taken. Zero-initialised is empty. */
struct gwire_in {
    struct strbuf bytes;
    size_t taken;          /* of `bytes` */
    struct gwire_fds *fds; /* one entry for each message that has descriptors, oldest first */
    size_t fds_count;
};
void gwire_in_free(struct gwire_in *in);

/* Reads once, without waiting. 1: something came; 0: nothing there; -ECONNRESET: the other side is
 * gone; or another -errno. Pointers from gwire_take() are void afterwards. */
int gwire_fill(struct gwire_in *in, int sock);

/* The next whole message: 1, or 0 where none is complete, or -EBADMSG. `*payload` is borrowed until
 * the next gwire_fill(); the descriptors are handed over. */
int gwire_take(struct gwire_in *in, struct gwire_head *h, char **payload, struct gwire_fds *f);

#endif
