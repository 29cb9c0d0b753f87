/* feature_mismatch - what goes wrong between the ranks of a job: a rank that fails in a collective,
 * where the others then are, and MPI ranks that do not find each other. */
#include <string.h>

#include "launcher/job/collective_mismatch.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/mpi_singletons.h"

struct mismatch {
    FEATURE_STATE;
    bool *ended; /* by rank */
    /* When the first rank fails in a collective, the positions of all ranks are compared. This is
     * done when the ranks on other nodes have sent their status. */
    bool checked;
    int failed;             /* the first rank that failed in a collective */
    bool *ended_then;       /* by rank: had ended before that failure */
    bool *status_requested; /* by rank: its status has not arrived yet … */
    int status_awaited;     /* … number of these ranks */
    struct mpi_singletons *singletons;
};

bool feature_mismatch_write(struct strbuf *b, bool *odd, const struct plan *p, const bool *ended,
                            const struct collective_position *at)
{
    AUTO(free)
    struct collective_mismatch_rank *ranks = xcalloc((size_t)p->world_size, sizeof *ranks);
    for (int i = 0; i < p->world_size; i++)
        ranks[i] = (struct collective_mismatch_rank){.rank = p->first_rank + i,
                                                     .node = p->nodes[p->ranks[i].node].name,
                                                     .exited = ended[i],
                                                     .position = &at[i]};
    collective_mismatch_write(b, odd, ranks, p->world_size);
    return memchr(odd, true, (size_t)p->world_size);
}

static void print_mismatch(struct mismatch *m)
{
    const struct plan *p = m->run->plan;
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(free) bool *odd = xcalloc((size_t)p->world_size, sizeof *odd);
    AUTO(free) struct collective_position *at = xcalloc((size_t)p->world_size, sizeof *at);
    for (int i = 0; i < p->world_size; i++)
        launch_last_collective(m->run->job, i, &at[i]);
    int error = at[m->failed].failed;
    strbuf_printf(&b, "%s: rank %d %s a collective%s%s\n", m->run->program,
                  p->first_rank + m->failed,
                  m->ended_then[m->failed] ? "exited before" : "failed in", error ? ": " : "",
                  error ? strerror(-error) : "");
    if (feature_mismatch_write(&b, odd, p, m->ended_then, at) || error)
        m->run->print(m->run->arg, strbuf_str(&b));
}

static void on_rank_status(void *arg, int rank)
{
    struct mismatch *m = arg;
    m->status_awaited -= m->status_requested[rank];
    if (m->status_requested[rank] && m->status_awaited == 0)
        print_mismatch(m);
    m->status_requested[rank] = false;
}

/* Starts the comparison of the ranks' collectives at the first rank that ends because a collective
 * failed, inside a collective, or too early for one. The other ranks are still where they were. The
 * status of ranks on other nodes arrives before they end. */
static void check_mismatch(struct mismatch *m, const struct rank_end *r)
{
    struct collective_position at;
    launch_last_collective(m->run->job, r->rank, &at);
    bool by_itself = job_rank_status(r) != 0 && (r->aborted || !r->told_to_stop);
    if (m->checked || !by_itself || (!at.failed && !at.waits_ms && !r->mpi_fault))
        return;
    m->checked = true;
    m->failed = r->rank;
    memcpy(m->ended_then, m->ended, (size_t)m->run->plan->world_size * sizeof *m->ended);
    m->ended_then[r->rank] = r->mpi_fault != JOB_MPI_NO_FAULT;
    m->status_awaited = launch_request_status(m->run->job, m->status_requested);
    if (m->status_awaited == 0)
        print_mismatch(m);
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct mismatch *m = arg;
    on_rank_status(m, r->rank); /* no further status of this rank follows */
    check_mismatch(m, r);
    m->ended[r->rank] = true;
}

/* ---- attempts ------------------------------------------------------------------------------- */

static void on_singletons(void *arg, const char *text)
{
    const struct mismatch *m = arg;
    feature_record(m->run, "apart", json_pack("{s:o}", "text", json_text(text)));
    feature_say(m->run, "warn: %s", text);
}

static void attach(void *state)
{
    struct mismatch *m = state;
    size_t n = (size_t)m->run->plan->world_size;
    m->ended = xcalloc(n, sizeof *m->ended);
    m->ended_then = xcalloc(n, sizeof *m->ended_then);
    m->status_requested = xcalloc(n, sizeof *m->status_requested);
    m->singletons = mpi_singletons_open(m->run->loop, m->run->job, on_singletons, m);
}

static void ended(void *state, const struct job_end *end, int status)
{
    struct mismatch *m = state;
    mpi_singletons_ended(m->singletons, end);
    mpi_singletons_close(m->singletons);
    free(m->ended);
    free(m->ended_then);
    free(m->status_requested);
}

const struct feature feature_mismatch = {
    .size = sizeof(struct mismatch),
    .once = true,
    .attach = attach,
    .events = {.rank_status = on_rank_status, .rank_ended = on_rank_ended},
    .ended = ended,
};
