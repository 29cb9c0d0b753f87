/* The kernel's log, processes and settings from a recorded root, and its clock. */
#include "tests/unit/launcher/doctor/kit_check.h"

#define KILL(s)                                                                          \
    "3,901," s                                                                           \
    "000000,-;Out of memory: Killed process 4242 (python3) total-vm:9kB, anon-rss:8kB\n" \
    " SUBSYSTEM=x\n"

TEST(an_oom_kill_is_found_in_the_kernels_log_for_24_hours)
{
    char *root = kit_check_root();
    put(root, "proc/uptime", "100000.50 1.00\n");
    put(root, "dev/kmsg", "6,1,100,-;Linux version 6.8\n");
    CHECK_FINDS("host.oom", NULL, CHECK_OK, "none in 24 hours", "");
    put(root, "dev/kmsg", KILL("1000") "6,902,1000000100,-;something else\n");
    CHECK_FINDS("host.oom", NULL, CHECK_OK, "none in 24 hours", "");
    put(root, "dev/kmsg", KILL("1000") KILL("92800"));
    CHECK_FINDS("host.oom", NULL, CHECK_WARN, "1, the last one of python3 2.0 h ago", "");
    put(root, "dev/kmsg",
        "3,9,99000000000,-;Memory cgroup out of memory: Killed process 7 (trial (3)) "
        "total-vm:1kB\n");
    CHECK_FINDS("host.oom", NULL, CHECK_WARN, "trial", "");
    remove_root(root);
}

TEST(without_the_kernels_log_the_cgroup_counts_oom_kills)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.oom", NULL, CHECK_SKIP, "No such file", "");
    put(root, "proc/self/cgroup", "0::/a\n");
    put(root, "sys/fs/cgroup/a/memory.events", "low 0\noom 4\noom_kill 0\noom_group_kill 0\n");
    CHECK_FINDS("host.oom", NULL, CHECK_OK, "none in this cgroup", "");
    put(root, "sys/fs/cgroup/a/memory.events", "oom 4\noom_kill 3\n");
    CHECK_FINDS("host.oom", NULL, CHECK_WARN, "3 in this cgroup", "");
    put(root, "proc/self/cgroup", "4:memory:/b\n");
    put(root, "sys/fs/cgroup/memory/b/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    CHECK_FINDS("host.oom", NULL, CHECK_WARN, "2 in this cgroup", "");
    remove_root(root);
}

TEST(a_clock_that_the_kernel_calls_unsynchronised_warns)
{
    kit_machine.clock.maxerror = 2500;
    CHECK_FINDS("host.clock", NULL, CHECK_OK, "error at most 2 ms", "");
    kit_machine.clock.status = STA_UNSYNC;
    CHECK_FINDS("host.clock", NULL, CHECK_WARN, "not synchronised", "");
    kit_machine.clock.status = 0;
    kit_machine.clock_state = TIME_ERROR;
    CHECK_FINDS("host.clock", NULL, CHECK_WARN, "not synchronised", "");
    kit_machine.clock_state = -1;
    errno = EPERM;
    CHECK_FINDS("host.clock", NULL, CHECK_SKIP, "adjtimex", "");
}

/* A process in a state, with flags as in /proc/PID/stat, that ran last at `ran_ms`. */
static void put_process(const char *root, char state, const char *flags, const char *ran_ms)
{
    AUTO(free) char *stat = xasprintf("55 (a) b) %c 1 55 55 0 -1 %s 1 2 3\n", state, flags);
    AUTO(free) char *sched = xasprintf("x (55, #threads: 1)\nse.exec_start   :   %s\n", ran_ms);
    put(root, "proc/55/stat", stat);
    put(root, "proc/55/sched", sched);
    put(root, "proc/55/comm", "train\n");
    put(root, "proc/55/wchan", "os_acquire_mutex");
}

TEST(a_process_in_state_d_for_5_seconds_is_named_with_its_kernel_function)
{
    char *root = kit_check_root();
    put_process(root, 'D', "4194304", "94000.5");
    CHECK_FINDS("host.dstate", NULL, CHECK_SKIP, "sched", "");
    put(root, "proc/self/sched", "se.exec_start : 100000.5\n");
    CHECK_FINDS("host.dstate", NULL, CHECK_WARN, "train (pid 55) for 6 s in os_acquire_mutex", "");
    put_process(root, 'D', "2097152", "94000.5"); /* a thread of the kernel */
    CHECK_FINDS("host.dstate", NULL, CHECK_OK, "none", "");
    put_process(root, 'D', "4194304", "96000.5");
    CHECK_FINDS("host.dstate", NULL, CHECK_OK, "none", "");
    put_process(root, 'S', "4194304", "94000.5");
    CHECK_FINDS("host.dstate", NULL, CHECK_OK, "none", "");
    put_process(root, 'D', "4194304", "94000.5");
    put(root, "proc/55/fd/0", "");
    AUTO(free) char *fd = xasprintf("%s/proc/55/fd/7", root);
    CHECK_INT(symlink("/dev/nvidia0", fd), 0);
    CHECK_FINDS("host.dstate", NULL, CHECK_FAIL, "with a GPU", "restart the machine");
    remove_root(root);
}

