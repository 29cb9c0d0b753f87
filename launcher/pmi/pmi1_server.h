/* pmi1_server - serves PMI-1 (pmi1.h) to the ranks of a job on this machine. Each has a stream
 * socket, whose other end the rank inherits as PMI_FD. */
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
/* Opens the sockets only, to forward lines to a launcher that serves PMI-1: calls `received` from
 * the loop with bytes of a rank; answers are sent with pmi1_server_send(). The caller sets PMI_RANK
 * and PMI_SIZE. */
struct pmi1_server *pmi1_server_relay(uv_loop_t *loop, int ranks,
                                      void (*received)(void *arg, int rank, const char *bytes,
                                                       size_t len),
                                      void *arg);
/* Sends an answer to a rank. `len` 0: disconnects it. */
void pmi1_server_send(struct pmi1_server *s, int rank, const char *text, size_t len);
/* Closes it. No event follows. Its handles close on the loop's next turn. */
void pmi1_server_close(struct pmi1_server *s);
AUTO_DEFINE(pmi1_server, struct pmi1_server *, pmi1_server_close)

/* Opens the socket of a rank, once per rank. The caller passes on and closes `*rank_fd`. Adds the
 * rank's variables without PMI_FD to `*env`. */
int pmi1_server_rank(struct pmi1_server *s, int rank, int *rank_fd, char ***env, struct err *e);
/* Reads what the rank has sent and was not read yet. */
void pmi1_server_drain(struct pmi1_server *s, int rank);

#endif
