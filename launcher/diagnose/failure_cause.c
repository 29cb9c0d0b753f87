#include "launcher/diagnose/failure_cause.h"

#include <signal.h>
#include <string.h>

#include "common/strbuf.h"

#define WHO_ELSE "see who else is on the GPU (nvidia-smi), and `drover estimate`"

/* A row fits when a line has the text, or when there is no text and the fact holds. The first row
 * that fits counts: what comes after another failure stands last. */
struct row {
    const char *text;
    bool (*fact)(const struct rank_end *r); /* with a text: must hold too; NULL: always */
    struct failure_cause cause;
};

static bool out_of_memory(const struct rank_end *r)
{
    return r->oom_killed;
}

static bool bus_error(const struct rank_end *r)
{
    return r->signal == SIGBUS;
}

static bool illegal_instruction(const struct rank_end *r)
{
    return r->signal == SIGILL;
}

static bool not_found(const struct rank_end *r)
{
    return r->status == 127;
}

static bool was_started(const struct rank_end *r)
{
    return r->start_status == 0;
}

static bool cpu_limit(const struct rank_end *r)
{
    return r->signal == SIGXCPU;
}

static bool file_limit(const struct rank_end *r)
{
    return r->signal == SIGXFSZ;
}

static const struct row rows[] = {
    {NULL,
     out_of_memory,
     {"host memory: the kernel ended the rank to free some",
      "fewer data loader workers, smaller batches in host memory, or a higher memory limit"}},
    {"CUDA out of memory. Tried to allocate",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"HIP out of memory",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUDA ran out of memory outside PyTorch's allocator",
     NULL,
     {"GPU memory, taken outside PyTorch", "leave room for NCCL and libraries; " WHO_ELSE}},
    {"cudaErrorMemoryAllocation",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUDA error: out of memory",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUDA_ERROR_OUT_OF_MEMORY",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUBLAS_STATUS_ALLOC_FAILED",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUDNN_STATUS_ALLOC_FAILED",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUBLAS_STATUS_NOT_INITIALIZED",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"insufficient shared memory (shm)",
     NULL,
     {"/dev/shm is too small", "in a container: --shm-size=8g or --ipc=host"}},
    {"failed to create shared memory file",
     NULL,
     {"/dev/shm is too small", "in a container: --shm-size=8g or --ipc=host"}},
    {"No space left on device", NULL, {"a disk is full", "df -h there, and /dev/shm and /tmp too"}},
    {"Disk quota exceeded",
     NULL,
     {"the disk quota is used up", "quota -s; write to another file system"}},
    {"Too many open files", NULL, {"the limit of open files", "ulimit -n 65536 before the start"}},
    {"can't start new thread",
     NULL,
     {"the limit of threads and processes",
      "ulimit -u, and pids.max of the container; fewer data loader workers"}},
    {"fork: retry: Resource temporarily unavailable",
     NULL,
     {"the limit of threads and processes",
      "ulimit -u, and pids.max of the container; fewer data loader workers"}},
    {"uncorrectable ECC error",
     NULL,
     {"a GPU's memory is damaged", "take the node out and run `drover doctor` on it"}},
    {"cudaErrorECCUncorrectable",
     NULL,
     {"a GPU's memory is damaged", "take the node out and run `drover doctor` on it"}},
    {"NVLink error",
     NULL,
     {"a link between GPUs failed", "take the node out; `nvidia-smi nvlink -e` counts its errors"}},
    {"has fallen off the bus",
     NULL,
     {"a GPU is gone from its bus", "take the node out; it needs a reset or a repair"}},
    {"unspecified launch failure",
     NULL,
     {"a GPU fault, of the hardware or of a kernel",
      "look for Xid lines in the kernel's log (dmesg); `drover doctor`"}},
    {"cudaErrorLaunchFailure",
     NULL,
     {"a GPU fault, of the hardware or of a kernel",
      "look for Xid lines in the kernel's log (dmesg); `drover doctor`"}},
    {"device-side assert triggered",
     NULL,
     {"a kernel found a bad index or value",
      "CUDA_LAUNCH_BLOCKING=1 shows the line that called it"}},
    {"cudaErrorAssert",
     NULL,
     {"a kernel found a bad index or value",
      "CUDA_LAUNCH_BLOCKING=1 shows the line that called it"}},
    {"illegal memory access",
     NULL,
     {"a kernel read or wrote outside its memory",
      "CUDA_LAUNCH_BLOCKING=1 shows the line; compute-sanitizer shows the kernel"}},
    {"cudaErrorIllegalAddress",
     NULL,
     {"a kernel read or wrote outside its memory",
      "CUDA_LAUNCH_BLOCKING=1 shows the line; compute-sanitizer shows the kernel"}},
    {"misaligned address",
     NULL,
     {"a kernel used a misaligned address",
      "CUDA_LAUNCH_BLOCKING=1 shows the line; compute-sanitizer shows the kernel"}},
    {"CUDA driver version is insufficient for CUDA runtime version",
     NULL,
     {"the driver is older than the CUDA that the program was built with",
      "a newer driver, or a build for an older CUDA"}},
    {"cudaErrorInsufficientDriver",
     NULL,
     {"the driver is older than the CUDA that the program was built with",
      "a newer driver, or a build for an older CUDA"}},
    {"PTX was compiled with an unsupported toolchain",
     NULL,
     {"the driver is older than the CUDA that the program was built with",
      "a newer driver, or a build for an older CUDA"}},
    {"unsupported display driver / cuda driver combination",
     NULL,
     {"the driver's library and its kernel module differ",
      "reboot the node after a driver update, or mount the host's libcuda into the container"}},
    {"libcuda.so.1: cannot open shared object file",
     NULL,
     {"the NVIDIA driver cannot be seen",
      "in a container: --gpus all; else is the driver installed on this node?"}},
    {"no kernel image is available for execution",
     NULL,
     {"the program was built for other GPUs", "rebuild for this GPU's architecture"}},
    {"cudaErrorNoKernelImageForDevice",
     NULL,
     {"the program was built for other GPUs", "rebuild for this GPU's architecture"}},
    {"system not yet initialized",
     NULL,
     {"the fabric manager of an NVSwitch machine is not running",
      "systemctl start nvidia-fabricmanager"}},
    {"cudaErrorSystemNotReady",
     NULL,
     {"the fabric manager of an NVSwitch machine is not running",
      "systemctl start nvidia-fabricmanager"}},
    {"invalid device ordinal",
     NULL,
     {"a rank asked for a GPU that it does not see",
      "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES and -np"}},
    {"cudaErrorInvalidDevice",
     NULL,
     {"a rank asked for a GPU that it does not see",
      "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES and -np"}},
    {"no CUDA-capable device is detected",
     NULL,
     {"no GPU can be seen", "check CUDA_VISIBLE_DEVICES and the container's --gpus"}},
    {"cudaErrorNoDevice",
     NULL,
     {"no GPU can be seen", "check CUDA_VISIBLE_DEVICES and the container's --gpus"}},
    {"Found no NVIDIA driver on your system",
     NULL,
     {"no GPU can be seen", "check CUDA_VISIBLE_DEVICES and the container's --gpus"}},
    {"Torch not compiled with CUDA enabled",
     NULL,
     {"this PyTorch is built without CUDA",
      "install the CUDA build of torch; is this the right environment?"}},
    {"devices are busy or unavailable",
     NULL,
     {"the GPU is taken or in exclusive mode", "nvidia-smi -q -d COMPUTE; " WHO_ELSE}},
    {"cudaErrorDevicesUnavailable",
     NULL,
     {"the GPU is taken or in exclusive mode", "nvidia-smi -q -d COMPUTE; " WHO_ELSE}},
    {"Duplicate GPU detected",
     NULL,
     {"two ranks use one GPU", "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES"}},
    {"no socket interface found",
     NULL,
     {"NCCL_SOCKET_IFNAME names no interface that is up", "unset it, or see `ip -br addr`"}},
    {"Mismatched NCCL version detected",
     NULL,
     {"nodes have different NCCL versions", "the same NCCL on every node"}},
    {"message truncated : receiving",
     NULL,
     {"ranks disagree about a collective",
      "the same sizes, NCCL_ALGO and NCCL_PROTO on every rank"}},
    {"ncclInvalidUsage",
     NULL,
     {"NCCL was called wrongly, or by ranks that disagree",
      "NCCL_DEBUG=WARN says how; often two ranks on one GPU"}},
    {"ncclUnhandledCudaError",
     NULL,
     {"a CUDA call failed inside NCCL",
      "NCCL_DEBUG=INFO names it; often GPU memory, or a driver that is too old"}},
    {"unhandled cuda error",
     NULL,
     {"a CUDA call failed inside NCCL",
      "NCCL_DEBUG=INFO names it; often GPU memory, or a driver that is too old"}},
    {"failed to listen on any local network address",
     NULL,
     {"MASTER_PORT is taken",
      "leave the port to drover: without --master-port it holds a free one"}},
    {"The client socket has timed out after",
     NULL,
     {"the rendezvous was not answered", "is rank 0 up, its address reachable, its port open?"}},
    {"The client socket has failed to connect to",
     NULL,
     {"the rendezvous was not answered", "is rank 0 up, its address reachable, its port open?"}},
    {"Gloo connectFullMesh failed",
     NULL,
     {"gloo: ranks could not reach each other",
      "GLOO_SOCKET_IFNAME=the interface that all nodes share"}},
    {"Expected to have finished reduction in the prior iteration",
     NULL,
     {"DDP: parameters got no gradient",
      "find_unused_parameters=True, or the same path through the model on every rank"}},
    {"is killed by signal",
     NULL,
     {"a data loader worker was killed", "look for host memory (dmesg) and for /dev/shm"}},
    {"error while loading shared libraries",
     not_found,
     {"a shared library is missing", "pass it on: -x LD_LIBRARY_PATH"}},
    {"' not found (required by",
     NULL,
     {"the program needs a newer C or C++ library than this node has",
      "build it on the oldest node, or run it in a container"}},
    {"undefined symbol:",
     NULL,
     {"libraries that do not belong together",
      "look at LD_LIBRARY_PATH; reinstall what was built against another version"}},
    {"wrong ELF class", NULL, {"a library for another kind of CPU", "look at LD_LIBRARY_PATH"}},
    {"Exec format error",
     NULL,
     {"the program is for another kind of CPU, or a script without #!",
      "`file PROGRAM` tells; give a script's first line an interpreter"}},
    {"ModuleNotFoundError",
     NULL,
     {"a Python module is missing", "is this the right virtual environment? `which python3`"}},
    {"ImportError: cannot import name",
     NULL,
     {"Python packages that do not fit each other",
      "`python3 -m pip check`, in the environment that the ranks use"}},
    {"couldn't connect to 'https://huggingface.co'",
     NULL,
     {"the node cannot reach the Hugging Face hub", "download once before, then HF_HUB_OFFLINE=1"}},
    {"You are trying to access a gated repo",
     NULL,
     {"the model needs a login", "-x HF_TOKEN; accept the model's terms on its page"}},
    {"Default process group has not been initialized",
     NULL,
     {"a collective before init_process_group()",
      "call torch.distributed.init_process_group() first"}},
    {"getting local rank failed",
     NULL,
     {"MPI_Init: this rank has been in a job already",
      "one MPI program a rank: not two after each other in one script"}},
    {"unsupported PMI version PMIx",
     NULL,
     {"this MPICH speaks PMI-1, which drover serves on one node",
      "one node; or MPICH's own mpiexec, or an MPICH built with PMIx"}},
    {"It looks like MPI_INIT failed",
     NULL,
     {"MPI_Init failed", "its reason stands above; one MPI library for compiling and running"}},
    {"There are not enough slots available in the system",
     NULL,
     {"an mpirun that the rank started found no slots",
      "start the ranks with drover only, or set OMPI_MCA_rmaps_base_oversubscribe=1"}},
    {NULL,
     bus_error,
     {"a bus error: most often /dev/shm is too small",
      "in a container: --shm-size=8g or --ipc=host; else df -h /dev/shm"}},
    {NULL,
     illegal_instruction,
     {"the program was built for a newer CPU", "rebuild it for this one"}},
    {"Illegal instruction",
     NULL,
     {"the program was built for a newer CPU", "rebuild it for this one"}},
    {NULL, cpu_limit, {"the limit of CPU time", "ulimit -t"}},
    {NULL, file_limit, {"the limit of file size", "ulimit -f"}},
    {"Cannot allocate memory",
     NULL,
     {"host memory", "smaller batches or fewer workers; ulimit -v; the container's memory limit"}},
    {"std::bad_alloc",
     NULL,
     {"host memory", "smaller batches or fewer workers; ulimit -v; the container's memory limit"}},
    {"MemoryError",
     NULL,
     {"host memory", "smaller batches or fewer workers; ulimit -v; the container's memory limit"}},
    {"Address already in use",
     NULL,
     {"a port is taken", "another program listens there (ss -ltnp); bind port 0, or MASTER_PORT, "
                         "which drover holds for rank 0"}},
    {"EADDRINUSE",
     NULL,
     {"a port is taken", "another program listens there (ss -ltnp); bind port 0, or MASTER_PORT, "
                         "which drover holds for rank 0"}},
    {"Permission denied",
     was_started,
     {"a file or a directory may not be used", "look at its owner and mode on this node"}},
    {"Watchdog caught collective operation timeout",
     NULL,
     {"a collective was not joined by all ranks in time",
      "--hang-timeout shows where every rank stood"}},
    {"Timed out waiting",
     NULL,
     {"a collective was not joined by all ranks in time",
      "--hang-timeout shows where every rank stood"}},
    {"unhandled system error",
     NULL,
     {"a system call failed inside NCCL",
      "NCCL_DEBUG=INFO names it: network, memlock or /dev/shm"}},
    {"ncclSystemError",
     NULL,
     {"a system call failed inside NCCL",
      "NCCL_DEBUG=INFO names it: network, memlock or /dev/shm"}},
    {"ncclRemoteError",
     NULL,
     {"another process of the job went away first", "look at the other ranks and nodes"}},
    {"remote process exited or there was a network error",
     NULL,
     {"another process of the job went away first", "look at the other ranks and nodes"}},
    {"Connection refused",
     NULL,
     {"nobody listened where the rank connected to",
      "is rank 0 up, and MASTER_ADDR its address? look at the other ranks first"}},
    {"Connection closed by peer",
     NULL,
     {"another process of the job went away first", "look at the other ranks and nodes"}},
    {"Connection reset by peer",
     NULL,
     {"another process of the job went away first", "look at the other ranks and nodes"}},
    {"Broken pipe",
     NULL,
     {"another process of the job went away first", "look at the other ranks and nodes"}},
};