TEST(more_than_1_gib_of_swap_in_use_warns_and_names_the_process)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.thp", NULL, CHECK_SKIP, "SwapTotal", "");
    put(root, "proc/meminfo", "SwapTotal: 4194304 kB\nSwapFree: 3145728 kB\n");
    put(root, "proc/sys/vm/swappiness", "60\n");
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    CHECK_FINDS("host.thp", NULL, CHECK_OK, "1 GiB of swap in use", "");
    CHECK_HAS(kit_result.value, "madvise, swappiness: 60");
    put(root, "proc/meminfo", "SwapTotal: 4194304 kB\nSwapFree: 3145727 kB\n");
    put(root, "proc/9/status", "Name:\tjava\nVmSwap:\t 1048000 kB\n");
    CHECK_FINDS("host.thp", NULL, CHECK_WARN, "GiB of swap in use", "java (pid 9)");
    remove_root(root);
}

#define CPUFREQ "sys/devices/system/cpu/cpufreq/"

static void put_policy(const char *root, const char *driver, const char *governor, const char *max)
{
    put(root, CPUFREQ "policy0/scaling_driver", driver);
    put(root, CPUFREQ "policy0/scaling_governor", governor);
    put(root, CPUFREQ "policy0/scaling_max_freq", max);
    put(root, CPUFREQ "policy0/cpuinfo_max_freq", "3500000\n");
}

TEST(a_governor_that_keeps_the_cpus_slow_warns)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.governor", NULL, CHECK_SKIP, "no cpufreq", "");
    put_policy(root, "acpi-cpufreq\n", "performance\n", "3500000\n");
    CHECK_FINDS("host.governor", NULL, CHECK_OK, "performance", "");
    put_policy(root, "acpi-cpufreq\n", "powersave\n", "3500000\n");
    CHECK_FINDS("host.governor", NULL, CHECK_WARN, "powersave for 1 of 1", "");
    put_policy(root, "acpi-cpufreq\n", "schedutil\n", "2000000\n");
    CHECK_FINDS("host.governor", NULL, CHECK_WARN, "limited to 2000 MHz of 3500 MHz",
                "--max 3500MHz");
    remove_root(root);
}

TEST(powersave_is_the_normal_mode_if_the_hardware_chooses_the_frequency)
{
    char *root = kit_check_root();
    put_policy(root, "intel_pstate\n", "powersave\n", "3500000\n");
    put(root, CPUFREQ "policy0/energy_performance_preference", "balance_performance\n");
    CHECK_FINDS("host.governor", NULL, CHECK_OK, "powersave", "");
    put(root, CPUFREQ "policy0/energy_performance_preference", "power\n");
    CHECK_FINDS("host.governor", NULL, CHECK_WARN, "powersave", "");
    put(root, "sys/class/power_supply/BAT0/type", "Battery\n");
    CHECK_FINDS("host.governor", NULL, CHECK_SKIP, "battery", "");
    remove_root(root);
}

TEST(numa_balancing_warns_only_with_gpus_and_several_nodes)
{
    char *root = kit_check_root();
    CHECK_FINDS("host.numa_bal", NULL, CHECK_SKIP, "numa_balancing", "");
    put(root, "proc/sys/kernel/numa_balancing", "1\n");
    put(root, "sys/devices/system/node/node0/cpulist", "0\n");
    put(root, "sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de\n");
    put(root, "sys/bus/pci/devices/0000:07:00.0/class", "0x030200\n");
    CHECK_FINDS("host.numa_bal", NULL, CHECK_OK, "1", "");
    put(root, "sys/devices/system/node/node1/cpulist", "1\n");
    CHECK_FINDS("host.numa_bal", NULL, CHECK_WARN, "1", "");
    put(root, "sys/bus/pci/devices/0000:07:00.0/class", "0x020000\n");
    CHECK_FINDS("host.numa_bal", NULL, CHECK_OK, "1", "");
    put(root, "sys/bus/pci/devices/0000:07:00.0/class", "0x030000\n");
    put(root, "proc/sys/kernel/numa_balancing", "0\n");
    CHECK_FINDS("host.numa_bal", NULL, CHECK_OK, "0", "");
    remove_root(root);
}
