/* pmi1_server - serves PMI-1 (pmi1.h) to the ranks of a job on this machine. There is a pair of
 * stream sockets per rank; the rank inherits one end as PMI_FD. */
#ifndef DROVER_PMI1_SERVER_H
#define DROVER_PMI1_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/pmix_server.h"

struct pmi1_server;

/* Serves the ranks of `p`. Events come from the loop. */
struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct plan *p,
                                     const struct pmix_server_events *ev, void *arg);
/* Opens only the sockets, for an agent that forwards lines to a launcher that serves PMI-1. The
 * loop calls `received` with bytes of a rank. The caller sends answers with pmi1_server_send(), and
 * sets PMI_RANK and PMI_SIZE. */
struct pmi1_server *pmi1_server_relay(uv_loop_t *loop, int ranks,
                                      void (*received)(void *arg, int rank, const char *bytes,
                                                       size_t len),
                                      void *arg);
/* Sends an answer to a rank. Disconnects the rank if `len` is 0. */
void pmi1_server_send(struct pmi1_server *s, int rank, const char *text, size_t len);
/* Closes the server. No event follows. The handles close on the loop's next turn. */
void pmi1_server_close(struct pmi1_server *s);
AUTO_DEFINE(pmi1_server, struct pmi1_server *, pmi1_server_close)

/* Opens the sockets of a rank; to be called once per rank. `*rank_fd` is the rank's end, which the
 * caller passes on and closes. Adds the rank's variables, except PMI_FD, to `*env`. */
int pmi1_server_rank(struct pmi1_server *s, int rank, int *rank_fd, char ***env, struct err *e);
/* Reads what the rank has sent and was not read yet. */
void pmi1_server_drain(struct pmi1_server *s, int rank);

#endif
