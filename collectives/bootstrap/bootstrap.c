#include "collectives/bootstrap/bootstrap.h"

#include <stdlib.h>

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

const struct bootstrap_ops *bootstrap_table(const struct bootstrap *b)
{
    return &b->table;
}
