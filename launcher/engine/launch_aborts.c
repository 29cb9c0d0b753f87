/* A rank may call MPI_Abort() because another rank has died. The abort may then be reported before
 * the exit of the dead rank, which is the first failure:
 *
 * - on this node, since the guardian reports exits later than PMIx or PMI-1 reports aborts. The
 *   abort stays pending until that exit is reported, or for ABORT_MS;
 * - over several nodes, since the exit may be on its way from another node. Every abort stays
 *   pending for ABORT_NODES_MS, and so does the exit of the rank that has aborted. */
#include "launcher/engine/launch_internal.h"

#include "launcher/guardian/process_tree.h"

enum { ABORT_MS = 1000, ABORT_NODES_MS = 100 };

static void count_abort(struct launch *j, int rank)
{
    struct launch_rank *r = &j->ranks[rank];
    if (r->abort_pending)
        launch_after_event(j, rank, job_rank_aborted(j->job, rank, r->abort_code));
    r->abort_pending = false;
}

static void on_aborts(uv_timer_t *t)
{
    struct launch *j = t->data;
    count_abort(j, j->first_aborted);
    for (int i = 0; i < j->plan->world_size; i++)
        count_abort(j, i);
    for (int i = 0; i < j->plan->world_size; i++) {
        AUTO(free) struct rank_end *held = TAKE(j->ranks[i].held_end);
        if (held)
            launch_rank_ended(j, held);
    }
}

static bool another_has_exited(const struct launch *j, int rank)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (i != rank && j->ranks[i].pid && process_tree_is_dead(j->ranks[i].pid))
            return true;
    return false;
}

void launch_aborts_on_aborted(struct launch *j, int rank, int code)
{
    j->ranks[rank].abort_code = code;
    j->ranks[rank].abort_pending = true;
    uint64_t wait_ms = another_has_exited(j, rank) ? ABORT_MS
                       : j->plan->node_count > 1   ? ABORT_NODES_MS
                                                   : 0;
    if (wait_ms == 0) {
        count_abort(j, rank);
    } else if (!uv_is_active((uv_handle_t *)&j->abort_timer)) {
        j->first_aborted = rank;
        uv_timer_start(&j->abort_timer, on_aborts, wait_ms, 0);
    }
}

bool launch_aborts_hold_end(struct launch *j, const struct rank_end *r)
{
    bool waits = uv_is_active((uv_handle_t *)&j->abort_timer);
    if (waits && j->ranks[r->rank].abort_pending && j->plan->node_count > 1) {
        struct rank_end *held = xzalloc(sizeof *held);
        *held = *r;
        j->ranks[r->rank].held_end = held;
        return true;
    }
    count_abort(j, r->rank);
    if (waits) /* further exits that are reported together come first */
        uv_timer_start(&j->abort_timer, on_aborts, 0, 0);
    return false;
}
