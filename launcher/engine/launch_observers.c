/* launch_observers - what others learn of a job: its events, and what its ranks do. */
#include <assert.h>

#include "launcher/engine/launch_internal.h"

void launch_observers_add(struct launch_observers *l, const struct launch_events *ev, void *arg)
{
    assert(l->count < LAUNCH_OBSERVERS_MAX);
    l->at[l->count++] = (struct launch_observer){*ev, arg};
}

bool launch_observers_line(const struct launch_observers *l, int rank, enum launch_stream from,
                           const char *text, size_t len)
{
    bool more = true;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.line)
            more &= l->at[i].ev.line(l->at[i].arg, rank, from, text, len);
    return more;
}

bool launch_observers_can_listen(const struct launch_observers *l)
{
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.listen)
            return true;
    return false;
}

int launch_observers_listen(const struct launch_observers *l, const struct job_end *end)
{
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.listen)
            return l->at[i].ev.listen(l->at[i].arg, end);
    return 0;
}

void launch_observers_ended(struct launch_observers *l, const struct job_end *end)
{
    const struct launch_observers all = *l;
    l->count = 0; /* observers may be freed now, and a packet may still arrive */
    LAUNCH_OBSERVERS_EMIT(&all, ended, end);
}

void launch_observers_report(const struct launch_observers *l, int rank, const char *json,
                             size_t len)
{
    struct progress_packet p;
    if (!progress_packet_read(&p, json, len)) {
        LAUNCH_OBSERVERS_EMIT(l, report, rank, json, len);
        return;
    }
    LAUNCH_OBSERVERS_EMIT(l, progress, rank, &p);
    progress_packet_free(&p);
}

int launch_observers_node_checked(void *arg, int node, const char *text, size_t len, struct err *e)
{
    const struct launch_observers *l = &((struct launch *)arg)->observers;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.node_checked)
            return l->at[i].ev.node_checked(l->at[i].arg, node, text, len, e);
    return 0;
}

int launch_observers_nodes_ready(void *arg, int *node, struct err *e)
{
    const struct launch_observers *l = &((struct launch *)arg)->observers;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.nodes_ready)
            return l->at[i].ev.nodes_ready(l->at[i].arg, node, e);
    return 0;
}

/* ---- status --------------------------------------------------------------------------------- */

void launch_last_collective(const struct launch *j, int rank, struct collective_position *out)
{
    struct collective_position here = {0};
    if (j->run->ops->last_collective)
        j->run->ops->last_collective(j->run, rank, &here);
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
    j->run->ops->request_status(j->run);
    return rc;
}

int launch_request_status(struct launch *j, bool *asked)
{
    int n = 0;
    j->run->ops->request_status(j->run);
    for (int i = 0; i < j->plan->world_size; i++) {
        enum job_rank_state s = j->job->ranks[i].state;
        asked[i] = !plan_is_local(j->plan) && (s == JOB_RANK_RUNNING || s == JOB_RANK_RUNNING_EOF);
        n += asked[i];
    }
    return n;
}

void launch_request_stack(struct launch *j, int rank)
{
    if (j->run->ops->request_stack)
        j->run->ops->request_stack(j->run, rank);
}

bool launch_pmix_connected(const struct launch *j)
{
    return mpi_ranks_any_connected(j->mpi);
}

int64_t launch_pmix_wait_ms(const struct launch *j, int rank)
{
    return mpi_ranks_wait_ms(j->mpi, rank, uv_now(launch_loop(j)));
}
