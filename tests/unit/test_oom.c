/* oom: both versions of cgroups, from a tree of files. */
#include "launcher/node/oom.h"

#include "common/mem.h"
#include "tests/unit/kit_root.h"
#include "tests/unit/test.h"

TEST(version_2_counts_in_memory_events)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "0::/a/b.scope\n");
    put(root, "sys/fs/cgroup/a/b.scope/memory.events",
        "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n");
    CHECK_INT(oom_kills(root), 7);
    remove_root(root);
}

TEST(version_1_counts_in_the_memory_controllers_file)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/user/1\n0::/user\n");
    put(root, "sys/fs/cgroup/memory/user/1/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    CHECK_INT(oom_kills(root), 2);
    remove_root(root);
}

TEST(a_kernel_that_does_not_say_is_minus_1)
{
    char *root = new_root();
    CHECK_INT(oom_kills(root), -1);
    put(root, "proc/self/cgroup", "0::/\n");
    CHECK_INT(oom_kills(root), -1);
    put(root, "sys/fs/cgroup/memory.events", "oom 1\n");
    CHECK_INT(oom_kills(root), -1);
    remove_root(root);
}
