#include "launcher/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "launcher/gpu/nvml.h"

enum { NVML_REMOTE_GPU = 0, NVML_REMOTE_SWITCH = 2 };

int gpu_bus_id(char *out, unsigned size, const char *text)
{
    unsigned domain = 0, bus, device, function;
    int end = -1;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 ||
        end < 0 || text[end]) {
        domain = 0;
        end = -1;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3 || end < 0 ||
            text[end])
            return -EINVAL;
    }
    snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return 0;
}

static void describe_mig(const struct nvml *n, nvml_device d, struct gpu *g)
{
    nvml_device mig_device = NULL;
    for (unsigned i = 0, found = 0; n->mig_device && n->uuid && i < GPU_MIG_MAX; i++)
        if (n->mig_device(d, i, &mig_device) == NVML_SUCCESS &&
            n->uuid(mig_device, g->mig_uuids[found], sizeof g->mig_uuids[found]) == NVML_SUCCESS)
            found++;
}

static void format_bus_id(char *out, size_t size, const struct nvml_pci *p)
{
    snprintf(out, size, "%04x:%02x:%02x.0", p->domain, p->bus, p->device);
}

/* Fills in the properties of a GPU. Properties that the library does not report stay empty. Returns
 * NVML's code of the first call. */
static int describe(const struct nvml *n, unsigned index, struct gpu *g)
{
    nvml_device d = NULL;
    int rc = n->by_index(index, &d);
    if (rc != NVML_SUCCESS)
        return rc;
    *g = (struct gpu){.index = (int)index, .numa = -1};
    if (!n->uuid || n->uuid(d, g->uuid, sizeof g->uuid) != NVML_SUCCESS)
        g->uuid[0] = '\0';
    if (!n->name || n->name(d, g->name, sizeof g->name) != NVML_SUCCESS)
        g->name[0] = '\0';
    struct nvml_pci pci = {0};
    if (n->pci && n->pci(d, &pci) == NVML_SUCCESS)
        format_bus_id(g->bus_id, sizeof g->bus_id, &pci);
    struct nvml_memory m = {0};
    if (n->memory && n->memory(d, &m) == NVML_SUCCESS) {
        g->memory_total_bytes = m.total;
        g->memory_free_bytes = m.free;
    }
    describe_mig(n, d, g);
    return NVML_SUCCESS;
}

static int count_gpus(const struct nvml *n, unsigned *total, struct err *e)
{
    int rc = n->count(total);
    if (rc != NVML_SUCCESS)
        return err_set(e, -EIO, "NVIDIA driver: cannot count GPUs: %s", nvml_error(n, rc));
    return *total > 1024 ? err_set(e, -EIO, "NVIDIA driver: implausible number of GPUs: %u", *total)
                         : 0;
}

static int list_gpus(const struct nvml *n, void *out, int *count, struct err *e)
{
    unsigned total = 0;
    if (count_gpus(n, &total, e) < 0)
        return -EIO;
    AUTO(free) struct gpu *gpus = xcalloc(total, sizeof *gpus);
    int found = 0;
    for (unsigned i = 0; i < total; i++) {
        int rc = describe(n, i, &gpus[found]);
        if (rc == NVML_SUCCESS)
            found++;
        else
            log_warn("GPU %u is skipped: %s", i, nvml_error(n, rc));
    }
    *count = found;
    *(struct gpu **)out = found ? TAKE(gpus) : NULL;
    return 0;
}

int gpu_count_nvlinks(struct gpu *g, const char *to, int links)
{
    for (int i = 0; i < GPU_NVLINK_PEERS_MAX; i++) {
        struct gpu_nvlinks *l = &g->nvlinks[i];
        if (l->to[0] && strcmp(l->to, to) != 0)
            continue;
        snprintf(l->to, sizeof l->to, "%s", to);
        l->count += links;
        return 0;
    }
    return -ENOSPC;
}

