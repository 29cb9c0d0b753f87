/* lease_context - what all trial runs and reservations of a worker share: the loop, the launcher,
 * limits, and the way to the coordinator. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "hpo/spec/resources.h"
#include "hpo/worker/outbox.h"
#include "hpo/worker/trial_paths.h"
#include "launcher/engine/launch_context.h"
#include "launcher/remote/agent_spawn.h"

struct lease_context {
    uv_loop_t *loop;
    struct launch_context *launcher;
    int64_t instance;                /* of the sweep; known before there is a lease */
    const struct resources *need;    /* of a trial; known before a lease gets a slot */
    char *cgroups;                   /* directory for the control groups of leases; NULL: none */
    const struct trial_paths *paths; /* set before the first trial_run_new() */
    outbox_fn *send;                 /* sends a message to the coordinator */
    void *arg;
};

/* A trial run or a reservation is done and its slot is free: no process of it is left. */
typedef void lease_done_fn(void *arg);

/* Sends a message that is not numbered. Borrows `data`, which may be NULL. */
void lease_context_send(const struct lease_context *c, enum wire_kind kind, int64_t lease,
                        json_t *data);

/* Claims the directory `cgroups` if trials need limits, or count out-of-memory kills by it. The
 * caller frees c->cgroups. Fails as cgroup_delegate_claim(), but only if trials need a limit of
 * memory. */
int lease_context_claim_cgroups(struct lease_context *c, struct err *e);

/* Makes a control group with the limits of a trial. Returns its directory, for
 * cgroup_delegate_remove() and free(); NULL, after a warning, if there is none. */
char *lease_context_make_cgroup(const struct lease_context *c, int64_t lease);

/* Returns how the agent of this node is started, for a job that awaits it. Borrows from `ticket`,
 * the data of a WIRE_JOIN_TICKET, and `cgroup` (NULL: none). */
struct agent_spawn_opts lease_context_agent(const json_t *ticket, const char *cgroup);
