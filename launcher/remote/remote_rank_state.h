/* remote_rank_state - the life cycle of a rank that an agent runs, as a table.
 *
 * Pure. The state does not show if the processes of the rank's node are reaped
 * (remote_node_state.h) or if its output has ended (struct remote_rank). */
#pragma once

#include "common/states.h"

enum remote_rank_state {
    REMOTE_RANK_WAITING, /* its agent was not told to start it */
    REMOTE_RANK_STARTED, /* its agent was told to start it */
    REMOTE_RANK_DONE,    /* exited, lost or not started, and reported */
    REMOTE_RANK_STATES
};

enum remote_rank_event {
    REMOTE_RANK_EV_START,       /* the job starts */
    REMOTE_RANK_EV_NOT_STARTED, /* the job's start failed, or the agent could not start the rank */
    REMOTE_RANK_EV_EXITED,      /* the agent reports the rank's exit */
    REMOTE_RANK_EV_LOST,        /* its node is lost, or the reap limit is reached */
    REMOTE_RANK_EVENTS
};

extern const struct states remote_rank_states;
