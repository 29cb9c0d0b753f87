#include "collectives/bootstrap/bootstrap.h"

#include <stdlib.h>

struct exchange *exchange_new(const struct whoami *who)
{
    struct exchange *x = xzalloc(sizeof *x);
    if (getenv("PMIX_NAMESPACE"))
        exchange_pmix(x, who);
    else
        exchange_tcp(x, who);
    return x;
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    x->free(x->table.arg);
    free(x);
}

const struct backend_exchange *exchange_table(const struct exchange *x)
{
    return &x->table;
}