/* Drivers before NVSwitch lack the remote type: then each remote end is a GPU. */
static void add_nvlink(const struct nvml *n, nvml_device d, unsigned link, struct gpu *g)
{
    unsigned active = 0, type = NVML_REMOTE_GPU;
    struct nvml_pci pci = {0};
    char to[sizeof g->bus_id] = GPU_NVLINK_SWITCH;
    if (n->nvlink_state(d, link, &active) != NVML_SUCCESS || !active)
        return;
    if (n->nvlink_remote_type && n->nvlink_remote_type(d, link, &type) != NVML_SUCCESS)
        return;
    if (type == NVML_REMOTE_GPU) {
        if (!n->nvlink_remote_pci || n->nvlink_remote_pci(d, link, &pci) != NVML_SUCCESS)
            return;
        format_bus_id(to, sizeof to, &pci);
    }
    if (type == NVML_REMOTE_GPU || type == NVML_REMOTE_SWITCH)
        (void)gpu_count_nvlinks(g, to, 1); /* a GPU has fewer peers than entries */
}

static int list_nvlinks(const struct nvml *n, void *out, int *count, struct err *e)
{
    struct gpu *gpus = out;
    for (int i = 0; i < *count; i++) {
        nvml_device d = NULL;
        int rc = n->by_index((unsigned)gpus[i].index, &d);
        if (rc != NVML_SUCCESS)
            return err_set(e, -EIO, "GPU %d: %s", gpus[i].index, nvml_error(n, rc));
        for (unsigned link = 0; n->nvlink_state && link < NVML_NVLINKS_MAX; link++)
            add_nvlink(n, d, link, &gpus[i]);
    }
    return 0;
}

/* Appends the memory, load and processes of a GPU or MIG instance, if it has a UUID. */
static void add_usage(const struct nvml *n, nvml_device d, struct gpu_usage **usage, int *count)
{
    struct gpu_usage u = {.busy_percent = -1};
    struct nvml_memory m = {0};
    struct nvml_utilization load = {0};
    struct nvml_process p[GPU_PROCESSES_MAX];
    unsigned process_count = GPU_PROCESSES_MAX;
    if (!n->uuid || n->uuid(d, u.uuid, sizeof u.uuid) != NVML_SUCCESS)
        return;
    if (n->memory && n->memory(d, &m) == NVML_SUCCESS) {
        u.total_bytes = m.total;
        u.used_bytes = m.used;
    }
    if (n->utilization && n->utilization(d, &load) == NVML_SUCCESS && load.gpu <= 100)
        u.busy_percent = (int)load.gpu;
    int rc = n->processes ? n->processes(d, &process_count, p) : NVML_GPU_LOST;
    for (unsigned i = 0; rc == NVML_SUCCESS && i < process_count && i < GPU_PROCESSES_MAX; i++) {
        u.pid_bytes[u.pid_count] = p[i].used_bytes <= INT64_MAX ? (int64_t)p[i].used_bytes : -1;
        u.pids[u.pid_count++] = (int)p[i].pid;
    }
    *usage = xrealloc(*usage, (size_t)*count + 1, sizeof **usage);
    (*usage)[(*count)++] = u;
}

static int list_usage(const struct nvml *n, void *out, int *count, struct err *e)
{
    unsigned total = 0;
    if (count_gpus(n, &total, e) < 0)
        return -EIO;
    AUTO(free) struct gpu_usage *usage = NULL;
    for (unsigned i = 0; i < total; i++) {
        nvml_device d = NULL, mig_device = NULL;
        int before = *count;
        if (n->by_index(i, &d) != NVML_SUCCESS)
            continue;
        for (unsigned p = 0; n->mig_device && p < GPU_MIG_MAX; p++)
            if (n->mig_device(d, p, &mig_device) == NVML_SUCCESS)
                add_usage(n, mig_device, &usage, count);
        if (*count == before)
            add_usage(n, d, &usage, count);
    }
    *(struct gpu_usage **)out = TAKE(usage);
    return 0;
}

typedef int query_fn(const struct nvml *n, void *out, int *count, struct err *e);

static int query(const struct nvml *n, query_fn *fn, void *out, int *count, struct err *e)
{
    int code = n->init(), rc = 0;
    if (code == NVML_SUCCESS) {
        rc = fn(n, out, count, e);
        if (n->shutdown)
            (void)n->shutdown(); /* the result does not matter, since NVML was only read */
    } else if (code != NVML_NO_DRIVER) {
        rc = err_set(e, -EIO, "the NVIDIA driver does not respond: %s", nvml_error(n, code));
        err_hint(e, "nvidia-smi, which shows the same error; reboot after a driver update");
    }
    return rc;
}

