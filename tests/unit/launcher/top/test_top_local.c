/* test_top_local - this machine, over the GPUs of tests/fake/nvml.c. */
#include "launcher/top/top_local.h"

#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

/* The test's limit ends the wait if no reading arrives. */
static void await(struct job_monitor *g, int64_t number)
{
    while (job_monitor_number(g) < number)
        usleep(5000);
}

TEST(gpus_and_their_processes_are_read)
{
    AUTO(free)
    char *machine = xasprintf("gpus 2\ngpu 1 utilization 42\ngpu 0 process %d 500\n"
                              "gpu 0 process 999999999 7\n",
                              (int)getpid());
    setenv("DROVER_JOB_ID", "drover-1-a", 1); /* not in the environment that exec() has set */
    fake_nvml_machine(machine);
    AUTO(job_monitor) struct job_monitor *g = job_monitor_open_all(10);
    CHECK(g);
    await(g, 2);
    AUTO(top_node) struct top_node n = {0};
    top_local_read(&n, g, 60000);
    fake_nvml_forget();
    CHECK_STR(n.problem, "");
    CHECK_INT(n.gpu_count, 2);
    CHECK_INT(gpu_sample_value(&n.gpus[1], GPU_FACT_BUSY, -1), 42);
    CHECK_INT(n.process_count, 2);
    CHECK_INT(n.processes[0].pid, getpid());
    CHECK(n.processes[0].visible && n.processes[0].user[0] && !n.processes[1].visible);
    CHECK(strstr(n.processes[0].command, "launcher-top"));
    CHECK_INT(n.processes[0].memory_bytes, 500LL << 20);
}

TEST(a_driver_that_hangs_is_a_problem_and_delays_nothing)
{
    fake_nvml_machine("gpus 1\ngpu 0 power hang\n");
    AUTO(job_monitor) struct job_monitor *g = job_monitor_open_all(10);
    usleep(20000); /* the thread may be in the driver by now */
    AUTO(top_node) struct top_node n = {0};
    top_local_read(&n, g, 1);
    fake_nvml_forget();
    CHECK_STR(n.problem, "the NVIDIA driver has not responded for 0 s");
    CHECK_INT(n.gpu_count, 0);
    CHECK_INT(job_monitor_number(g), 0);
}

TEST(a_machine_without_gpus_has_the_reason)
{
    fake_nvml_machine("gpus 0\n");
    AUTO(job_monitor) struct job_monitor *g = job_monitor_open_all(10);
    await(g, 1);
    AUTO(top_node) struct top_node n = {0};
    top_local_read(&n, g, 60000);
    fake_nvml_forget();
    CHECK_STR(n.problem, "the NVIDIA driver lists none of the GPUs");
}
