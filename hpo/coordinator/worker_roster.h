/* company - who works on a sweep: told to those who look, and to the user when it is nobody. */
#ifndef DROVER_WORKER_ROSTER_H
#define DROVER_WORKER_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hpo/store/sweep_dir.h"
#include "hpo/transport/peer_table.h"
#include "hpo/transport/transport_server.h"

struct worker_roster {
    bool own;           /* we have a worker ourselves: then it is seen when it fails */
    int nodes;          /* that a trial needs */
    bool changed;       /* since they were written down */
    uint64_t noted_ms;  /* when they were */
    uint64_t lonely_ms; /* since when nobody has been there; 0: that was said */
};

/* Those that are not lost. */
size_t worker_roster_count(const struct peer_table *p);

/* Once a second: notes who is there in PATH/workers.json, for `sweep show`, and says once when
 * nobody has come for long, or not enough for a trial. Not each second while thousands join: to
 * write them all down takes some microseconds for each, in which nobody is answered. */
void worker_roster_tick(struct worker_roster *c, const struct peer_table *p,
                        const struct sweep_dir *d, uint64_t now_ms);

/* Hands a WIRE_JOIN_TICKET on to those that hold places for its trial (a list of ids), each with
 * the first of its `ranks` ranks. Who does not hear it says WIRE_RESERVED again. */
void worker_roster_forward_ticket(struct transport_server *h, const json_t *others,
                                  const struct wire_msg *m, int ranks);

#endif
