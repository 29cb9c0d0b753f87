/* launch_witnesses - what the ranks of a job tell about its first failure.
 *
 * A rank often fails because another one has: "connection closed by peer". The job then listens for
 * a moment before the others are told to stop, so that the other one can print and exit. What a
 * rank prints after that comes from the stop. */
#include <string.h>

#include "launcher/engine/launch_internal.h"

enum {
    OUTPUT_MS = 100, /* how long the first failed rank's output may take to end */
    LISTEN_MAX_MS = 1000
};

static void copy_lines(struct launch_rank *r)
{
    strv_free(r->said);
    r->said = NULL;
    last_lines_copy(&r->said, r->out);
    last_lines_copy(&r->said, r->err);
}

/* The output of a rank that ended by itself may still arrive when the others are told to stop. */
static void describe_rank(struct launch *j, int rank)
{
    struct launch_rank *r = &j->ranks[rank];
    const struct job_rank *state = &j->job->ranks[rank];
    bool ended = state->state >= JOB_RANK_DRAINING, by_itself = ended && !state->end.told_to_stop;
    if (!j->told_to_stop || by_itself)
        copy_lines(r);
    j->witnesses[rank] = (struct job_witness){.end = ended ? &state->end : NULL,
                                              .lines = (const char *const *)r->said,
                                              .error = by_itself ? r->error : NULL};
}

void launch_witnesses_end(struct launch *j, struct job_end *out)
{
    int first = j->job->first_failed;
    *out = (struct job_end){.status = job_status(j->job),
                            .first_failed = first,
                            .stopped = j->job->stopped,
                            .broken = j->broken,
                            .seconds = (double)(uv_hrtime() - j->started_ns) / 1e9};
    if (first < 0)
        return;
    int n = j->plan->world_size;
    if (!j->witnesses)
        j->witnesses = xcalloc((size_t)n, sizeof *j->witnesses);
    for (int i = 0; i < n; i++)
        describe_rank(j, i);
    out->ranks = j->witnesses;
    out->ranks_count = n;
    out->first = j->job->ranks[first].end;
    out->error = j->ranks[first].error;
}

void launch_witnesses_mark(struct launch *j)
{
    if (j->job->first_failed < 0 || j->told_to_stop)
        return;
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->job->ranks[i].state < JOB_RANK_DRAINING)
            copy_lines(&j->ranks[i]);
    j->told_to_stop = true;
}

int launch_witnesses_listen_ms(struct launch *j)
{
    uint64_t waited_ms = uv_now(launch_loop(j)) - j->failed_ms;
    int limit_ms = OUTPUT_MS;
    if (j->job->ranks[j->job->first_failed].state == JOB_RANK_DONE || waited_ms >= OUTPUT_MS) {
        struct job_end end;
        launch_witnesses_end(j, &end);
        limit_ms = launch_observers_listen(&j->observers, &end);
    }
    if (limit_ms > LISTEN_MAX_MS)
        limit_ms = LISTEN_MAX_MS;
    return waited_ms >= (uint64_t)limit_ms ? 0 : limit_ms - (int)waited_ms;
}

void launch_witnesses_free(struct launch *j)
{
    for (int i = 0; j->ranks && i < j->plan->world_size; i++)
        strv_free(j->ranks[i].said);
    free(j->witnesses);
}