/* ---- in a process that can be abandoned ----------------------------------------------------- */

struct answer {
    int rc, count;
    struct err error;
};

static bool write_all(int fd, const void *bytes, size_t len)
{
    for (const char *at = bytes, *end = at + len; at < end;) {
        ssize_t n = write(fd, at, (size_t)(end - at));
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
    }
    return true;
}

static bool read_until(int fd, void *bytes, size_t len, int64_t end_ms)
{
    char *at = bytes;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (int64_t left; len > 0 && (left = end_ms - clock_ms()) > 0;) {
        if (poll(&p, 1, (int)left) <= 0)
            continue;
        ssize_t n = read(fd, at, len);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return len == 0;
}

static _Noreturn void answer(int fd, const struct nvml *n, query_fn *fn, struct gpu *gpus,
                             int count)
{
    struct answer a = {.count = count};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    a.rc = query(n, fn, fn == list_gpus ? (void *)&gpus : gpus, &a.count, &a.error);
    _exit(!write_all(fd, &a, sizeof a) || !write_all(fd, gpus, (size_t)a.count * sizeof *gpus));
}

/* Ends the process. One that waits in the kernel stays, and is left to init. */
static void end(pid_t pid)
{
    enum { EXIT_MS = 100 };
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    kill(pid, SIGKILL);
    (void)poll(&p, 1, EXIT_MS);
    (void)waitpid(pid, NULL, WNOHANG);
}

/* Runs a query in a process of its own: a call of a driver that hangs does not return, and a thread
 * in it could not be ended. `*gpus` and `*count` are its input and its output. */
static int query_apart(const struct nvml *n, query_fn *fn, struct gpu **gpus, int *count,
                       int deadline_ms, struct err *e)
{
    struct answer a;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "NVIDIA driver: pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        answer(ends[1], n, fn, *gpus, *count);
    int error = errno;
    close(ends[1]);
    AUTO(fd) int fd = ends[0];
    if (pid < 0)
        return err_set(e, -error, "NVIDIA driver: fork: %s", strerror(error));
    int64_t end_ms = clock_ms() + deadline_ms;
    bool answered = read_until(fd, &a, sizeof a, end_ms);
    AUTO(free)
    struct gpu *found = answered && a.count ? xcalloc((size_t)a.count, sizeof *found) : NULL;
    answered = answered && read_until(fd, found, (size_t)a.count * sizeof *found, end_ms);
    end(pid);
    if (!answered) {
        err_set(e, -EIO, "the NVIDIA driver does not respond within %g s", deadline_ms / 1e3);
        return err_hint(e, "nvidia-smi, which hangs, too; dmesg names the GPU; reboot");
    }
    if (a.rc < 0 && e)
        *e = a.error;
    if (a.rc < 0)
        return a.rc;
    free(*gpus);
    *gpus = TAKE(found);
    *count = a.count;
    return 0;
}

/* Opens the library. Returns false if there is none. */
static bool open_library(struct nvml *n)
{
    struct err why = {0};
    bool found = nvml_open(n, &why);
    if (why.code < 0)
        log_info("GPUs are not used: %s", why.text);
    return found;
}

int gpu_list(struct gpu **out, int *count, int deadline_ms, struct err *e)
{
    struct nvml n = {0};
    *out = NULL;
    *count = 0;
    int rc = open_library(&n) ? query_apart(&n, list_gpus, out, count, deadline_ms, e) : 0;
    nvml_close(&n);
    return rc;
}

int gpu_add_nvlinks(struct gpu **gpus, int *count, int deadline_ms, struct err *e)
{
    struct nvml n = {0};
    bool found = *count && open_library(&n);
    int rc = found ? query_apart(&n, list_nvlinks, gpus, count, deadline_ms, e) : 0;
    nvml_close(&n);
    return rc;
}

int gpu_usage(struct gpu_usage **out, int *count, struct err *e)
{
    *out = NULL;
    *count = 0;
    struct nvml n = {0};
    int rc = open_library(&n) ? query(&n, list_usage, out, count, e) : 0;
    nvml_close(&n);
    return rc;
}
