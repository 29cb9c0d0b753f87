/* gwire - what a launcher and its guardian say to each other, as bytes on a stream socket.
 *
 * A message is a fixed head and, for GUARDIAN_MSG_SPAWN, a payload: argv, env and the rest as
 * strings. Descriptors travel with the first byte of their message. Both ends are the same program,
 * so numbers go as they lie in memory. */
#ifndef DROVER_GUARDIAN_MSG_H
#define DROVER_GUARDIAN_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"

enum guardian_msg_type {
    GUARDIAN_MSG_SPAWN = 1,   /* a payload and descriptors follow */
    GUARDIAN_MSG_SIGNAL,      /* value: the signal */
    GUARDIAN_MSG_CLEAR,       /* the whole job */
    GUARDIAN_MSG_STARTED,     /* value: the pid */
    GUARDIAN_MSG_NOT_STARTED, /* value: errno; detail: enum spawn_step */
    GUARDIAN_MSG_EXITED,      /* value: the wait status; detail: 1: nothing of the job is left */
    GUARDIAN_MSG_CLEARED
};

enum {
    GUARDIAN_MSG_PAYLOAD_MAX = 4 << 20 /* bytes of one rank's argv, env and names */
};

struct guardian_msg_head {
    uint32_t type; /* enum guardian_msg_type */
    uint32_t job;
    int32_t rank;
    int32_t value;
    int32_t detail;
    uint32_t payload; /* bytes that follow */
};

/* The descriptors that came with one message. */
struct guardian_msg_fds {
    int fd[GUARDIAN_RANK_FDS];
    int count;
};
void guardian_msg_close_fds(struct guardian_msg_fds *f);

/* Appends a whole GUARDIAN_MSG_SPAWN message. -E2BIG where it passes GUARDIAN_MSG_PAYLOAD_MAX. */
int guardian_msg_encode_rank(struct strbuf *to, uint32_t job, const struct guardian_rank *r,
                             struct err *e);

/* The payload of a GUARDIAN_MSG_SPAWN message. `r` points into `payload` and into `*words`, which
 * the caller frees. `f` must hold what the message needs; the descriptors stay the caller's.
 *   -EBADMSG  the payload is cut or malformed
 *   -EMFILE   not all descriptors came: this process may not open so many */
int guardian_msg_decode_rank(struct guardian_rank *r, char ***words,
                             const struct guardian_msg_head *h, char *payload,
                             const struct guardian_msg_fds *f);

/* What came in and was not yet taken. Zero-initialised is empty. */
struct guardian_msg_buffer {
    struct strbuf bytes;
    size_t taken; /* of `bytes` */
    struct guardian_msg_fds
        *fds; /* one entry for each message that has descriptors, oldest first */
    size_t fds_count;
};
void guardian_msg_buffer_free(struct guardian_msg_buffer *in);

/* Reads once, without waiting. 1: something came; 0: nothing there; -ECONNRESET: the other side is
 * gone; or another -errno. Pointers from guardian_msg_recv() are void afterwards. */
int guardian_msg_read(struct guardian_msg_buffer *in, int sock);

/* The next whole message: 1, or 0 where none is complete, or -EBADMSG. `*payload` is borrowed until
 * the next guardian_msg_read(); the descriptors are handed over. */
int guardian_msg_recv(struct guardian_msg_buffer *in, struct guardian_msg_head *h, char **payload,
                      struct guardian_msg_fds *f);

#endif
