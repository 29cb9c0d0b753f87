/* self - the backend of a job of one rank: every collective is a copy, done when it is started. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backend.h"
#include "common/mem.h"

struct backend_comm {
    int unused; /* it has no state; the interface wants an object */
};

static int self_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    if (o->size != 1)
        return err_set(e, -EINVAL, "backend 'self' is for one rank, this job has %d", o->size);
    *out = xzalloc(sizeof **out);
    return 0;
}

static void self_close(struct backend_comm *c)
{
    free(c);
}

static int self_start(struct backend_comm *c, const struct backend_call *call, struct err *e)
{
    if (call->coll != BACKEND_BARRIER && call->in != call->out)
        memmove(call->out, call->in, call->count * backend_type_bytes(call->type));
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

static int self_mem_alloc(struct backend_comm *c, size_t bytes, void **out, struct err *e)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        return err_set(e, -ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    *out = p;
    return 0;
}

static void self_mem_free(struct backend_comm *c, void *p)
{
    free(p);
}

static int self_copy(struct backend_comm *c, void *to, const void *from, size_t bytes,
                     struct err *e)
{
    memcpy(to, from, bytes);
    return 0;
}

static unsigned self_caps(const struct backend_comm *c)
{
    return 0;
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
    .start = self_start,
    .poll = self_poll,
    .abort = self_abort,
    .mem_alloc = self_mem_alloc,
    .mem_free = self_mem_free,
    .copy_in = self_copy,
    .copy_out = self_copy,
    .caps = self_caps,
    .version = self_version,
};
