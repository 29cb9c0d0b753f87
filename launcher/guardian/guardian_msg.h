/* guardian_msg - the messages between a launcher and its guardian, as bytes on a stream socket.
 *
 * A message is a fixed head and, for GUARDIAN_MSG_SPAWN, a payload: argv, env and the other
 * strings. Descriptors travel with the first byte of their message. Both ends are the same program,
 * so numbers are sent as they are in memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"

/* Precedes the guardian's messages: the call that has failed, and its errno. 0: it runs. */
struct guardian_start_report {
    int error;
    char call[12];
};

enum guardian_msg_type {
    GUARDIAN_MSG_SPAWN = 1,   /* a payload and descriptors follow */
    GUARDIAN_MSG_SIGNAL,      /* value: the signal */
    GUARDIAN_MSG_KILL_TREE,   /* kills the job's process trees */
    GUARDIAN_MSG_STARTED,     /* value: the pid */
    GUARDIAN_MSG_NOT_STARTED, /* value: errno; detail: enum spawn_step */
    GUARDIAN_MSG_EXITED, /* value: the wait status; detail: 1 if no process of the job is left */
    GUARDIAN_MSG_REAPED
};

enum {
    GUARDIAN_MSG_PAYLOAD_MAX = 4 << 20 /* bytes of one rank's argv, env and other strings */
};

struct guardian_msg_head {
    uint32_t type; /* enum guardian_msg_type */
    uint32_t job;
    int32_t rank;
    int32_t value;
    int32_t detail;
    uint32_t payload; /* number of bytes that follow */
};

/* The descriptors of one message. */
struct guardian_msg_fds {
    int fd[GUARDIAN_RANK_FDS];
    int count;
};
void guardian_msg_close_fds(struct guardian_msg_fds *f);

/* Appends a whole GUARDIAN_MSG_SPAWN message. Empty strings besides argv and env count as not set.
 * Returns -E2BIG, and empties `to`, if its payload exceeds GUARDIAN_MSG_PAYLOAD_MAX. */
int guardian_msg_encode_rank(struct strbuf *to, uint32_t job, const struct guardian_rank *r,
                             struct err *e);

/* Decodes the payload of a GUARDIAN_MSG_SPAWN message. `r` points into `payload` and into
 * `*strings`, which the caller frees. `f` has the message's descriptors; the caller keeps their
 * ownership.
 *   -EBADMSG  the payload is cut or malformed
 *   -EMFILE   a descriptor is missing, since this process has reached its limit */
int guardian_msg_decode_rank(struct guardian_rank *r, char ***strings,
                             const struct guardian_msg_head *h, char *payload,
                             const struct guardian_msg_fds *f);

/* Received bytes. A zero-initialised buffer is empty. */
struct guardian_msg_buffer {
    struct strbuf bytes;
    size_t decoded;               /* number of `bytes` that are decoded */
    struct guardian_msg_fds *fds; /* one entry per message with descriptors, oldest first */
    size_t fds_count;
};
void guardian_msg_buffer_free(struct guardian_msg_buffer *in);

/* Reads once, without blocking. Returns 1 if bytes were received, 0 if none are available,
 * -ECONNRESET if the other end is closed, or another -errno. Pointers from guardian_msg_recv()
 * become invalid. */
int guardian_msg_read(struct guardian_msg_buffer *in, int sock);

/* Takes the next message. Returns 1, or 0 if no message is complete, or -EBADMSG. `*payload` is
 * borrowed until the next guardian_msg_read(); the caller closes the descriptors. */
int guardian_msg_recv(struct guardian_msg_buffer *in, struct guardian_msg_head *h, char **payload,
                      struct guardian_msg_fds *f);
