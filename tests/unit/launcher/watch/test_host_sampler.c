/* test_host_sampler - counters of a machine, from files in a directory. */
#include "launcher/watch/host_sampler.h"

#include <time.h>

#include "tests/unit/kit_root.h"

TEST(counters_are_those_of_the_ranks_cpus_and_of_devices)
{
    const char *root = new_root();
    put(root, "proc/stat",
        "cpu  900 0 900 900 900 0 0 0 0 0\n"
        "cpu0 100 10 40 300 50 0 0 0 0 0\n"
        "cpu1 200 0 0 0 100 0 0 0 0 0\n"
        "cpu2 999 0 0 0 0 0 0 0 0 0\n"
        "intr 1 2 3\n");
    put(root, "proc/vmstat", "nr_free_pages 7\npgpgin 1000\npgpgout 20\n");
    put(root, "sys/class/net/eth0/device/vendor", "0x15b3\n");
    put(root, "sys/class/net/eth0/statistics/rx_bytes", "500\n");
    put(root, "sys/class/net/eth0/statistics/tx_bytes", "300\n");
    put(root, "sys/class/net/eth0/speed", "10000\n");
    put(root, "sys/class/net/docker0/statistics/rx_bytes", "77\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "100\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "200\n");
    put(root, "sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    AUTO(host_sampler) struct host_sampler *h = host_sampler_open("0-1", root);
    struct host_sample s;
    host_sampler_read(h, &s);
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    CHECK_NEAR(s.cpu_s, 800 * tick_s, 1e-9);
    CHECK_NEAR(s.cpu_busy_s, 350 * tick_s, 1e-9);
    CHECK_NEAR(s.cpu_wait_s, 150 * tick_s, 1e-9);
    CHECK_INT(s.disk_read_bytes, 1000 * 1024);
    CHECK_INT(s.disk_written_bytes, 20 * 1024);
    CHECK_INT(s.net_received_bytes, 500 + 4 * 100);
    CHECK_INT(s.net_sent_bytes, 300 + 4 * 200);
    CHECK_INT(s.net_max_bytes_per_s, 1250000000LL + 50000000000LL);
    remove_root(root);
}

TEST(what_a_machine_does_not_report_is_unknown)
{
    const char *root = new_root();
    put(root, "sys/class/net/eth0/device/vendor", "0x1af4\n");
    put(root, "sys/class/net/eth0/statistics/rx_bytes", "500\n");
    put(root, "sys/class/net/eth0/speed", "-1\n");
    AUTO(host_sampler) struct host_sampler *h = host_sampler_open(NULL, root);
    struct host_sample s;
    host_sampler_read(h, &s);
    CHECK_NEAR(s.cpu_s, JOB_USAGE_UNKNOWN, 0);
    CHECK_INT(s.disk_read_bytes, JOB_USAGE_UNKNOWN);
    CHECK_INT(s.net_received_bytes, 500);
    CHECK_INT(s.net_sent_bytes, JOB_USAGE_UNKNOWN);
    CHECK_INT(s.net_max_bytes_per_s, JOB_USAGE_UNKNOWN);
    remove_root(root);
}

static double own_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(the_time_that_a_process_computes_is_in_the_time_of_this_machines_cpus)
{
    AUTO(host_sampler) struct host_sampler *h = host_sampler_open(NULL, "");
    struct host_sample before, after;
    host_sampler_read(h, &before);
    for (double end_s = own_cpu_s() + 0.3; own_cpu_s() < end_s;)
        ;
    host_sampler_read(h, &after);
    double busy_s = after.cpu_busy_s - before.cpu_busy_s;
    CHECK(busy_s > 0.15); /* the kernel counts in ticks */
    CHECK(busy_s <= after.cpu_s - before.cpu_s + 1e-9);
    CHECK(before.cpu_busy_s > 0 && after.cpu_busy_s < after.cpu_s);
}
