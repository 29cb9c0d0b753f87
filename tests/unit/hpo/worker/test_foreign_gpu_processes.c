/* test_foreign_gpu_processes - processes that are found on a GPU. The driver is
 * tests/fake/nvml.c. */
#include "hpo/worker/foreign_gpu_processes.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/test.h"

static char users[] = "/tmp/test_foreign_gpu.XXXXXX";

static void use_fake(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    AUTO(free) char *path = xasprintf("%s/../fake/libnvidia-ml.so.1", self);
    setenv("DROVER_NVML_LIB", path, 1);
    setenv("DROVER_FAKE_GPUS", "GPU-aa,H100,1b,40960,40960;GPU-bb,H100,43,40960,40960", 1);
    setenv("DROVER_FAKE_NVML_INIT", "0", 1);
    int fd = mkstemp(users);
    CHECK(fd >= 0);
    close(fd);
    setenv("DROVER_FAKE_GPU_USERS", users, 1);
}

static void say(const char *fmt, int a, int b)
{
    FILE *f = fopen(users, "w");
    CHECK(f != NULL);
    fprintf(f, fmt, a, b);
    fclose(f);
}

struct seen {
    struct foreign_gpu_processes *s;
    struct foreign_gpu_process list[2];
    int count, calls;
};

static void on_look(void *arg, const struct foreign_gpu_process *list, int count, int64_t asked_ms)
{
    struct seen *seen = arg;
    seen->count = count;
    seen->calls++;
    if (count > 0)
        memcpy(seen->list, list, (size_t)count * sizeof *list);
    foreign_gpu_processes_close(seen->s);
}

static struct seen look(void)
{
    uv_loop_t loop;
    CHECK_INT(uv_loop_init(&loop), 0);
    struct seen seen = {0};
    seen.s = foreign_gpu_processes_open(&loop, 1, on_look, &seen);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    CHECK_INT(seen.calls, 1);
    return seen;
}

TEST(a_process_on_a_gpu_is_named_unless_drover_started_it)
{
    use_fake();
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    say("GPU-aa %d 100\nGPU-bb %d 100\n", child, (int)getppid());
    struct seen seen = look();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink(users);
    CHECK_INT(seen.count, 1);
    CHECK_STR(seen.list[0].uuid, "GPU-bb");
    CHECK(seen.list[0].seen);
    AUTO(free) char *want = xasprintf("process %d of ", (int)getppid());
    CHECK_HAS(seen.list[0].text, want);
}

TEST(memory_of_an_invisible_process_is_reported_without_a_name)
{
    use_fake();
    say("GPU-aa 0 3072\nGPU-bb %d 1000\n", INT_MAX, 0); /* a process in another namespace */
    struct seen seen = look();
    unlink(users);
    CHECK_INT(seen.count, 1);
    CHECK_STR(seen.list[0].uuid, "GPU-aa");
    CHECK(!seen.list[0].seen);
    CHECK_STR(seen.list[0].text, "3 GiB of its memory are in use");
}

TEST(a_driver_that_does_not_answer_differs_from_no_process)
{
    use_fake();
    setenv("DROVER_FAKE_NVML_INIT", "18", 1);
    struct seen seen = look();
    unlink(users);
    CHECK_INT(seen.count, -1);
}

TEST(it_may_be_closed_during_a_scan)
{
    use_fake();
    uv_loop_t loop;
    CHECK_INT(uv_loop_init(&loop), 0);
    struct seen seen = {0};
    foreign_gpu_processes_close(foreign_gpu_processes_open(&loop, 1, on_look, &seen));
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    CHECK_INT(seen.calls, 0);
    unlink(users);
}
