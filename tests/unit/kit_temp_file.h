/* kit_place - a directory of a test's own, and the path of the one file that may be in it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/test.h"

struct place {
    char dir[64], path[96];
};

static inline struct place make_place(void)
{
    struct place p = {.dir = "/tmp/drover-test-XXXXXX"};
    CHECK(mkdtemp(p.dir));
    snprintf(p.path, sizeof p.path, "%s/file", p.dir);
    return p;
}

static inline void remove_place(const struct place *p)
{
    unlink(p->path);
    CHECK_INT(rmdir(p->dir), 0);
}
