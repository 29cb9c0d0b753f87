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

struct coordinator;

struct coordinator_opts {
    const struct spec *spec;
    const struct sweep_dir *dir;               /* opened to coordinate */
    struct run_message run_message;            /* of the same */
    int slots;                                 /* of the worker on this host; 0: no worker */
    struct listen_endpoint_opts listen;        /* for workers of other machines */
    struct remote_workers_opts remote_workers; /* that it starts; without hosts: none */
};

/* What a person may want to see; all after it was stored. */
struct coordinator_events {
    void (*stored)(void *arg, const struct scheduler *s, enum scheduler_record_kind kind,
                   int trial);
    /* Something happened, or a second has passed. */
    void (*changed)(void *arg, const struct scheduler *s);
    /* The user asked for an end; again: at once. */
    void (*interrupted)(void *arg, bool again);
};

/* Replays the store and listens. Borrows the configuration.
 *   -EBADMSG, -EINVAL  the store is damaged
 *   others             it cannot listen */
int coordinator_open(struct coordinator **out, const struct coordinator_opts *c, struct err *e);
void coordinator_close(struct coordinator *c);
AUTO_DEFINE(coordinator, struct coordinator *, coordinator_close)

const struct scheduler *coordinator_scheduler(const struct coordinator *c);
/* Where workers of other machines find it; NULL: nowhere. */
const char *coordinator_endpoint(const struct coordinator *c);

/* Works until the sweep is over or the user has it stopped. The events are borrowed until
 * coordinator_close(), which waits for the workers that we started and may tell more. Returns 0, or
 * the number of the signal that stopped it; trials that ran then have gone back to the queue.
 *   negative errno  it cannot go on (the disk is full, no worker can be kept): what the text says
 */
int coordinator_run(struct coordinator *c, const struct coordinator_events *ev, void *arg,
                    struct err *e);

/* Why it was over, in words; NULL while it is not. */
const char *coordinator_why(const struct coordinator *c);

#endif
