#include "collectives/bootstrap/bootstrap.h"

#include <stdlib.h>

struct bootstrap *bootstrap_new(const struct rank_identity *who)
{
    struct bootstrap *x = xzalloc(sizeof *x);
    if (getenv("PMIX_NAMESPACE"))
        bootstrap_pmix_new(x, who);
    else
        bootstrap_tcp_new(x, who);
    return x;
}

void bootstrap_free(struct bootstrap *x)
{
    if (!x)
        return;
    x->free(x->table.arg);
    free(x);
}

const struct bootstrap_ops *bootstrap_table(const struct bootstrap *x)
{
    return &x->table;
}
