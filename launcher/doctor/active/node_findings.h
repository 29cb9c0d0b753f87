/* node_findings - what the checks of `drover doctor` find on the node of a slow rank, while its job
 * runs there: in a process of its own, so that nothing waits for it. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"

struct node_findings;

/* `text` has the findings in one line. It is empty if there are none, and NULL if the node could
 * not be checked; `findings` is then NULL, too, else an array of {"id", "state", "value"}, which
 * the callee owns. */
typedef void node_findings_fn(void *arg, const char *text, json_t *findings);

/* Starts the checks of a node (NULL: this machine). Calls `done` once, from the loop, after at most
 * some 20 s. Returns the process, or NULL if it cannot be started. */
struct node_findings *node_findings_start(uv_loop_t *loop, const char *node, node_findings_fn *done,
                                          void *arg);
/* Ends the process, if it still runs; `done` is not called any more. The handles close in the
 * loop's next iterations. `f` may be NULL. */
void node_findings_close(struct node_findings *f);

/* Reads the output of `drover doctor --json` about one node: appends the warnings and failures that
 * can explain why a rank is slow, and adds them to `list`.
 *   -EBADMSG  malformed, or the node has not answered */
int node_findings_read(struct strbuf *text, json_t *list, const char *output, struct err *e);