static bool any_has(const struct rank_end *r, const char *const *lines, const char *text)
{
    for (; lines && *lines; lines++)
        if (strstr(*lines, text))
            return true;
    return r->start_status && strstr(r->start_error, text);
}

const struct failure_cause *failure_cause_find(const struct rank_end *r, const char *const *lines)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((!rows[i].fact || rows[i].fact(r)) &&
            (!rows[i].text || any_has(r, lines, rows[i].text)))
            return &rows[i].cause;
    return NULL;
}

/* "ValueError: bad", "torch.cuda.SomeError", "KeyboardInterrupt". */
static bool is_exception(const char *line)
{
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return name > 0 && (line[name] == '\0' || (line[name] == ':' && line[name + 1] == ' '));
}

const char *failure_cause_python_exception(const char *const *lines)
{
    const char *found = NULL;
    bool inside = false; /* a traceback, whose own lines are indented */
    for (; lines && *lines; lines++) {
        const char *line = *lines;
        if (strncmp(line, "[rank", 5) == 0 && strstr(line, "]: ")) /* PyTorch's mark */
            line = strstr(line, "]: ") + 3;
        if (strncmp(line, "Traceback (most recent call last):", 34) == 0) {
            inside = true;
        } else if (inside && line[0] != ' ' && line[0] != '\0') {
            inside = false;
            found = is_exception(line) ? line : found;
        }
    }
    return found;
}

