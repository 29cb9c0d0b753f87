#include "collectives/bootstrap/bootstrap.h"

#include <stdlib.h>
#include <string.h>

struct bootstrap *bootstrap_new(const struct rank_identity *identity)
{
    struct bootstrap *b = xzalloc(sizeof *b);
    if (getenv("PMIX_NAMESPACE"))
        bootstrap_pmix_new(b, identity);
    else
        bootstrap_tcp_new(b, identity);
    return b;
}

void bootstrap_free(struct bootstrap *b)
{
    if (!b)
        return;
    b->free(b->table.arg);
    free(b);
}

int bootstrap_gather(const struct rank_identity *identity, const void *mine, size_t len, void *all,
                     int64_t timeout_ms, struct err *e)
{
    if (identity->size == 1) {
        if (all)
            memcpy(all, mine, len);
        return 0;
    }
    AUTO(bootstrap) struct bootstrap *b = bootstrap_new(identity);
    const struct bootstrap_ops *ops = &b->table;
    int rc = ops->put(ops->arg, "gather", mine, len, e);
    rc = rc < 0 ? rc : ops->fence(ops->arg, timeout_ms, e);
    for (int r = 0; r < identity->size && rc == 0 && all; r++)
        rc = ops->get(ops->arg, r, "gather", (char *)all + (size_t)r * len, len, e);
    return rc;
}
