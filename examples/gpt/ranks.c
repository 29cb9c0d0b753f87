#include "ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/throughput.h"

/* A wait for the other ranks has no limit: one of them may be writing to a slow disk. The launcher
 * ends the ranks if one has failed. */
#define WAIT_MS INT64_MAX

int ranks_error(const struct ranks *r, const char *what)
{
    fprintf(stderr, "gpt: rank %d: %s\n", r->rank, what);
    return -1;
}

int ranks_check(const struct ranks *r, int rc)
{
    return rc < 0 ? ranks_error(r, r->ops->info(r->dev)->error) : rc;
}

int ranks_open(struct ranks *r, const char *backend, size_t bytes)
{
    void *stream = r->ops->info(r->dev)->comm_stream;
    struct drover_comm_opts o = {.backend = backend, .stream = stream, .device = -1};
    if (r->size == 1)
        return 0;
    int rc = drover_comm_open(&r->comm, r->d, &o);
    /* If there is no NCCL, which is then missing on all ranks, use MPI and copy through the
     * host. */
    if (stream && !backend && (rc == -ENOENT || rc == -ELIBBAD)) {
        o.backend = "mpi";
        rc = drover_comm_open(&r->comm, r->d, &o);
    }
    if (rc < 0)
        return ranks_error(r, drover_error(r->d));
    if (!stream || strcmp(drover_comm_backend(r->comm), "nccl") == 0)
        return 0;
    r->staging = malloc(bytes);
    return r->staging ? 0 : ranks_error(r, "out of memory");
}

void ranks_close(struct ranks *r, bool abort)
{
    if (abort && r->comm)
        (void)drover_comm_abort(r->comm); /* other ranks may hang: close must not wait */
    drover_comm_close(r->comm);
    free(r->staging);
}

static int call(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n,
                enum drover_type t)
{
    size_t part = n / (size_t)r->size;
    if (what == RANKS_SUM)
        return drover_all_reduce(r->comm, all, all, n, t, DROVER_SUM);
    if (what == RANKS_SCATTER)
        return drover_reduce_scatter(r->comm, all, own, part, t, DROVER_SUM);
    if (what == RANKS_COPY)
        return drover_broadcast(r->comm, all, own, n, t, 0);
    if (what == RANKS_DEAL)
        return drover_scatter(r->comm, all, own, part, t, 0);
    return drover_all_gather(r->comm, own, all, part, t);
}

/* Copies to the host, reduces there, and copies back. */
static int call_staged(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n,
                       enum drover_type t)
{
    size_t bytes = n * (t == DROVER_BFLOAT16 ? 2 : sizeof(float)), part = bytes / (size_t)r->size;
    char *host_own = r->staging + (what == RANKS_COPY ? 0 : (size_t)r->rank * part);
    int rc = what == RANKS_GATHER ? r->ops->get(r->dev, host_own, own, part)
                                  : r->ops->get(r->dev, r->staging, all, bytes);
    if (rc < 0)
        return rc;
    rc = call(r, what, host_own, r->staging, n, t);
    if (rc < 0 || (rc = drover_wait(r->comm, WAIT_MS)) < 0)
        return rc;
    rc = what == RANKS_COPY   ? r->ops->put(r->dev, own, r->staging, bytes)
         : what == RANKS_DEAL ? r->ops->put(r->dev, own, host_own, part)
                              : r->ops->put(r->dev, all, r->staging, bytes);
    return rc < 0 ? -1 : r->ops->wait(r->dev);
}

void ranks_start(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n,
                 enum drover_type t)
{
    if (!r->comm || r->failed)
        return;
    r->ops->order(r->dev, 1);
    r->failed = (r->staging ? call_staged : call)(r, what, own, all, n, t) < 0;
}

/* Marks the end of the collectives that have ended; on a stream, of those that are queued. */
static void mark_ends(struct ranks *r)
{
    for (; r->ended < r->started; r->ended++)
        r->ops->mark(r->dev, 2 + 2 * r->ended, 1);
}

void ranks_overlap(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n)
{
    double begin = throughput_now_s();
    if (!r->comm)
        return;
    if (!r->staging) {
        r->ops->order(r->dev, 1);
        r->ops->mark(r->dev, 1 + 2 * r->started++, 1);
    }
    ranks_start(r, what, own, all, n, DROVER_FLOAT);
    if (r->staging)
        r->waited_s += throughput_now_s() - begin; /* it is complete: nothing overlaps */
    else if (r->ops->info(r->dev)->comm_stream)
        mark_ends(r);
}

void ranks_poll(struct ranks *r)
{
    if (r->ended == r->started || r->failed)
        return;
    int rc = drover_comm_poll(r->comm);
    if (rc == 0)
        mark_ends(r);
    r->failed = rc < 0 && rc != -EINPROGRESS;
}

int ranks_wait(struct ranks *r)
{
    if (!r->comm)
        return 0;
    double begin = throughput_now_s();
    if (r->failed || drover_wait(r->comm, WAIT_MS) < 0)
        return ranks_error(r, drover_error(r->d));
    r->waited_s += throughput_now_s() - begin;
    mark_ends(r);
    r->ops->order(r->dev, 0);
    return 0;
}

void ranks_end_step(struct ranks *r)
{
    double end = r->started ? r->ops->between(r->dev, 1, RANKS_BACKWARD_END) : 0, done = 0;
    for (int k = 0; k < r->started; k++) { /* one collective begins when the last one has ended */
        double from = r->ops->between(r->dev, 1, 1 + 2 * k);
        double to = r->ops->between(r->dev, 1, 2 + 2 * k);
        from = from > done ? from : done;
        r->busy_ms += to > from ? to - from : 0;
        to = to < end ? to : end;
        r->hidden_ms += to > from ? to - from : 0;
        done = r->ops->between(r->dev, 1, 2 + 2 * k);
    }
    r->started = r->ended = 0;
}
