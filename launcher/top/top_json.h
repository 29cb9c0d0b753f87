/* top_json - a node as the line of JSON that `drover top --json` prints (docs/drover-top.md has its
 * keys), and back. */
#pragma once

#include "common/json.h"
#include "launcher/top/top_node.h"

/* An unknown value is null. */
json_t *top_json(const struct top_node *n);

/* Reads the node, which must be empty. Texts are cut to the room that they have.
 *   -EINVAL  not such an object */
int top_json_read(struct top_node *out, const json_t *j, struct err *e);
