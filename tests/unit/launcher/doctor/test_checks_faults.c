/* A healthy machine has no finding, and each fault has exactly its own. */
#include <fcntl.h>

#include "tests/unit/launcher/doctor/kit_check.h"

/* ---- fakes --------------------------------------------------------------------------------------
 * They replace the functions of libc in this program. */

struct kit_machine kit_machine;

int getrlimit(__rlimit_resource_t resource, struct rlimit *out)
{
    if (!kit_machine.fakes_limits)
        return prlimit(0, resource, NULL, out);
    *out = kit_machine.limits[resource];
    return 0;
}

int statvfs(const char *path, struct statvfs *out)
{
    AUTO(fd) int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (!kit_machine.fakes_files)
        return fstatvfs(fd, out);
    *out = kit_machine.files;
    return 0;
}

int adjtimex(struct timex *t)
{
    CHECK_INT(t->modes, 0); /* the check only reads */
    *t = kit_machine.clock;
    return kit_machine.clock_state;
}

/* ---- a healthy machine ---------------------------------------------------------------------- */

struct file {
    const char *path, *text;
};

static const struct file healthy[] = {
    {"dev/shm/unrelated", "x"},
    {"dev/kmsg", "6,1,100,-;Linux version 6.8\n"},
    {"etc/timezone", "UTC\n"},
    {"proc/uptime", "100000.50 1.00\n"},
    {"proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\nSwapTotal: 0 kB\n"
                     "SwapFree: 0 kB\n"},
    {"proc/sys/vm/swappiness", "60\n"},
    {"proc/sys/kernel/numa_balancing", "0\n"},
    {"proc/self/cgroup", "0::/job\n"},
    {"proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n"},
    {"proc/self/sched", "se.exec_start : 100000.5\n"},
    {"proc/self/status", "Name:\tdrover\nCapEff:\t0000000000000000\n"},
    {"proc/55/stat", "55 (train) S 1 55 55 0 -1 4194304 1 2 3\n"},
    {"proc/55/sched", "se.exec_start : 100.5\n"},
    {"proc/55/maps", "7f20-7f30 r--p 00000000 00:18 6 /lib/libc.so.6\n"},
    {"proc/55/status", "Name:\ttrain\nVmRSS:\t 1048576 kB\nVmSwap:\t 0 kB\n"},
    {"sys/class/infiniband/mlx5_0/node_guid", "0\n"},
    {"sys/fs/cgroup/job/cpu.max", "max 100000\n"},
    {"sys/fs/cgroup/job/memory.max", "max\n"},
    {"sys/fs/cgroup/job/memory.events", "oom 0\noom_kill 0\n"},
    {"sys/fs/cgroup/job/pids.max", "max\n"},
    {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
    {"sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de\n"},
    {"sys/bus/pci/devices/0000:07:00.0/class", "0x030200\n"},
    {"sys/devices/system/node/node0/cpulist", "0\n"},
    {"sys/devices/system/node/node1/cpulist", "1\n"},
    {"sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq\n"},
    {"sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"},
    {"sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "3500000\n"},
    {"sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "3500000\n"},
};

static char *healthy_machine(void)
{
    char *root = kit_check_root();
    for (size_t i = 0; i < COUNT_OF(healthy); i++)
        put(root, healthy[i].path, healthy[i].text);
    for (int i = 0; i < RLIM_NLIMITS; i++)
        kit_set_limit(i, RLIM_INFINITY, RLIM_INFINITY);
    kit_set_files(100000, 90, 90);
    CHECK_INT(clearenv(), 0);
    CHECK_INT(setenv("DROVER_SYSROOT", root, 1), 0);
    CHECK_INT(setenv("PATH", "/usr/bin:/bin", 1), 0);
    return root;
}

static char *const program[] = {"sh", "-c", "true", NULL};
static struct check_env one_rank = {.ranks = 1, .command = program};

static bool is_of_this_machine(const char *id)
{
    static const char *const groups[] = {"host.", "soft.", "net.", "store."};
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (strncmp(id, groups[i], strlen(groups[i])) == 0)
            return true;
    return false;
}

/* Runs all checks of the groups. Returns the only one that is not ok; NULL: none. Its result is in
 * kit_result. */
static const char *only_finding(void)
{
    const struct check *rows = check_table();
    const char *found = NULL;
    for (size_t i = 0; i < CHECKS; i++) {
        if (!is_of_this_machine(rows[i].id))
            continue;
        kit_check(rows[i].id, &one_rank);
        if (kit_result.state != CHECK_WARN && kit_result.state != CHECK_FAIL)
            continue;
        if (found)
            FAIL("%s: %s, in addition to %s", rows[i].id, kit_result.value, found);
        found = rows[i].id;
    }
    if (found)
        kit_check(found, &one_rank);
    return found;
}

TEST(a_healthy_machine_has_no_finding)
{
    char *root = healthy_machine();
    const char *found = only_finding();
    if (found)
        FAIL("%s: %s", found, kit_result.value);
    remove_root(root);
}

TEST(all_checks_of_the_host_the_software_the_network_and_the_store_exist)
{
    static const char *const quick[] = {"host.shm",  "host.memlock", "host.nofile", "host.nproc",
                                        "host.cpus", "host.mem",     "host.disk",   "host.fs",
                                        "soft.nccl", "soft.mpi",     "soft.env",    "soft.prog",
                                        "net.name",  "net.if",       "net.back"};
    static const char *const others[] = {
        "host.shm_left", "host.oom",      "host.nfs_hang", "host.clock", "host.dstate", "host.thp",
        "host.governor", "host.numa_bal", "net.mtu",       "net.skew",   "store.ok"};
    for (size_t i = 0; i < COUNT_OF(quick); i++)
        CHECK(check_find(quick[i]) && check_find(quick[i])->when != CHECK_LONG);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        CHECK(check_find(others[i]) && check_find(others[i])->when == CHECK_LONG);
}

/* ---- one fault each ------------------------------------------------------------------------- */

TEST(each_file_that_shows_a_fault_gives_exactly_its_finding)
{
    static const struct {
        struct file patch;
        const char *id, *advice;
    } faults[] = {
        {{"dev/shm/nccl-Zk3", "x"}, "host.shm_left", "rm /dev/shm/nccl-Zk3"},
        {{"sys/fs/cgroup/job/pids.max", "3\n"}, "host.nproc", "--pids-limit"},
        {{"proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\n"
                          "SwapFree: 0 kB\n"},
         "host.mem",
         "train (pid 55) 1 GiB"},
        {{"dev/kmsg", "3,9,99990000000,-;Out of memory: Killed process 7 (python) total-vm:1kB\n"},
         "host.oom",
         NULL},
        {{"proc/55/stat", "55 (train) D 1 55 55 0 -1 4194304 1 2 3\n"}, "host.dstate", "restart"},
        {{"proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50331648 kB\n"
                          "SwapTotal: 8388608 kB\nSwapFree: 0 kB\n"},
         "host.thp",
         NULL},
        {{"sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"},
         "host.governor",
         NULL},
        {{"proc/sys/kernel/numa_balancing", "1\n"}, "host.numa_bal", NULL},
        {{"etc/nccl.conf", "NCCL_P2P_DISABLE=1\n"}, "soft.env", "etc/nccl.conf"},
    };
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        char *root = healthy_machine();
        put(root, faults[i].patch.path, faults[i].patch.text);
        CHECK_STR(only_finding(), faults[i].id);
        if (faults[i].advice)
            CHECK_HAS(kit_result.advice, faults[i].advice);
        remove_root(root);
    }
}

TEST(each_limit_that_is_too_low_gives_exactly_its_finding)
{
    char *root = healthy_machine();
    kit_set_limit(RLIMIT_MEMLOCK, 65536, 65536);
    CHECK_STR(only_finding(), "host.memlock");
    remove_root(root);
    root = healthy_machine();
    kit_set_limit(RLIMIT_NOFILE, 1024, 4096);
    CHECK_STR(only_finding(), "host.nofile");
    remove_root(root);
    root = healthy_machine();
    kit_machine.clock_state = TIME_ERROR;
    CHECK_STR(only_finding(), "host.clock");
    remove_root(root);
}

/* ---- speed ---------------------------------------------------------------------------------- */

static double cpu_ms(int who)
{
    struct rusage u;
    CHECK_INT(getrusage(who, &u), 0);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

TEST(the_quick_checks_of_this_machine_take_less_than_40_ms_of_cpu_time)
{
    const struct check *rows = check_table();
    struct check_env env = {.ranks = 8, .command = program, .has_other_nodes = true};
    double begin = cpu_ms(RUSAGE_SELF) + cpu_ms(RUSAGE_CHILDREN);
    for (size_t i = 0; i < CHECKS; i++)
        if (rows[i].when != CHECK_LONG && is_of_this_machine(rows[i].id))
            kit_check(rows[i].id, &env);
    double ms = cpu_ms(RUSAGE_SELF) + cpu_ms(RUSAGE_CHILDREN) - begin;
    printf("# %.1f ms\n", ms);
    CHECK_TIME(ms < 40);
}
