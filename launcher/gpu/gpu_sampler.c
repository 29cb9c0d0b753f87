#include "launcher/gpu/gpu_sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/log.h"

enum { GPUS_MAX = 1024, SAMPLES_MAX = 512, REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

/* The memory that the process shares. */
struct area {
    gpu_sampler_fn *fn; /* the call: that of gpu_sampler_call(); NULL: all values are read */
    char bytes[GPU_SAMPLER_BYTES];
    int rc;
    struct err error;
    int init_code;
    unsigned purposes;
    char *const *uuids; /* those of drover when the process started; NULL: all */
    uint64_t only;
    bool found;                       /* the next three are set */
    nvml_device devices[SAMPLES_MAX]; /* NULL: not asked so far, or lost */
    void *events[SAMPLES_MAX];        /* for gpu_facts_read_xids() */
    int count;
    struct gpu_sample samples[SAMPLES_MAX];
    atomic_int at;
};

struct gpu_sampler {
    pid_t pid;
    int sock; /* a byte is a call, or the end of one */
    bool running;
    struct area *area;
};

/* ---- in the process: what there is ----------------------------------------------------------- */

/* Returns true if a MIG instance stands for its GPU. */
static bool of_parts(const struct area *a)
{
    return a->purposes & (GPU_USE | GPU_SAMPLE);
}

static bool is_wanted(const struct area *a, const char *uuid)
{
    bool wanted = !a->uuids;
    for (size_t i = 0; a->uuids && a->uuids[i]; i++)
        wanted |= strcmp(a->uuids[i], uuid) == 0;
    return wanted;
}

/* Adds a GPU, or a MIG instance of `whole`, unless it is not wanted or, as a unit of use, has no
 * UUID. */
static void add(struct area *a, const struct nvml *n, unsigned index, nvml_device d,
                const struct gpu_sample *whole)
{
    if (a->count == SAMPLES_MAX)
        return;
    struct gpu_sample *s = &a->samples[a->count];
    *s = (struct gpu_sample){.gpu = {.index = (int)index, .numa = -1}};
    if (whole) {
        memcpy(s->gpu.bus_id, whole->gpu.bus_id, sizeof s->gpu.bus_id);
        s->known[GPU_FACT_PCI] = true;
    }
    if (of_parts(a)) {
        gpu_facts_read_one(n, d, s, GPU_FACT_UUID);
        if (!s->known[GPU_FACT_UUID] || !is_wanted(a, s->gpu.uuid))
            return;
    }
    a->devices[a->count++] = d;
}

/* Adds the MIG instances of a GPU. Returns false if it has none. */
static bool add_parts(struct area *a, const struct nvml *n, unsigned index, nvml_device d)
{
    struct gpu_sample whole = {0};
    nvml_device part = NULL;
    bool any = false;
    for (unsigned i = 0; n->mig_device && i < GPU_MIG_MAX; i++) {
        if (n->mig_device(d, i, &part) != NVML_SUCCESS)
            continue;
        if (!any)
            gpu_facts_read_one(n, d, &whole, GPU_FACT_PCI);
        any = true;
        add(a, n, index, part, &whole);
    }
    return any;
}

static void add_gpu(struct area *a, const struct nvml *n, unsigned index)
{
    nvml_device d = NULL;
    if (!of_parts(a))
        add(a, n, index, NULL, NULL);
    else if (n->by_index(index, &d) == NVML_SUCCESS && !add_parts(a, n, index, d))
        add(a, n, index, d, NULL);
}

static int find(struct area *a, const struct nvml *n, struct err *e)
{
    unsigned total = 0;
    int rc = n->count(&total);
    if (rc != NVML_SUCCESS)
        return err_set(e, -EIO, "NVIDIA driver: cannot count GPUs: %s", nvml_error(n, rc));
    if (total > GPUS_MAX)
        return err_set(e, -EIO, "NVIDIA driver: implausible number of GPUs: %u", total);
    a->count = 0;
    for (unsigned i = 0; i < total && a->count < SAMPLES_MAX; i++)
        add_gpu(a, n, i);
    if (a->count == 0 && (a->purposes & GPU_SAMPLE))
        return err_set(e, -ENODEV, "the NVIDIA driver lists none of the GPUs");
    a->found = true;
    return 0;
}

/* ---- in the process: values ------------------------------------------------------------------ */

static void add_mig_uuids(const struct nvml *n, nvml_device d, struct gpu *g)
{
    nvml_device part = NULL;
    for (unsigned i = 0, k = 0; n->mig_device && n->uuid && i < GPU_MIG_MAX; i++)
        if (n->mig_device(d, i, &part) == NVML_SUCCESS &&
            n->uuid(part, g->mig_uuids[k], sizeof g->mig_uuids[k]) == NVML_SUCCESS)
            k++;
}

/* Drivers before NVSwitch lack the remote type: then each remote end is a GPU. */
static void add_nvlink(const struct nvml *n, nvml_device d, unsigned link, struct gpu *g)
{
    unsigned active = 0, type = REMOTE_GPU;
    struct nvml_pci pci = {0};
    char to[sizeof g->bus_id] = GPU_NVLINK_SWITCH;
    if (!n->nvlink_state || n->nvlink_state(d, link, &active) != NVML_SUCCESS || !active)
        return;
    if (n->nvlink_remote_type && n->nvlink_remote_type(d, link, &type) != NVML_SUCCESS)
        return;
    if (type == REMOTE_GPU) {
        if (!n->nvlink_remote_pci || n->nvlink_remote_pci(d, link, &pci) != NVML_SUCCESS)
            return;
        gpu_facts_bus_id(to, sizeof to, &pci);
    }
    if (type == REMOTE_GPU || type == REMOTE_SWITCH)
        (void)gpu_count_nvlinks(g, to, 1); /* a GPU has fewer peers than entries */
}

/* Returns the handle of a GPU; NULL: it is not asked, or the driver has lost it. */
static nvml_device handle_of(struct area *a, const struct nvml *n, int i)
{
    struct gpu_sample *s = &a->samples[i];
    unsigned index = (unsigned)s->gpu.index;
    if (!a->devices[i] && (!a->only || (index < 64 && a->only >> index & 1))) {
        atomic_store(&a->at, (int)index * GPU_FACTS + GPU_FACT_HANDLE);
        s->rc[GPU_FACT_HANDLE] = n->by_index(index, &a->devices[i]);
        if (s->rc[GPU_FACT_HANDLE] != NVML_SUCCESS)
            a->devices[i] = NULL;
    }
    return a->devices[i];
}

static int read_all(const struct nvml *n, struct area *a, struct err *e)
{
    if (!a->found && find(a, n, e) < 0)
        return e->code;
    for (int i = 0; i < a->count; i++) {
        nvml_device d = handle_of(a, n, i);
        if (!d)
            continue;
        gpu_facts_read(n, d, &a->samples[i], a->purposes, &a->at);
        if (a->purposes & GPU_SAMPLE) {
            atomic_store(&a->at, a->samples[i].gpu.index * GPU_FACTS + GPU_FACT_XIDS);
            gpu_facts_read_xids(n, d, &a->events[i], &a->samples[i]);
        }
        if (a->purposes & GPU_LIST)
            add_mig_uuids(n, d, &a->samples[i].gpu);
        for (unsigned link = 0; a->purposes & GPU_LINKS && link < NVML_NVLINKS_MAX; link++)
            add_nvlink(n, d, link, &a->samples[i].gpu);
    }
    return 0;
}

/* ---- in the process: calls ------------------------------------------------------------------- */

static bool initialise(struct nvml *n, struct area *a)
{
    struct err why = {0};
    a->rc = -ENODEV;
    if (!n->lib && !nvml_open(n, &why)) {
        err_set(&a->error, -ENODEV, "%s", why.text);
        return false;
    }
    a->init_code = n->init();
    if (a->init_code == NVML_SUCCESS)
        return true;
    if (a->init_code == NVML_NO_DRIVER) {
        err_set(&a->error, -ENODEV, "NVIDIA driver: %s", nvml_error(n, a->init_code));
        return false;
    }
    a->rc = err_set(&a->error, -EIO, "the NVIDIA driver does not respond: %s",
                    nvml_error(n, a->init_code));
    err_hint(&a->error, "nvidia-smi, which shows the same error; reboot after a driver update");
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

static _Noreturn void serve(struct gpu_sampler *s)
{
    enum { SOCK = STDERR_FILENO + 1 };
    struct area *a = s->area;
    struct nvml n = {0};
    bool ready = false;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    detach(s->sock);
    while (read(SOCK, &byte, 1) == 1) {
        a->error = (struct err){0};
        ready = ready || initialise(&n, a);
        if (ready)
            a->rc = a->fn ? a->fn(&n, a->bytes, &a->error) : read_all(&n, a, &a->error);
        if (write(SOCK, &byte, 1) != 1)
            break;
    }
    _exit(0);
}

/* ---- in drover ------------------------------------------------------------------------------- */

int gpu_sampler_open(struct gpu_sampler **out, const struct gpu_sampler_opts *o, struct err *e)
{
    int ends[2];
    if (!nvml_is_present())
        return err_set(e, -ENODEV, "no NVIDIA driver is loaded");
    struct area *a =
        mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED)
        return err_set(e, -errno, "NVIDIA driver: mmap: %s", strerror(errno));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        munmap(a, sizeof *a);
        return err_set(e, -errno, "NVIDIA driver: socketpair: %s", strerror(errno));
    }
    a->init_code = -1;
    a->purposes = o->purposes;
    a->uuids = o->uuids;
    a->only = o->only;
    struct gpu_sampler *s = xzalloc(sizeof *s);
    *s = (struct gpu_sampler){.sock = ends[1], .area = a};
    s->pid = fork();
    if (s->pid == 0)
        serve(s);
    int error = errno;
    close(ends[1]);
    s->sock = ends[0];
    *out = s;
    if (s->pid > 0)
        return 0;
    gpu_sampler_close(TAKE(*out));
    return err_set(e, -error, "NVIDIA driver: fork: %s", strerror(error));
}

