/* coord - the coordinator of a sweep: workers' messages go to the scheduler, what it answers is
 * stored, then done. One commit for each turn of the loop. */
#ifndef DROVER_COORDINATOR_H
#define DROVER_COORDINATOR_H

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/coordinator/remote_workers.h"
#include "hpo/coordinator/run_message.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"
#include "hpo/transport/listen_endpoint.h"

struct coord;

struct coord_config {
    const struct spec *spec;
    const struct sweepdir *dir; /* opened to coordinate */
    struct order order;         /* of the same */
    int places;                 /* of the worker on this host; 0: there is none */
    struct listen_ask listen;   /* for workers of other machines */
    struct fleet_config fleet;  /* those of them that it starts; without hosts: none */
};

/* What a person may want to see; all after it was stored. */
struct coord_events {
    void (*stored)(void *arg, const struct sched *s, enum sched_record_kind kind, int trial);
    /* Something happened, or a second has passed. */
    void (*changed)(void *arg, const struct sched *s);
    /* The user asked for an end; again: at once. */
    void (*interrupted)(void *arg, bool again);
};

/* Replays the store and listens. Borrows the configuration.
 *   -EBADMSG, -EINVAL  the store is damaged
 *   others             it cannot listen */
int coord_open(struct coord **out, const struct coord_config *c, struct err *e);
void coord_close(struct coord *c);
AUTO_DEFINE(coord, struct coord *, coord_close)

const struct sched *coord_sched(const struct coord *c);
/* Where workers of other machines find it; NULL: nowhere. */
const char *coord_endpoint(const struct coord *c);

/* Works until the sweep is over or the user has it stopped. The events are borrowed until
 * coord_close(), which waits for the workers that we started and may tell more. Returns 0, or the
 * number of the signal that stopped it; trials that ran then have gone back to the queue.
 *   negative errno  it cannot go on (the disk is full, no worker can be kept): what the text says
 */
int coord_run(struct coord *c, const struct coord_events *ev, void *arg, struct err *e);

/* Why it was over, in words; NULL while it is not. */
const char *coord_why(const struct coord *c);

#endif
