/* pmi1_server - serves PMI-1 (pmi1.h) to the ranks of a job on this machine. There is a pair of
 * stream sockets per rank; the rank inherits one end as PMI_FD. What ranks put, and the names that
 * they publish, are known on all nodes. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/job_map.h"
#include "launcher/pmi/pmix_server.h"

struct pmi1_server;

/* Serves the ranks of the map's node. What ranks have put reaches the other nodes with the next
 * barrier. `map` is needed only during the call. */
struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct job_map *map,
                                     const struct rank_events *ev, void *arg);
/* Handles a message of the kind EXCHANGE_PMI1 (exchange_events.deliver). `server` is a struct
 * pmi1_server. */
void pmi1_server_deliver(void *server, const struct exchange_message *m);
/* Closes the server. No event follows. The handles close on the loop's next turn. */
void pmi1_server_close(struct pmi1_server *s);
AUTO_DEFINE(pmi1_server, struct pmi1_server *, pmi1_server_close)

/* Opens the sockets of a rank; to be called once per rank. `*rank_fd` is the rank's end, which the
 * caller passes on and closes. Adds the rank's variables, except PMI_FD, to `*env`. */
int pmi1_server_rank(struct pmi1_server *s, int rank, int *rank_fd, char ***env, struct err *e);
/* Reads what the rank has sent and was not read yet. */
void pmi1_server_drain(struct pmi1_server *s, int rank);