void gpu_sampler_close(struct gpu_sampler *s)
{
    if (!s)
        return;
    close(s->sock);
    if (s->pid > 0)
        child_kill(s->pid);
    munmap(s->area, sizeof *s->area);
    free(s);
}

/* Waits for the end of the call. Returns false if the time is over, or if the process has ended. */
static bool wait_for_end(struct gpu_sampler *s, int64_t end_ms, bool *died)
{
    struct pollfd p = {.fd = s->sock, .events = POLLIN};
    char byte;
    int ready = 0;
    for (int64_t left; ready <= 0 && (left = end_ms - clock_ms()) > 0;)
        ready = poll(&p, 1, (int)left);
    *died = ready > 0 && read(s->sock, &byte, 1) != 1;
    s->running = ready <= 0 || *died;
    return !s->running;
}

int gpu_sampler_call(struct gpu_sampler *s, gpu_sampler_fn *fn, void *inout, size_t size,
                     int deadline_ms, struct err *e)
{
    int64_t end_ms = clock_ms() + deadline_ms;
    bool died = false;
    struct area *a = s->area;
    bool was_late = s->running;
    if (!was_late || wait_for_end(s, end_ms, &died)) {
        if (was_late && !fn && !a->fn) { /* what the call before waited for in vain */
            if (a->rc < 0 && e)
                *e = a->error;
            return a->rc;
        }
        a->fn = fn;
        if (size > 0)
            memcpy(a->bytes, inout, size);
        s->running = true;
        died = send(s->sock, "", 1, MSG_NOSIGNAL) != 1;
        if (!died && wait_for_end(s, end_ms, &died)) {
            if (a->rc < 0 && e)
                *e = a->error;
            if (a->rc == 0 && size > 0)
                memcpy(inout, a->bytes, size);
            return a->rc;
        }
    }
    if (died)
        return err_set(e, -EIO, "NVIDIA driver: the process that calls it has crashed");
    err_set(e, -ETIMEDOUT, "the NVIDIA driver does not respond within %g s", deadline_ms / 1e3);
    return err_hint(e, "nvidia-smi, which hangs, too; dmesg names the GPU; reboot");
}

