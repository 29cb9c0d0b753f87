/* Limits of this process: of getrlimit(), of the affinity and of recorded cgroups. */
#include <sched.h>

#include "tests/unit/launcher/doctor/kit_check.h"

TEST(a_machine_without_dev_shm_fails)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.shm", NULL, CHECK_FAIL, "No such file", "");
    remove_root(root);
}

TEST(dev_shm_needs_64_mib_per_rank)
{
    char *root = kit_check_root();
    put(root, "dev/shm/file", "");
    kit_set_files(64, 100, 100);
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 1}, CHECK_WARN, "64 MiB free of 64 MiB",
                "--shm-size=1g");
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 2}, CHECK_FAIL, "64 MiB free",
                "--ipc=host");
    CHECK_STR(kit_result.want, "128 MiB free (64 MiB per rank)");
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 17}, CHECK_FAIL, "", "size=2G");
    kit_set_files(4096, 10, 100);
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 4}, CHECK_OK, "409 MiB free of 4 GiB", "");
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 8}, CHECK_FAIL, "409 MiB",
                "files fill it");
    kit_set_files(0, 0, 100);
    CHECK_FINDS("host.shm", &(struct check_env){.ranks = 8}, CHECK_OK, "no limit", "");
    remove_root(root);
}

TEST(locked_memory_counts_only_with_an_rdma_device)
{
    char *root = kit_check_root();
    kit_set_limit(RLIMIT_MEMLOCK, 65536, RLIM_INFINITY);
    CHECK_FINDS("host.memlock", NULL, CHECK_SKIP, "no RDMA device", "");
    put(root, "sys/class/infiniband/mlx5_0/node_guid", "0\n");
    put(root, "proc/self/status", "Name:\tdrover\nCapEff:\t0000000000000000\n");
    CHECK_FINDS("host.memlock", NULL, CHECK_FAIL, "64 KiB", "");
    kit_set_limit(RLIMIT_MEMLOCK, 2UL << 30, RLIM_INFINITY);
    CHECK_FINDS("host.memlock", NULL, CHECK_WARN, "2 GiB", "");
    put(root, "proc/self/status", "Name:\tdrover\nCapEff:\t0000000000004000\n");
    CHECK_FINDS("host.memlock", NULL, CHECK_OK, "CAP_IPC_LOCK", "");
    kit_set_limit(RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    CHECK_FINDS("host.memlock", NULL, CHECK_OK, "unlimited", "");
    remove_root(root);
}

TEST(open_files_are_counted_per_rank)
{
    kit_set_limit(RLIMIT_NOFILE, 70000, 70000);
    CHECK_FINDS("host.nofile", &(struct check_env){.ranks = 8}, CHECK_OK, "70000", "");
    kit_set_limit(RLIMIT_NOFILE, 2000, 70000);
    CHECK_FINDS("host.nofile", &(struct check_env){.ranks = 8}, CHECK_WARN, "2000",
                "ulimit -n 65536");
    CHECK_FINDS("host.nofile", &(struct check_env){.ranks = 16}, CHECK_FAIL, "2000",
                "ulimit -n 65536");
    CHECK_HAS(kit_result.want, "2048 or more");
    kit_set_limit(RLIMIT_NOFILE, 2000, 4000);
    CHECK_FINDS("host.nofile", &(struct check_env){.ranks = 16}, CHECK_FAIL, "2000", "limits.conf");
}

TEST(each_thread_of_a_rank_counts_as_four_processes)
{
    char *root = kit_check_root();
    CHECK_INT(setenv("OMP_NUM_THREADS", "8", 1), 0);
    put(root, "proc/self/cgroup", "0::/job/step\n");
    put(root, "sys/fs/cgroup/job/step/pids.max", "max\n");
    put(root, "sys/fs/cgroup/job/pids.max", "300\n");
    put(root, "sys/fs/cgroup/job/pids.current", "200\n");
    CHECK_FINDS("host.nproc", &(struct check_env){.ranks = 3}, CHECK_OK, "100", "");
    CHECK_FINDS("host.nproc", &(struct check_env){.ranks = 4}, CHECK_FAIL, "100 are left",
                "--pids-limit 256");
    CHECK_HAS(kit_result.want, "128 or more");
    remove_root(root);
}

TEST(the_limit_of_processes_applies_to_users_and_not_to_root)
{
    char *root = kit_check_root();
    CHECK_INT(chmod(root, 0755), 0);
    kit_set_limit(RLIMIT_NPROC, 3, 3);
    CHECK_INT(setenv("OMP_NUM_THREADS", "1", 1), 0);
    if (geteuid() == 0) {
        CHECK_FINDS("host.nproc", NULL, CHECK_OK, "no limit", "");
        CHECK_INT(seteuid(65534), 0);
    }
    CHECK_FINDS("host.nproc", NULL, CHECK_FAIL, "3", "nproc 4");
    if (getuid() == 0)
        CHECK_INT(seteuid(0), 0);
    remove_root(root);
}

TEST(a_rank_needs_a_cpu)
{
    char *root = kit_check_root();
    cpu_set_t set;
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    int cpus = CPU_COUNT(&set);
    CHECK_FINDS("host.cpus", &(struct check_env){.ranks = cpus}, CHECK_OK, "", "");
    CHECK_FINDS("host.cpus", &(struct check_env){.ranks = cpus + 1}, CHECK_FAIL, "",
                "start at most");
    for (int i = 0, seen = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set) && seen++)
            CPU_CLR(i, &set);
    CHECK_INT(sched_setaffinity(0, sizeof set, &set), 0);
    CHECK_FINDS("host.cpus", &(struct check_env){.ranks = 2}, CHECK_FAIL, "1",
                "start at most 1 rank,");
    remove_root(root);
}

