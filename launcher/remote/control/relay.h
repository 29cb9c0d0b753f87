/* relay - frames that pass through agents of the tree (tree/tree.h): a `relay` frame names the node
 * that its payload, an encoded frame, is for or from. Pure. */
#pragma once

#include "launcher/remote/control/control_frame.h"

enum { RELAY_ALL = -1 }; /* as node: all nodes below, and the one that gets the frame */

/* Returns the head of a `relay` frame for or from `node`, and appends its payload: the frame `head`
 * with `payload`. Drops `head`. */
json_t *relay_encode(struct strbuf *out, int node, json_t *head, const void *payload, size_t len);
/* Reads a `relay` frame. The caller drops inner->head.
 *   -EBADMSG  malformed */
int relay_decode(struct control_frame *inner, int *node, const struct control_frame *f);
