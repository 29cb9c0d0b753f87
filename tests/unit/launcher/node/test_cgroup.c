/* cgroup: versions 1 and 2, from a tree of files. */
#include "launcher/node/cgroup.h"

#include "common/mem.h"
#include "tests/unit/kit_root.h"
#include "tests/unit/test.h"

TEST(the_smallest_limit_up_to_the_root_counts)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "0::/a/b/c\n");
    CHECK_INT(cgroup_cpus(root), 0);
    put(root, "sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    CHECK_INT(cgroup_cpus(root), 0);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    CHECK_INT(cgroup_cpus(root), 8);
    put(root, "sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    CHECK_INT(cgroup_cpus(root), 3);
    put(root, "sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
    CHECK_INT(cgroup_cpus(root), 1);
    remove_root(root);
}

TEST(version_1_has_its_limit_in_two_files)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "9:cpuset:/s\n7:cpu,cpuacct:/x/y\n0::/z\n");
    put(root, "sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us", "100000\n");
    CHECK_INT(cgroup_cpus(root), 0);
    put(root, "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "400000\n");
    put(root, "sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(cgroup_cpus(root), 4);
    remove_root(root);
}

TEST(a_container_that_sees_only_its_own_root_has_that_limit)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "5:cpu:/docker/123\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK_INT(cgroup_cpus(root), 2);
    remove_root(root);
}

TEST(where_the_kernel_does_not_say_there_is_none)
{
    char *root = new_root();
    CHECK(!cgroup_dir(root, "cpu"));
    CHECK_INT(cgroup_cpus(root), 0);
    put(root, "proc/self/cgroup", "nonsense\n5:cpuset:/x\n");
    CHECK(!cgroup_dir(root, "cpu"));
    remove_root(root);
}

TEST(the_smallest_limit_of_processes_counts)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "0::/a/b\n");
    CHECK_INT(cgroup_pids(root), 0);
    put(root, "sys/fs/cgroup/a/b/pids.max", "max\n");
    CHECK_INT(cgroup_pids(root), 0);
    put(root, "sys/fs/cgroup/a/pids.max", "4000\n");
    CHECK_INT(cgroup_pids(root), 4000);
    remove_root(root);
}

TEST(the_smallest_limit_of_memory_counts)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "0::/a/b\n");
    CHECK_INT(cgroup_memory(root), 0);
    put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK_INT(cgroup_memory(root), 0);
    put(root, "sys/fs/cgroup/a/memory.max", "8589934592\n");
    CHECK_INT(cgroup_memory(root), 8LL << 30);
    put(root, "sys/fs/cgroup/a/b/memory.max", "4294967296\n");
    CHECK_INT(cgroup_memory(root), 4LL << 30);
    remove_root(root);
}

TEST(version_1_says_a_huge_number_for_no_limit_of_memory)
{
    char *root = new_root();
    put(root, "proc/self/cgroup", "4:memory:/u\n0::/\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_INT(cgroup_memory(root), 0);
    put(root, "sys/fs/cgroup/memory/u/memory.limit_in_bytes", "1048576\n");
    CHECK_INT(cgroup_memory(root), 1 << 20);
    remove_root(root);
}

TEST(the_directories_begin_with_the_own_group_and_end_with_the_root)
{
    char *root = new_root();
    CHECK(!cgroup_dirs(root, "memory"));
    put(root, "proc/self/cgroup", "3:memory:/a/b\n0::/z\n");
    AUTO(strv) char **dirs = cgroup_dirs(root, "memory");
    static const char *const want[] = {"memory/a/b", "memory/a", "memory", ""};
    CHECK_INT(strv_len(dirs), 4);
    for (size_t i = 0; i < 3; i++)
        CHECK_STR(dirs[i] + strlen(root) + strlen("/sys/fs/cgroup/"), want[i]);
    remove_root(root);
}

static long kills_in(const char *root)
{
    AUTO(fd) int counter = cgroup_oom_open(root);
    return cgroup_oom_count(counter);
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
    AUTO(fd) int counter = cgroup_oom_open(root);
    CHECK_INT(cgroup_oom_count(counter), 1);
    put(root, "memory.events", "oom_kill 12\n");
    CHECK_INT(cgroup_oom_count(counter), 12);
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
