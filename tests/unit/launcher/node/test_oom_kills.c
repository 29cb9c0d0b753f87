/* oom_kills: cgroup versions 1 and 2, from a tree of files. */
#include "launcher/node/oom_kills.h"

#include "common/mem.h"
#include "tests/unit/kit_root.h"
#include "tests/unit/test.h"

static long kills_in(const char *root)
{
    AUTO(fd) int counter = oom_kills_open(root);
    return oom_kills_count(counter);
}

TEST(version_2_counts_in_memory_events)
{
    char *root = new_root();
    put(root, "memory.events", "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n");
    CHECK_INT(kills_in(root), 7);
    remove_root(root);
}

TEST(version_1_counts_in_the_memory_controllers_file)
{
    char *root = new_root();
    put(root, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    CHECK_INT(kills_in(root), 2);
    remove_root(root);
}

TEST(a_counter_is_read_again_from_its_start)
{
    char *root = new_root();
    put(root, "memory.events", "oom_kill 1\n");
    AUTO(fd) int counter = oom_kills_open(root);
    CHECK_INT(oom_kills_count(counter), 1);
    put(root, "memory.events", "oom_kill 12\n");
    CHECK_INT(oom_kills_count(counter), 12);
    remove_root(root);
}

TEST(a_kernel_that_does_not_say_is_minus_1)
{
    char *root = new_root();
    CHECK_INT(kills_in(NULL), -1);
    CHECK_INT(kills_in(root), -1);
    put(root, "memory.events", "");
    CHECK_INT(kills_in(root), -1);
    put(root, "memory.events", "oom 1\n");
    CHECK_INT(kills_in(root), -1);
    remove_root(root);
}
