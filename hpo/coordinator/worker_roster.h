/* worker_roster - the workers of a sweep: lists them for `sweep show`, and warns if there are too
 * few for a trial. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hpo/store/sweep_dir.h"
#include "hpo/transport/peer_table.h"
#include "hpo/transport/transport_server.h"

struct worker_roster {
    bool own;  /* the coordinator runs a worker itself, whose failure it reports */
    int nodes; /* that a trial needs */
    const struct scheduler *sched; /* has the workers' faults; NULL: none */
    bool changed;                  /* since the list was written */
    uint64_t written_ms;           /* when the list was written */
    uint64_t lonely_ms; /* since when workers have been too few; 0: the warning was logged */
};

/* Workers that are not lost. */
size_t worker_roster_count(const struct peer_table *p);

struct worker_roster_totals {
    int workers, slots, gpus; /* GPUs of their nodes */
};
/* Counts the workers that are not lost. */
struct worker_roster_totals worker_roster_totals(const struct peer_table *p);

/* Call it once per second. Writes the workers to PATH/workers.json if they have changed, and warns
 * once if none has connected for long, or too few for a trial. While thousands of workers connect,
 * the list is not written each second: it takes some microseconds per worker, in which no message
 * is answered. */
void worker_roster_tick(struct worker_roster *r, const struct peer_table *p,
                        const struct sweep_dir *d, uint64_t now_ms);

/* Forwards a WIRE_JOIN_TICKET to the workers that have reservations for its trial (an array of
 * ids), each with the number of its node in the job: node 0 is the trial's worker. A worker that
 * does not receive it sends WIRE_RESERVED again. */
void worker_roster_forward_ticket(struct transport_server *s, const json_t *members,
                                  const struct wire_msg *m);