TEST(a_quota_below_the_cpus_that_programs_see_names_the_threads_to_use)
{
    char *root = kit_check_root();
    cpu_set_t set;
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    if (CPU_COUNT(&set) < 2)
        SKIP("one CPU");
    unsetenv("OMP_NUM_THREADS");
    put(root, "proc/self/cgroup", "0::/a\n");
    put(root, "sys/fs/cgroup/a/cpu.max", "100000 100000\n");
    put(root, "sys/fs/cgroup/a/cpu.stat", "usage_usec 1\nnr_periods 90\nnr_throttled 77\n");
    CHECK_FINDS("host.cpus", NULL, CHECK_WARN, "the time of 1, throttled 77 times",
                "OMP_NUM_THREADS=1");
    CHECK_INT(setenv("OMP_NUM_THREADS", "1", 1), 0);
    CHECK_FINDS("host.cpus", NULL, CHECK_OK, "", "");
    remove_root(root);
}

static void put_memory(const char *root, long long available_kib)
{
    AUTO(free)
    char *text = xasprintf("MemTotal:  16777216 kB\nMemAvailable: %lld kB\nSwapTotal: 4096 kB\n"
                           "SwapFree: 2048 kB\n",
                           available_kib);
    put(root, "proc/meminfo", text);
}

TEST(a_rank_needs_1_gib_and_the_largest_processes_are_named)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.mem", NULL, CHECK_SKIP, "no MemAvailable", "");
    put_memory(root, 8 << 20);
    put(root, "proc/12/status", "Name:\tsmall\nVmRSS:\t    1024 kB\n");
    put(root, "proc/13/status", "Name:\tlarge one\nVmRSS:\t    3145728 kB\n");
    put(root, "proc/14/status", "Name:\tkthread\n");
    CHECK_FINDS("host.mem", &(struct check_env){.ranks = 8}, CHECK_OK, "8 GiB left of 16 GiB", "");
    CHECK_FINDS("host.mem", &(struct check_env){.ranks = 9}, CHECK_FAIL, "2 MiB of swap",
                "large one (pid 13) 3 GiB, small (pid 12) 1 MiB");
    remove_root(root);
}

TEST(pages_of_files_do_not_count_against_the_memory_limit)
{
    char *root = kit_check_root();
    put_memory(root, 8 << 20);
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/memory.max", "4294967296\n");
    put(root, "sys/fs/cgroup/a/memory.current", "4294967296\n");
    CHECK_FINDS("host.mem", NULL, CHECK_FAIL, "0 B left of 4 GiB", "");
    put(root, "sys/fs/cgroup/a/memory.stat",
        "anon 1\nactive_file 1073741824\n"
        "inactive_file 2147483648\n");
    CHECK_FINDS("host.mem", NULL, CHECK_OK, "3 GiB left of 4 GiB", "");
    put(root, "sys/fs/cgroup/a/memory.high", "2147483648\n");
    CHECK_FINDS("host.mem", &(struct check_env){.ranks = 2}, CHECK_FAIL, "1 GiB left of 2 GiB", "");
    CHECK_HAS(kit_result.source, "memory.high");
    remove_root(root);
}

TEST(version_1_limits_memory_too)
{
    char *root = kit_check_root();
    put_memory(root, 8 << 20);
    put(root, "proc/self/cgroup", "4:memory:/a\n");
    put(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put(root, "sys/fs/cgroup/memory/a/memory.stat", "active_file 0\ntotal_active_file 536870912\n");
    CHECK_FINDS("host.mem", NULL, CHECK_FAIL, "512 MiB left of 1 GiB", "");
    remove_root(root);
}
