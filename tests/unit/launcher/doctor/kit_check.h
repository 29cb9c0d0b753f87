/* kit_check - runs one check in this process, with a recorded root and fakes of the calls that say
 * what this machine has. */
#pragma once

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include "launcher/doctor/core/check.h"
#include "tests/unit/kit_root.h"

/* What getrlimit(), statvfs() and adjtimex() return in this program (test_checks_faults.c). */
struct kit_machine {
    bool fakes_limits, fakes_files; /* false: the real ones */
    struct rlimit limits[RLIM_NLIMITS];
    struct statvfs files; /* of each directory */
    struct timex clock;
    int clock_state;
};
extern struct kit_machine kit_machine;

static inline void kit_set_limit(int resource, rlim_t soft, rlim_t hard)
{
    kit_machine.fakes_limits = true;
    kit_machine.limits[resource] = (struct rlimit){soft, hard};
}

/* A file system of `mib` MiB with 1000 inodes, of which a share is free. */
static inline void kit_set_files(unsigned long mib, double free_percent, double inode_percent)
{
    fsblkcnt_t left = (fsblkcnt_t)((double)mib * free_percent / 100);
    kit_machine.fakes_files = true;
    kit_machine.files = (struct statvfs){.f_bsize = 1 << 20,
                                         .f_frsize = 1 << 20,
                                         .f_blocks = mib,
                                         .f_bfree = left,
                                         .f_bavail = left,
                                         .f_files = 1000,
                                         .f_favail = (fsfilcnt_t)(10 * inode_percent)};
}

static struct check_result kit_result;

/* Makes an empty recorded root and returns it. */
static inline char *kit_check_root(void)
{
    char *root = new_root();
    CHECK_INT(setenv("DROVER_SYSROOT", root, 1), 0);
    return root;
}

static inline void kit_check(const char *id, struct check_env *env)
{
    struct check_env none = {.ranks = 1};
    const struct check *c = check_find(id);
    CHECK(c);
    check_result_clear(&kit_result);
    c->run(&kit_result, env ? env : &none);
    CHECK(kit_result.value);
    CHECK(c->advice && c->why);
    if (kit_result.state == CHECK_WARN || kit_result.state == CHECK_FAIL)
        CHECK(kit_result.want && kit_result.source);
}

/* Runs a check, and compares its state, a part of its value and a part of its advice ("": any). */
#define CHECK_FINDS(id, env, s, value_part, advice_part)                               \
    do {                                                                               \
        kit_check(id, env);                                                            \
        if (kit_result.state != (s))                                                   \
            FAIL("%s is %s (%s), expected %s", id, check_state_name(kit_result.state), \
                 kit_result.value, check_state_name(s));                               \
        CHECK_HAS(kit_result.value, value_part);                                       \
        if ((advice_part)[0])                                                          \
            CHECK_HAS(kit_result.advice, advice_part);                                 \
    } while (0)
