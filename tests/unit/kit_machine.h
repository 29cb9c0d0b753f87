/* kit_machine - the recorded machines of tests/plan. */
#pragma once

#include "launcher/node/topo.h"
#include "tests/unit/test.h"

static inline struct topo *machine(const char *name)
{
    struct topo *t = NULL;
    AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", name);
    CHECK_INT(topo_load_file(&t, path, NULL), 0);
    return t;
}
