/* control_frame - the frames of the control connection between launcher and agent, as bytes of a
 * stream: two lengths (32 bits, little endian), a JSON object, and raw bytes. Pure.
 *
 * An agent has all ranks of its node. "rank" is a rank's number in the whole job.
 *
 *     agent -> launcher   hello topo ready port started{rank} not_started{rank} output{rank}
 * eof{rank} report{rank} exit{rank} rank_status{rank} stack{rank} credit{rank} joined{rank}
 * finalized{rank} aborted{rank} spawns{rank} reaped parent_died launcher -> agent   topo_request
 * node_spec start stdin{rank} signal{rank} stop finish_output{rank} status_request stack{rank}
 * kill_tree credit{rank} exit_agent reject between neighbours  relay exchange lost listen listening
 * move both                ping
 *
 * agent.c, engine_remote.c and remote_start.c show the keys of each frame. */
#ifndef DROVER_CONTROL_FRAME_H
#define DROVER_CONTROL_FRAME_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"

enum {
    CONTROL_FRAME_PROTOCOL =
        3, /* in `hello` and a rendezvous' `join`; raised by any change of frames */
    CONTROL_FRAME_HEAD_MAX = 1 << 20,     /* bytes of the JSON object */
    CONTROL_FRAME_PAYLOAD_MAX = 16 << 20, /* raw bytes */
    CONTROL_FRAME_MAX = 8 + CONTROL_FRAME_HEAD_MAX + CONTROL_FRAME_PAYLOAD_MAX
};

struct control_frame {
    json_t *head;        /* an object with a string "t"; the caller drops its reference */
    const char *type;    /* that string; valid as long as `head` */
    const char *payload; /* points into the decoded bytes */
    size_t len;
};

/* Appends a frame. -EMSGSIZE if it exceeds the limits; `to` is then unchanged. */
int control_frame_encode(struct strbuf *to, const json_t *head, const void *payload, size_t len);

/* Decodes the frame at the beginning of `bytes`. Returns its length, or 0 if more bytes are needed.
 *   -EMSGSIZE  it exceeds `max_bytes` or the limits above
 *   -EBADMSG   not a JSON object, or without "t" */
ssize_t control_frame_decode(struct control_frame *out, const char *bytes, size_t len,
                             size_t max_bytes, struct err *e);

#endif
