#include "launcher/job/mpi_ranks.h"

/* A rank may be a shell that runs one MPI program after the other. */
#define ROW(...) STATES_ROW(MPI_RANK, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(NEW, CONNECTED, CONNECTED),
    ROW(NEW, EXITED, ABSENT),
    ROW(NEW, FAILED, ENDED),
    ROW(CONNECTED, CONNECTED, CONNECTED),
    ROW(CONNECTED, FINALIZED, FINALIZED),
    ROW(CONNECTED, EXITED, ENDED),
    ROW(CONNECTED, FAILED, ENDED),
    ROW(FINALIZED, CONNECTED, CONNECTED),
    ROW(FINALIZED, EXITED, ENDED),
    ROW(FINALIZED, FAILED, ENDED),
};

const struct states mpi_ranks_states = STATES_TABLE(rows);

struct rank {
    enum mpi_rank_state state;
    bool connected;    /* the rank has ever been connected */
    uint64_t since_ms; /* time of the last connection */
};

struct mpi_ranks {
    struct rank *ranks;
    int count, connected; /* `connected`: number of ranks that have ever been connected */
};

struct mpi_ranks *mpi_ranks_new(int ranks)
{
    struct mpi_ranks *m = xzalloc(sizeof *m);
    m->ranks = xcalloc((size_t)ranks, sizeof *m->ranks);
    m->count = ranks;
    return m;
}

void mpi_ranks_free(struct mpi_ranks *m)
{
    if (m)
        free(m->ranks);
    free(m);
}

enum mpi_rank_state mpi_ranks_apply(struct mpi_ranks *m, int rank, enum mpi_rank_event ev,
                                    uint64_t now_ms)
{
    struct rank *r = &m->ranks[rank];
    enum mpi_rank_state before = r->state;
    int to = states_next(&mpi_ranks_states, before, ev);
    if (to < 0)
        return before;
    r->state = (enum mpi_rank_state)to;
    if (r->state != MPI_RANK_CONNECTED || before == MPI_RANK_CONNECTED)
        return before;
    m->connected += !r->connected;
    r->connected = true;
    r->since_ms = now_ms;
    return before;
}

bool mpi_ranks_any_connected(const struct mpi_ranks *m)
{
    return m->connected > 0;
}

int64_t mpi_ranks_wait_ms(const struct mpi_ranks *m, int rank, uint64_t now_ms)
{
    const struct rank *r = &m->ranks[rank];
    bool waits = r->state == MPI_RANK_CONNECTED && m->connected < m->count;
    return waits ? (int64_t)(now_ms - r->since_ms) : 0;
}

int mpi_ranks_find_absent(const struct mpi_ranks *m, uint64_t now_ms, int64_t *waits_ms)
{
    int absent = -1;
    bool waiting = false;
    *waits_ms = 0;
    for (int i = m->count - 1; i >= 0; i--) {
        int64_t ms = mpi_ranks_wait_ms(m, i, now_ms);
        *waits_ms = ms > *waits_ms ? ms : *waits_ms;
        waiting = waiting || m->ranks[i].state == MPI_RANK_CONNECTED;
        absent = m->ranks[i].state == MPI_RANK_ABSENT ? i : absent;
    }
    return waiting ? absent : -1;
}
