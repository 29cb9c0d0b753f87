/* kit_disk - a full disk: no write of this process is successful, as by setrlimit(2) with
 * RLIMIT_FSIZE 0. Writing to a pipe and making an empty file still are. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "tests/unit/test.h"

static inline void disk_set_full(bool full)
{
    struct rlimit l;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = full ? 0 : l.rlim_max;
    signal(SIGXFSZ, SIG_IGN); /* the call fails instead, with EFBIG */
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &l), 0);
}
