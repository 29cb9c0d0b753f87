/* backend_self - the backend for one rank. Every collective is a copy, which is complete when
 * start() returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/comm/backend.h"
#include "collectives/comm/premul.h"
#include "common/mem.h"

struct backend_comm {
    int unused; /* no state; the interface needs an object */
};

static int self_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    if (o->size != 1)
        return err_set(e, -EINVAL, "supports one rank, this job has %d", o->size);
    *out = xzalloc(sizeof **out);
    return 0;
}

static void self_close(struct backend_comm *c)
{
    free(c);
}

static int self_subgroup(struct backend_comm **out, struct backend_comm *c,
                         const struct backend_subgroup *p, struct err *e)
{
    *out = p->size ? xzalloc(sizeof **out) : NULL;
    return 0;
}

/* Returns the receive of a group that matches the send calls[i], or NULL if there is none. The k-th
 * send matches the k-th receive. */
static const struct backend_call *receive_for(const struct backend_call *calls, size_t n, size_t i)
{
    size_t earlier = 0, seen = 0;
    for (size_t k = 0; k < i; k++)
        earlier += calls[k].coll == COLLECTIVE_SEND;
    for (size_t k = 0; k < n; k++)
        if (calls[k].coll == COLLECTIVE_RECV && seen++ == earlier)
            return &calls[k];
    return NULL;
}

static int self_start(struct backend_comm *c, const struct backend_call *calls, size_t n,
                      struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct backend_call *k = &calls[i], *to = k;
        if (k->coll == COLLECTIVE_BARRIER || k->coll == COLLECTIVE_RECV)
            continue;
        if (k->coll == COLLECTIVE_SEND)
            to = receive_for(calls, n, i);
        size_t bytes = k->count * backend_type_bytes(k->type);
        if (!to || bytes != to->count * backend_type_bytes(to->type))
            return err_set(e, -EPROTO, "send of %zu bytes without a matching receive", bytes);
        if (k->in != to->out)
            memmove(to->out, k->in, bytes);
        if (k->op == DROVER_MULSUM && collective_reduces(k->coll))
            premul_apply(k->out, k->count, k->type, k->factor);
    }
    return 0;
}

static int self_poll(struct backend_comm *c, struct err *e)
{
    return 0;
}

static int self_abort(struct backend_comm *c)
{
    return 0;
}

static unsigned self_caps(const struct backend_comm *c)
{
    return BACKEND_FP8 | BACKEND_HAS_ALL_TO_ALL | BACKEND_HAS_GATHER | BACKEND_HAS_SCATTER;
}

static const char *self_version(const struct backend_comm *c)
{
    return "drover " DROVER_VERSION;
}

const struct backend backend_self = {
    .abi = BACKEND_ABI,
    .name = "self",
    .open = self_open,
    .close = self_close,
    .subgroup = self_subgroup,
    .start = self_start,
    .poll = self_poll,
    .abort = self_abort,
    .mem_alloc = backend_host_alloc,
    .mem_free = backend_host_free,
    .copy_in = backend_host_copy,
    .copy_out = backend_host_copy,
    .caps = self_caps,
    .version = self_version,
};
