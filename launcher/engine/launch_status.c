#include "launcher/engine/launch_internal.h"

void launch_last_collective(const struct launch *j, int rank, struct collective_position *out)
{
    struct collective_position here;
    engine_last_collective(j->run, rank, &here);
    *out = here.comm[0] ? here : j->ranks[rank].remote_status.collective;
}

int launch_sample_status(struct launch *j, struct rank_status *out)
{
    int n = j->plan->world_size;
    AUTO(free) pid_t *pids = xcalloc((size_t)n, sizeof *pids);
    for (int i = 0; i < n; i++)
        pids[i] = j->ranks[i].pid;
    int rc = rank_status_sample(out, pids, n);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (pids[i] == 0)
            out[i] = j->ranks[i].remote_status;
        launch_last_collective(j, i, &out[i].collective);
    }
    engine_request_status(j->run);
    return rc;
}

int launch_request_status(struct launch *j, bool *asked)
{
    int n = 0;
    engine_request_status(j->run);
    for (int i = 0; i < j->plan->world_size; i++) {
        enum job_rank_state s = job_rank_state(j->job, i);
        asked[i] = !plan_is_local(j->plan) && (s == JOB_RANK_RUNNING || s == JOB_RANK_RUNNING_EOF);
        n += asked[i];
    }
    return n;
}

void launch_request_stack(struct launch *j, int rank)
{
    engine_request_stack(j->run, rank);
}

bool launch_pmix_connected(const struct launch *j)
{
    return mpi_ranks_any_connected(j->mpi);
}

int64_t launch_pmix_wait_ms(const struct launch *j, int rank)
{
    return mpi_ranks_wait_ms(j->mpi, rank, uv_now(launch_loop(j)));
}

int launch_status_node_checked(void *arg, int node, const char *text, size_t len, struct err *e)
{
    const struct launch_observers *l = &((struct launch *)arg)->observers;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.node_checked)
            return l->at[i].ev.node_checked(l->at[i].arg, node, text, len, e);
    return 0;
}

int launch_status_nodes_ready(void *arg, int *node, struct err *e)
{
    const struct launch_observers *l = &((struct launch *)arg)->observers;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.nodes_ready)
            return l->at[i].ev.nodes_ready(l->at[i].arg, node, e);
    return 0;
}
