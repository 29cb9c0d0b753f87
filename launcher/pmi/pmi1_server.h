/* pmi1_serve - PMI-1 (pmi1.h) for the ranks of a job on this machine: a stream socket each, whose
 * other end the rank inherits as PMI_FD. */
#ifndef DROVER_PMI1_SERVER_H
#define DROVER_PMI1_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/pmix_server.h"

struct pmi1_server;

/* The events come from the loop. */
struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct plan *p,
                                     const struct pmix_server_events *ev, void *arg);
/* The sockets alone: what ranks send is given to `took`, from the loop, and what they are answered
 * comes by pmi1_server_send(). The caller sets PMI_RANK and PMI_SIZE. */
struct pmi1_server *pmi1_server_relay(uv_loop_t *loop, int ranks,
                                      void (*took)(void *arg, int rank, const char *bytes,
                                                   size_t len),
                                      void *arg);
/* Nothing (`len` 0) cuts the rank off. */
void pmi1_server_send(struct pmi1_server *s, int rank, const char *text, size_t len);
/* No event follows. Its handles close on the loop's next turn. */
void pmi1_server_close(struct pmi1_server *s);
AUTO_DEFINE(pmi1_server, struct pmi1_server *, pmi1_server_close)

/* Once for each rank: its end, the caller's to pass on and close, and what it needs in its
 * environment but for PMI_FD. */
int pmi1_server_rank(struct pmi1_server *s, int rank, int *its_end, char ***env, struct err *e);
/* Takes what has come from the rank and was not read yet. */
void pmi1_server_drain(struct pmi1_server *s, int rank);

#endif