int gpu_sampler_read(struct gpu_sampler *s, const struct gpu_sample **out, int *count,
                     int deadline_ms, struct err *e)
{
    int rc = gpu_sampler_call(s, NULL, NULL, 0, deadline_ms, e);
    *out = s->area->samples;
    *count = s->area->count;
    return rc;
}

enum gpu_fact gpu_sampler_at(const struct gpu_sampler *s, int *gpu)
{
    int at = atomic_load(&s->area->at);
    *gpu = at / GPU_FACTS;
    return (enum gpu_fact)(at % GPU_FACTS);
}

int gpu_sampler_init_code(const struct gpu_sampler *s)
{
    return s->area->init_code;
}

int gpu_sampler_once(struct gpu_sample **out, int *count, unsigned purposes, int deadline_ms,
                     struct err *e)
{
    AUTO(gpu_sampler) struct gpu_sampler *s = NULL;
    const struct gpu_sample *found = NULL;
    struct err why = {0};
    *out = NULL;
    *count = 0;
    int n = 0, rc = gpu_sampler_open(&s, &(struct gpu_sampler_opts){.purposes = purposes}, &why);
    rc = rc < 0 ? rc : gpu_sampler_read(s, &found, &n, deadline_ms, &why);
    if (rc == -ENODEV && s)
        log_info("GPUs are not used: %s", why.text);
    if (rc < 0 && rc != -ENODEV && e)
        *e = why;
    if (rc < 0)
        return rc == -ENODEV ? 0 : rc;
    *out = n ? xcalloc((size_t)n, sizeof **out) : NULL;
    for (int i = 0; i < n; i++) {
        int code = found[i].rc[GPU_FACT_HANDLE];
        if (code == NVML_SUCCESS)
            (*out)[(*count)++] = found[i];
        else if (purposes & GPU_LIST)
            log_warn("GPU %d is skipped: %s", found[i].gpu.index, nvml_code_name(code));
    }
    return 0;
}