/* A handler's name and how its dumps are found; the rest are named by their path. */
static const struct {
    const char *name, *how;
} handlers[] = {
    {"systemd-coredump", "coredumpctl info %d"},
    {"apport", "look into /var/crash and /var/lib/apport/coredump (process %d)"},
    {"abrt-hook-ccpp", "abrt list (process %d)"},
};

static char *core_handler(const char *command, int pid)
{
    AUTO(free) char *path = xstrndup(command, strcspn(command, " "));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        if (strcmp(name, handlers[i].name) != 0)
            continue;
        AUTO(free) char *how = xasprintf(handlers[i].how, pid);
        return xasprintf("taken by %s: %s", name, how);
    }
    return xasprintf("taken by %s (process %d)", path, pid);
}

/* What one letter after '%' stands for, where we can know it. */
static void core_letter(struct strbuf *b, const struct failure_cause_core *c, char letter)
{
    const char *slash = strrchr(c->program, '/');
    switch (letter) {
    case '%':
        strbuf_putc(b, '%');
        break;
    case 'p':
    case 'P':
        strbuf_printf(b, "%d", c->pid);
        break;
    case 'u':
        strbuf_printf(b, "%d", c->uid);
        break;
    case 's':
        strbuf_printf(b, "%d", c->signal);
        break;
    case 'h':
        strbuf_puts(b, c->host);
        break;
    case 'e':
        strbuf_printf(b, "%.15s", slash ? slash + 1 : c->program); /* the kernel's limit */
        break;
    default:
        strbuf_putc(b, '*'); /* the time, another thread's number, … */
    }
}

char *failure_cause_core(const struct failure_cause_core *c)
{
    if (c->pattern[0] == '|')
        return core_handler(c->pattern + 1, c->pid);
    AUTO(strbuf) struct strbuf b = {0};
    bool has_pid = false;
    if (c->pattern[0] != '/')
        strbuf_printf(&b, "%s/", c->wdir ? c->wdir : ".");
    for (const char *p = c->pattern; *p; p++) {
        if (*p != '%') {
            strbuf_putc(&b, *p);
        } else if (p[1]) {
            has_pid |= *++p == 'p';
            core_letter(&b, c, *p);
        }
    }
    if (c->uses_pid && !has_pid)
        strbuf_printf(&b, ".%d", c->pid);
    return strbuf_take(&b);
}
