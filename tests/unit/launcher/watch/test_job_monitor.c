/* test_job_monitor - a job's monitor over the GPUs of tests/fake/nvml.c. */
#include "launcher/watch/job_monitor.h"

#include <dlfcn.h>
#include <signal.h>

#include "common/clock.h"
#include "launcher/gpu/gpu_reading.h"
#include "tests/unit/fake_nvml.h"
#include "tests/unit/test.h"

static char *const second[] = {(char *)"GPU-00000001-0000-0000-0000-000000000000", NULL};

/* The test's limit ends the wait if no sample arrives. */
static void await_samples(struct job_monitor *m, int n)
{
    for (;;) {
        AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
        struct job_usage_summary s;
        job_usage_summarise(&s, u);
        bool enough = s.samples >= n;
        job_usage_summary_end(&s);
        if (enough)
            return;
        usleep(20000);
    }
}

TEST(the_gpus_of_the_job_are_sampled)
{
    fake_nvml_machine("gpus 2\ngpu 0 utilization 7\ngpu 1 utilization 42\ngpu 1 energy 100+3000\n");
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL, NULL);
    CHECK(m);
    await_samples(m, 2);
    fake_nvml_forget();
    AUTO(job_monitor_reading) struct job_monitor_reading latest;
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 1);
    CHECK_STR(latest.samples[0].gpu.uuid, second[0]);
    CHECK_INT(gpu_sample_value(&latest.samples[0], GPU_FACT_BUSY, -1), 42);
    AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    CHECK_NEAR(s.utilisation, 0.42, 1e-12);
    CHECK(s.energy_j >= 3);
    job_usage_summary_end(&s);
}

/* A process that is forked while another thread loads a library waits for the loader's lock for
 * ever. */
TEST(a_program_that_loads_libraries_meanwhile_loses_no_samples)
{
    fake_nvml_machine("gpus 2\ngpu 1 utilization 42\n");
    for (int i = 0; i < 40; i++) {
        AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL, NULL);
        const int64_t end_ms = clock_ms() + 20;
        while (clock_ms() < end_ms) {
            void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
            if (library)
                dlclose(library);
        }
        await_samples(m, 1);
    }
    fake_nvml_forget();
}

/* Waits until a process that this test starts with a shell has written its pid. */
static int pid_of(const char *command)
{
    int pid = 0;
    FILE *f = popen(command, "r");
    CHECK(f && fscanf(f, "%d", &pid) == 1 && pid > 0);
    (void)pclose(f);
    return pid;
}

static int64_t job_memory(const char *job_id, const char *machine)
{
    fake_nvml_machine(machine);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, job_id, NULL);
    await_samples(m, 1);
    fake_nvml_forget();
    AUTO(job_monitor_reading) struct job_monitor_reading latest;
    job_monitor_latest(m, &latest);
    return gpu_sample_value(&latest.samples[0], GPU_FACT_JOB_MEMORY, -1) >> 20;
}

TEST(the_memory_of_the_job_is_that_of_its_processes)
{
    int orphan = pid_of("DROVER_JOB_ID=j1 setsid sleep 60 >/dev/null & echo $!");
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        pause();
        _exit(0);
    }
    const int self = getpid();
    AUTO(free)
    char *text = xasprintf("gpus 2\ngpu 1 process %d 1000\ngpu 1 graphics %d 1000\n"
                           "gpu 1 mps %d 200\ngpu 1 process 1 46080\ngpu 1 process %d 30\n"
                           "gpu 0 process %d 7\n",
                           self, self, child, orphan, self);
    CHECK_INT(job_memory(NULL, text), 1200);
    CHECK_INT(job_memory("j1", text), 1230);
    CHECK_INT(job_memory("j2", text), 1200);
    AUTO(free) char *untold = xasprintf("%sgpu 1 process %d -\n", text, getppid());
    CHECK_INT(job_memory(NULL, untold), 1200);
    AUTO(free) char *unknown = xasprintf("gpus 2\ngpu 1 process %d -\ngpu 1 process 1 9\n", self);
    CHECK_INT(job_memory(NULL, unknown), -1);
    CHECK_INT(job_memory(NULL, "gpus 2\ngpu 1 process 1 46080\n"), -1);
    CHECK_INT(job_memory(NULL, "gpus 2\ngpu 1 processes error 3\n"), -1);
    kill(orphan, SIGKILL);
    kill(child, SIGKILL);
}

