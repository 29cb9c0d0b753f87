/* control_frame - the frames of the control connection between launcher and agent, as bytes of a
 * stream: two lengths (32 bits, little endian), a JSON object, and raw bytes. Pure.
 *
 * An agent has all ranks of its node. "rank" is a rank's number in the whole job, "node" a node's
 * number in the plan. Keys with ? may be missing; "+" means that raw bytes follow.
 *
 *     agent -> launcher
 *       hello         version protocol node host
 *       topo          + topology, and the results of the checks (agent_start_probe())
 *       port          port: MASTER_PORT, from the agent of rank 0's node; before `ready`
 *       ready         the job is registered with the node's PMIx server: its ranks may start
 *       started       rank pid
 *       not_started   rank? status node_fault why; without a rank, none of the node starts
 *       output        rank from (0 stdout, 1 stderr) + bytes
 *       eof           rank: both streams are closed
 *       report        rank + one JSON object of the report channel
 *       exit          rank wait oom + text of TORCHELASTIC_ERROR_FILE
 *       rank_status   rank status (rank_status_json())
 *       stack         rank + lines of its call stack
 *       gpus          + text of job_monitor_export(), about once per second after `sample_gpus`
 *       credit        rank bytes closed: bytes of stdin that the rank has read; closed: it reads
 *                     no more
 *       joined, finalized, spawns  rank: events of PMIx or PMI-1 (pmix_server.h)
 *       aborted       rank code
 *       reaped        no process of the node's ranks is left
 *       broken        why: the node's guardian has ended, and with it its ranks; `exit` follows
 *       parent_died   mpirun or srun has killed the agent's parent
 *     launcher -> agent
 *       topo_request  preflight? ranks? gpus?
 *       job           node_spec.h + what is the same for all nodes. An agent sends it to its
 *                     children in the tree when they connect
 *       node_spec     node_spec.h + the ranks of the node; after `job`
 *       start         port nodes lost_after_ms address? env?: an array of "NAME=value" for all
 *                     ranks
 *       stdin         rank + bytes; none: the end of the input
 *       signal        rank? signal; without a rank, to all ranks of the node
 *       stop          through the report channel, to each rank of the node that has used it
 *       finish_output rank
 *       status_request  for all ranks of the node
 *       stack         rank
 *       sample_gpus   uuids: of the ranks' GPUs
 *       credit        rank bytes: output that was consumed
 *       kill_tree     SIGKILL to all ranks of the node and what they have started; `reaped`
 *                     follows
 *       exit_agent
 *       reject        why
 *     between neighbours in the tree (tree.h)
 *       exchange      + a message of exchange.h
 *       relay         node (down, -1: for all below) bulk? + an encoded frame for this node or, on
 *                     its way up, from it
 *       lost          node silent why: an agent has lost its child `node`, with all nodes below it
 *       listen        nodes radix port_first port_last; launcher to an inner agent: wait for
 *                     children
 *       listening     address: "10.0.0.1:4000,…", the answer
 *       move          address: of the parent to which the agent connects instead of the launcher
 *     both            ping
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"

enum {
    CONTROL_FRAME_PROTOCOL = 5,       /* in `hello` and `join`; raised by any change of frames */
    CONTROL_FRAME_HEAD_MAX = 1 << 20, /* bytes of the JSON object */
    CONTROL_FRAME_PAYLOAD_MAX = 64 << 20, /* raw bytes */
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

enum { CONTROL_FRAME_TO_ALL = -1 }; /* as node: all nodes below, and the one that gets the frame */

/* Returns the head of a `relay` frame for or from `node`, and appends its payload: the frame `head`
 * with `payload`. Drops `head`. */
json_t *control_frame_relay(struct strbuf *out, int node, json_t *head, const void *payload,
                            size_t len);
/* Reads a `relay` frame. The caller drops inner->head.
 *   -EBADMSG  malformed */
int control_frame_relayed(struct control_frame *inner, int *node, const struct control_frame *f);
