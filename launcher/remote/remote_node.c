/* The nodes of a job, and their states. */
#include "launcher/remote/engine_remote_internal.h"

void remote_node_make_all(struct remote_job *j)
{
    int n = j->plan->world_size;
    j->ranks = xcalloc((size_t)n, sizeof *j->ranks);
    j->topos = topo_known_new();
    j->nodes = xcalloc((size_t)j->plan->node_count, sizeof *j->nodes);
    j->ranks_by_node = xcalloc((size_t)n, sizeof(struct remote_rank *));
    j->rank_nodes = xcalloc((size_t)n, sizeof *j->rank_nodes);
    for (int i = 0, first = 0; i < j->plan->node_count; i++) {
        j->nodes[i] = (struct remote_node){.job = j, .node = i, .ranks = j->ranks_by_node + first};
        first += j->plan->nodes[i].local_size;
    }
    for (int i = 0; i < n; i++) {
        struct remote_rank *r = &j->ranks[i];
        j->rank_nodes[i] = j->plan->ranks[i].node;
        *r = (struct remote_rank){.node = &j->nodes[j->rank_nodes[i]], .rank = i};
        r->streams[0] = (struct remote_stream){.rank = r, .from = LAUNCH_STDOUT};
        r->streams[1] = (struct remote_stream){.rank = r, .from = LAUNCH_STDERR};
        r->node->ranks[r->node->rank_count++] = r;
    }
}

const char *remote_node_host(const struct remote_node *n)
{
    return n->job->plan->nodes[n->node].name;
}

bool remote_node_apply(struct remote_node *n, enum remote_node_event ev)
{
    int to = states_step(&remote_node_states, n->state, ev, "node %s", remote_node_host(n));
    if (to >= 0)
        n->state = (enum remote_node_state)to;
    return to >= 0;
}

bool remote_node_is_cleared(const struct remote_node *n)
{
    bool all = remote_node_is_reaped(n->state);
    for (int i = 0; i < n->rank_count && all; i++)
        all = n->ranks[i]->state == REMOTE_RANK_DONE && !n->ranks[i]->streams[0].output &&
              !n->ranks[i]->streams[1].output;
    return all;
}

/* A rank that waits for the start is not lost: the start of the job fails. */
void remote_node_lose(struct remote_node *n, const char *why)
{
    struct remote_job *j = n->job;
    j->failed = true;
    remote_node_apply(n, REMOTE_NODE_EV_GONE);
    for (int i = 0; i < n->rank_count; i++) {
        struct remote_rank *r = n->ranks[i];
        if (r->state == REMOTE_RANK_STARTED && engine_remote_apply_rank(r, REMOTE_RANK_EV_LOST))
            j->ev.lost(j->arg, r->rank, why);
        remote_output_end(r);
    }
    engine_remote_check_reaped(j);
}
