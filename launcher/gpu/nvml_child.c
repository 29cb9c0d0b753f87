#include "launcher/gpu/nvml_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"

/* Shared with the process. */
struct call {
    nvml_child_fn *fn; /* NULL: only NVML is initialised */
    int rc;
    struct err error;
    int init_code;
};

struct nvml_child {
    pid_t pid;
    int sock; /* a byte is a call, or the end of one */
    bool running;
    struct call *call;
    char *memory;
    size_t size; /* of both */
};

/* ---- the process ----------------------------------------------------------------------------- */

static bool initialise(struct nvml *n, struct call *c)
{
    struct err why = {0};
    c->rc = -ENODEV;
    if (!n->lib && !nvml_open(n, &why)) {
        nvml_close(n);
        err_set(&c->error, -ENODEV, "%s", why.text);
        return false;
    }
    c->init_code = n->init();
    if (c->init_code == NVML_SUCCESS)
        return true;
    if (c->init_code == NVML_NO_DRIVER) {
        err_set(&c->error, -ENODEV, "NVIDIA driver: %s", nvml_error(n, c->init_code));
        return false;
    }
    c->rc = err_set(&c->error, -EIO, "the NVIDIA driver does not respond: %s",
                    nvml_error(n, c->init_code));
    err_hint(&c->error, "nvidia-smi, which shows the same error; reboot after a driver update");
    return false;
}

/* Keeps no file of drover open, whose readers would wait for this process, and leaves the signals
 * of the terminal to drover. */
static void detach(int sock)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    enum { SOCK = STDERR_FILENO + 1 };
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sock = fcntl(sock, F_DUPFD, SOCK + 1);
    int null = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    dup2(sock, SOCK);
    if (syscall(SYS_close_range, SOCK + 1, ~0U, 0) == 0)
        return;
    for (int fd = SOCK + 1; fd < (int)sysconf(_SC_OPEN_MAX); fd++) /* a kernel before 5.9 */
        close(fd);
}

static _Noreturn void serve(struct nvml_child *c)
{
    enum { SOCK = STDERR_FILENO + 1 };
    struct nvml n = {0};
    bool ready = false;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    detach(c->sock);
    while (read(SOCK, &byte, 1) == 1) {
        c->call->error = (struct err){0};
        ready = ready || initialise(&n, c->call);
        if (ready)
            c->call->rc = c->call->fn(&n, c->memory, &c->call->error);
        if (write(SOCK, &byte, 1) != 1)
            break;
    }
    _exit(0);
}

/* ---- in drover ------------------------------------------------------------------------------- */

static size_t aligned(size_t n)
{
    enum { ALIGNMENT = 64 };
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int nvml_child_start(struct nvml_child **out, void **memory, size_t size, struct err *e)
{
    int ends[2];
    if (!nvml_is_present())
        return err_set(e, -ENODEV, "no NVIDIA driver is loaded");
    size += aligned(sizeof(struct call));
    char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_set(e, -errno, "NVIDIA driver: mmap: %s", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        munmap(shared, size);
        return err_set(e, -errno, "NVIDIA driver: socketpair: %s", strerror(errno));
    }
    struct nvml_child *c = xzalloc(sizeof *c);
    *c = (struct nvml_child){.sock = ends[1],
                             .call = (struct call *)shared,
                             .memory = shared + aligned(sizeof(struct call)),
                             .size = size};
    c->call->init_code = -1;
    c->pid = fork();
    if (c->pid == 0)
        serve(c);
    int error = errno;
    close(ends[1]);
    c->sock = ends[0];
    *memory = c->memory;
    *out = c;
    if (c->pid > 0)
        return 0;
    nvml_child_stop(TAKE(*out));
    return err_set(e, -error, "NVIDIA driver: fork: %s", strerror(error));
}

void nvml_child_stop(struct nvml_child *c)
{
    if (!c)
        return;
    close(c->sock);
    if (c->pid > 0)
        child_kill(c->pid);
    munmap(c->call, c->size);
    free(c);
}

/* Waits for the end of the call. Returns false if the time is over, or if the process has ended. */
static bool wait_for_end(struct nvml_child *c, int64_t end_ms, bool *died)
{
    struct pollfd p = {.fd = c->sock, .events = POLLIN};
    char byte;
    int ready = 0;
    for (int64_t left; ready <= 0 && (left = end_ms - clock_ms()) > 0;)
        ready = poll(&p, 1, (int)left);
    *died = ready > 0 && read(c->sock, &byte, 1) != 1;
    c->running = ready <= 0 || *died;
    return !c->running;
}

int nvml_child_run(struct nvml_child *c, nvml_child_fn *fn, int deadline_ms, struct err *e)
{
    int64_t end_ms = clock_ms() + deadline_ms;
    bool died = false;
    if (!c->running || wait_for_end(c, end_ms, &died)) {
        c->call->fn = fn;
        c->running = true;
        died = send(c->sock, "", 1, MSG_NOSIGNAL) != 1;
        if (!died && wait_for_end(c, end_ms, &died)) {
            if (c->call->rc < 0 && e)
                *e = c->call->error;
            return c->call->rc;
        }
    }
    if (died)
        return err_set(e, -EIO, "NVIDIA driver: the process that calls it has crashed");
    err_set(e, -ETIMEDOUT, "the NVIDIA driver does not respond within %g s", deadline_ms / 1e3);
    return err_hint(e, "nvidia-smi, which hangs, too; dmesg names the GPU; reboot");
}

int nvml_child_init_code(const struct nvml_child *c)
{
    return c->call->init_code;
}