TEST(a_driver_that_hangs_stops_neither_the_job_nor_its_end)
{
    fake_nvml_machine("gpus 2\ngpu 1 utilization 42\ngpu 1 power hang\n");
    struct job_monitor *m = job_monitor_open(second, NULL, NULL, NULL);
    CHECK(m);
    usleep(50000); /* the thread may be in the driver by now */
    AUTO(job_monitor_reading) struct job_monitor_reading latest;
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 0);
    CHECK_NEAR(job_monitor_idle_s(m, 1), 0, 0);
    job_monitor_close(m);
    fake_nvml_forget();
}

TEST(a_later_monitor_continues_the_samples)
{
    fake_nvml_machine("gpus 2\ngpu 1 utilization 10+80\n");
    struct job_monitor *first = job_monitor_open(second, NULL, NULL, NULL);
    await_samples(first, 1);
    AUTO(job_usage) struct job_usage *before = job_monitor_usage(first);
    job_monitor_close(first);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL, before);
    await_samples(m, 2);
    fake_nvml_forget();
}

TEST(a_refresh_waits_for_a_reading_and_not_for_a_driver_that_hangs)
{
    fake_nvml_machine("gpus 2\ngpu 1 xid 79,45\ngpu 1 ecc_volatile 0+1\n");
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, "", NULL, NULL);
    await_samples(m, 1);
    int64_t before = job_monitor_number(m);
    job_monitor_refresh(m, 60000); /* less than the limit of the test */
    CHECK(job_monitor_number(m) > before);
    AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    CHECK_INT(s.gpus[0].xid_count, 2); /* events are told once */
    CHECK_INT(s.gpus[0].xids[0].code, 79);
    CHECK(s.gpus[0].ecc_errors >= 1);
    job_usage_summary_end(&s);
    fake_nvml_forget();
    fake_nvml_machine("gpus 2\ngpu 1 power hang\n");
    AUTO(job_monitor) struct job_monitor *hangs = job_monitor_open(second, "", NULL, NULL);
    job_monitor_refresh(hangs, 10);
    CHECK_INT(job_monitor_number(hangs), 0);
    job_monitor_refresh(NULL, 60000);
    fake_nvml_forget();
}

TEST(readings_of_other_nodes_are_added_to_those_of_this_machine)
{
    fake_nvml_machine("gpus 2\ngpu all utilization 40\ngpu all memory_utilization 0\n");
    AUTO(job_monitor) struct job_monitor *there = job_monitor_open(second, "", NULL, NULL);
    AUTO(free) char *text = NULL;
    int64_t number = 0;
    await_samples(there, 1);
    while (!text)
        text = job_monitor_export(there, &number);
    CHECK(number >= 1);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(NULL, "", NULL, NULL);
    AUTO(job_monitor_reading) struct job_monitor_reading r;
    CHECK_INT(job_monitor_import(m, 3, text, strlen(text), NULL), 0);
    CHECK_INT(job_monitor_import(m, 5, "[]", 2, NULL), 0);
    CHECK_INT(job_monitor_import(m, 3, text, strlen(text), NULL), 0);
    CHECK_INT(job_monitor_import(m, 3, "{}", 2, NULL), -EINVAL);
    job_monitor_latest(m, &r);
    CHECK_INT(r.count, 1);
    CHECK_INT(r.number, 3);
    CHECK_INT(r.nodes[0], 3);
    CHECK_STR(r.samples[0].gpu.uuid, second[0]);
    CHECK(!job_monitor_has_worked(m));
    gpu_sample_set(&r.samples[0], GPU_FACT_MEMORY_BUSY, 1);
    AUTO(free) char *works = gpu_reading_write(r.samples, r.count);
    CHECK_INT(job_monitor_import(m, 3, works, strlen(works), NULL), 0);
    CHECK(job_monitor_has_worked(m));
    CHECK(!job_monitor_has_worked(m));
    AUTO(job_usage) struct job_usage *u = job_monitor_usage(m);
    struct job_usage_summary s;
    job_usage_summarise(&s, u);
    CHECK_NEAR(s.utilisation, 0.4, 1e-12);
    CHECK_INT(s.samples, 3);
    job_usage_summary_end(&s);
    fake_nvml_forget();
}

TEST(without_gpus_or_without_a_driver_nothing_is_sampled)
{
    struct job_monitor_reading latest;
    job_monitor_latest(NULL, &latest);
    CHECK_INT(latest.count, 0);
    CHECK(!job_monitor_usage(NULL));
    CHECK_NEAR(job_monitor_idle_s(NULL, 1), 0, 0);
    job_monitor_close(NULL);
    setenv("DROVER_NVML_LIB", "/nowhere/libnvidia-ml.so.1", 1);
    AUTO(job_monitor) struct job_monitor *m = job_monitor_open(second, NULL, NULL, NULL);
    CHECK(m);
    job_monitor_latest(m, &latest);
    CHECK_INT(latest.count, 0);
    auto_job_monitor_reading(&latest);
}
