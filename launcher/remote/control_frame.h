/* control_frame - what the launcher and a far `drover rank` say to each other, as bytes on a
 * stream: two lengths (32 bits, little endian), a JSON object, and as many raw bytes. Pure.
 *
 *     agent -> launcher   hello topo port started not_started output eof report exit reaped credit
 *                         rank_status stack pmi parent_died
 *     launcher -> agent   topo_request rank_spec start stdin signal stop finish_output
 *                         status_request stack pmi kill_tree credit exit_agent reject
 *     both                ping
 *
 * The code that sends a frame describes its keys: agent.c and engine_remote.c. */
#ifndef DROVER_CONTROL_FRAME_H
#define DROVER_CONTROL_FRAME_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"

enum {
    CONTROL_FRAME_PROTOCOL =
        2, /* of `hello` and of a rendezvous' `join`; a change of frames raises it */
    CONTROL_FRAME_HEAD_MAX = 1 << 20,     /* bytes of the object */
    CONTROL_FRAME_PAYLOAD_MAX = 16 << 20, /* raw bytes */
    CONTROL_FRAME_MAX = 8 + CONTROL_FRAME_HEAD_MAX + CONTROL_FRAME_PAYLOAD_MAX
};

struct control_frame {
    json_t *head;        /* an object with a string "t"; the caller's to drop */
    const char *type;    /* that string; lives as long as `head` */
    const char *payload; /* points into the bytes that were read */
    size_t len;
};

/* Appends a frame. -EMSGSIZE where it passes the limits; `to` is then as it was. */
int control_frame_put(struct strbuf *to, const json_t *head, const void *payload, size_t len);

/* The frame at the beginning of `bytes`: returns its length, or 0 where more bytes are needed.
 *   -EMSGSIZE  it is longer than `most` or than the limits above
 *   -EBADMSG   it is no JSON object, or has no "t" */
ssize_t control_frame_get(struct control_frame *out, const char *bytes, size_t len, size_t most,
                          struct err *e);

#endif
