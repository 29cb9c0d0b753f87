#include <errno.h>
#include <stdio.h>

#include "collectives/comm/comm_internal.h"
#include "collectives/comm/subgroup.h"
#include "common/mem.h"
#include "common/plural.h"

int comm_gather(struct drover_comm *c, const void *mine, size_t bytes, void *all, int64_t wait_ms)
{
    struct err *e = c->err;
    const struct backend *b = c->backend;
    void *in = NULL, *out = NULL;
    int rc = b->mem_alloc(c->inner, bytes, BACKEND_SCRATCH, &in, e);
    if (rc == 0)
        rc = b->mem_alloc(c->inner, bytes * (size_t)c->size, BACKEND_SCRATCH, &out, e);
    if (rc == 0)
        rc = b->copy_in(c->inner, in, mine, bytes, e);
    if (rc == 0)
        rc = drover_all_gather(c, in, out, bytes, DROVER_UINT8);
    if (rc == 0)
        rc = drover_wait(c, wait_ms);
    if (rc == 0)
        rc = b->copy_out(c->inner, all, out, bytes * (size_t)c->size, e);
    if (c->unusable)
        return rc; /* without freeing: an aborted call may still write to the buffers */
    if (in)
        b->mem_free(c->inner, in);
    if (out)
        b->mem_free(c->inner, out);
    return rc;
}

/* Creates the new communicator. Sets `*out` to NULL if this rank is not a member. */
static int create_subgroup(struct drover_comm **out, struct drover_comm *c,
                           struct backend_subgroup *p, const char *what)
{
    struct err *e = c->err;
    struct backend_comm *inner = NULL;
    p->rank = subgroup_index(p->members, p->size, c->rank);
    p->open_ms = c->open_ms;
    int rc = c->backend->subgroup(&inner, c->inner, p, e);
    if (rc < 0) {
        (void)err_wrap(e, "rank %d of %d: %s", c->rank, c->size, what);
        return rc == -ENOTSUP ? rc : comm_fail(c, rc);
    }
    char name[COLLECTIVE_TRACE_NAME_BYTES];
    snprintf(name, sizeof name, "%.20s/%s %u.%d", c->name, what, ++c->subgroups, p->color);
    *out = inner ? comm_new(c->d, c->backend, inner, p->rank, p->size, name) : NULL;
    if (*out)
        (*out)->open_ms = c->open_ms;
    return 0;
}

int drover_comm_split(struct drover_comm **out, struct drover_comm *c, int color, int key)
{
    struct err *e = c->err;
    int rc = comm_check_idle(c, "split");
    if (rc < 0)
        return rc;
    if (color < DROVER_NO_COLOR)
        return err_set(e, -EINVAL, "split: invalid colour %d (0 or more, or DROVER_NO_COLOR)",
                       color);
    /* comm_gather() has a deadline. When it returns, all ranks have called split, so the steps
     * below need no deadline. */
    AUTO(free) struct subgroup_key *keys = xcalloc((size_t)c->size, sizeof *keys);
    struct subgroup_key mine = {color, key};
    if ((rc = comm_gather(c, &mine, sizeof mine, keys, c->open_ms)) < 0)
        return rc;
    AUTO(free) int *members = xcalloc((size_t)c->size, sizeof *members);
    struct backend_subgroup p = {.members = members, .color = color, .key = key};
    p.size = subgroup_split(members, keys, c->size, c->rank);
    return create_subgroup(out, c, &p, "split");
}

int drover_comm_shrink(struct drover_comm **out, struct drover_comm *c, const int *without, int n)
{
    struct err *e = c->err;
    if (n < 0 || (n > 0 && !without))
        return err_set(e, -EINVAL, "shrink: invalid list of %d rank%s", n, plural_s(n));
    AUTO(free) int *members = xcalloc((size_t)c->size, sizeof *members);
    int size = subgroup_shrink(members, without, n, c->size, c->rank, e);
    if (size < 0)
        return err_wrap(e, "shrink");
    static const int none; /* a shrink without excluded ranks is still a shrink */
    struct backend_subgroup p = {.members = members, .size = size, .n_without = n};
    p.without = without ? without : &none;
    int rc = create_subgroup(out, c, &p, "shrink");
    c->unusable |= rc == 0;
    return rc;
}
