#include "collectives/bench/bench_internal.h"

int bench_start_hypercube(struct drover_comm *comm, const struct backend_call *k)
{
    int rank = drover_comm_rank(comm), size = drover_comm_size(comm);
    size_t part = k->count * backend_type_bytes(k->type);
    char *out = k->out, *own = out + (size_t)rank * part;
    int rc = 0;
    if (k->in != own) { /* the first round's copy */
        rc = drover_group_start(comm);
        rc = rc < 0 ? rc : drover_send(comm, k->in, k->count, k->type, rank);
        rc = rc < 0 ? rc : drover_recv(comm, own, k->count, k->type, rank);
        rc = rc < 0 ? rc : drover_group_end(comm);
    }
    for (int mask = 1; mask < size && rc == 0; mask *= 2) {
        int have = rank & ~(mask - 1), peer = rank ^ mask;
        size_t n = k->count * (size_t)mask;
        rc = drover_group_start(comm);
        rc = rc < 0 ? rc : drover_send(comm, out + (size_t)have * part, n, k->type, peer);
        rc = rc < 0 ? rc : drover_recv(comm, out + (size_t)(have ^ mask) * part, n, k->type, peer);
        rc = rc < 0 ? rc : drover_group_end(comm);
    }
    return rc;
}
