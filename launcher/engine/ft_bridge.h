/* ft_bridge - the process that talks to the clients of NVIDIA's Resiliency Extension
 * (RankMonitorClient) for the ranks of this node: launcher/engine/ft_bridge.py.
 *
 * Each rank has a socket, to which its client connects. What clients send are pickled Python
 * objects, so a Python process reads them and passes them on as packets of the report channel. It
 * is started when the first client connects, and is killed with the job. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/io/report_channel.h"

struct ft_bridge;

/* Makes the sockets of `ranks` ranks. `config` has the extension's settings as JSON. `ev.packet` is
 * called with the number of the rank, 0 … ranks - 1. `env` (a strv, copied) is the environment of
 * the ranks, by which the process finds their Python and its modules. */
int ft_bridge_open(struct ft_bridge **out, uv_loop_t *loop, const char *config, char *const *env,
                   int ranks, const struct report_channel_events *ev, struct err *e);
/* Ends the process. The handles close in the loop's next iterations. `b` may be NULL. */
void ft_bridge_close(struct ft_bridge *b);
AUTO_DEFINE(ft_bridge, struct ft_bridge *, ft_bridge_close)

/* Returns the path of the i-th rank's socket (FT_RANK_MONITOR_IPC_SOCKET). The caller frees it. */
char *ft_bridge_socket(const struct ft_bridge *b, int i);

/* Checks that the Python of this process's environment has the extension. Waits for it, about 30
 * ms.
 *   -ENOENT  it does not, or there is no Python; the hint says how to install it */
int ft_bridge_check(struct err *e);
