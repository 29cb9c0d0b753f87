#include "launcher/watch/failure_cause.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

/* A failure that some lines and the end of a rank show. The first row that matches counts, so
 * failures that usually follow from another failure are at the end. */
struct pattern {
    const char *texts[7]; /* a line contains one of them; empty: any lines */
    struct failure_cause cause;
    int signal, status; /* how the rank ended; here and below, 0 and false: any */
    enum job_mpi_fault mpi_fault;
    bool oom_killed, started;
};

#define GPU_PROCESSES "nvidia-smi shows the processes that use the GPU"
#define GPU_MEMORY                                                                            \
    {                                                                                         \
        "out of GPU memory",                                                                  \
            "a smaller batch, activation checkpointing or ZeRO: `drover estimate` says what " \
            "would fit; " GPU_PROCESSES                                                       \
    }

static const struct pattern patterns[] = {
    {.cause =
         {"host memory: the kernel killed the rank to free memory",
          "fewer data loader workers, smaller batches in host memory, or a higher memory limit"},
     .oom_killed = true},
    {.texts = {"CUDA out of memory. Tried to allocate", "HIP out of memory"}, .cause = GPU_MEMORY},
    {.texts = {"CUDA ran out of memory outside PyTorch's allocator"},
     .cause = {"out of GPU memory, used outside PyTorch",
               "leave room for NCCL and other libraries; " GPU_PROCESSES}},
    {.texts = {"cudaErrorMemoryAllocation", "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
               "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
               "CUBLAS_STATUS_NOT_INITIALIZED"},
     .cause = GPU_MEMORY},
    {.texts = {"insufficient shared memory (shm)", "failed to create shared memory file"},
     .cause = {"/dev/shm is too small", "in a container: --shm-size=8g or --ipc=host"}},
    {.texts = {"No space left on device"},
     .cause = {"a disk is full", "df -h on that node, also for /dev/shm and /tmp"}},
    {.texts = {"Disk quota exceeded"},
     .cause = {"the disk quota is exceeded", "quota -s; write to another file system"}},
    {.texts = {"Too many open files"},
     .cause = {"the limit of open files is reached", "ulimit -n 65536 before the start"}},
    {.texts = {"can't start new thread", "fork: retry: Resource temporarily unavailable"},
     .cause = {"the limit of threads and processes is reached",
               "raise ulimit -u and the container's pids.max, or use fewer data loader workers"}},
    {.texts = {"uncorrectable ECC error", "cudaErrorECCUncorrectable"},
     .cause = {"a GPU's memory is damaged",
               "take the node out of service; `nvidia-smi -q -d ECC` counts its errors"}},
    {.texts = {"NVLink error"},
     .cause = {"a link between GPUs failed",
               "take the node out of service; `nvidia-smi nvlink -e` counts its errors"}},
    {.texts = {"has fallen off the bus"},
     .cause = {"a GPU has disappeared from its bus",
               "take the node out of service; the GPU needs a reset or a repair"}},
    {.texts = {"unspecified launch failure", "cudaErrorLaunchFailure"},
     .cause = {"a GPU fault, in the hardware or in a kernel",
               "look for Xid lines in the kernel's log (dmesg)"}},
    {.texts = {"device-side assert triggered", "cudaErrorAssert"},
     .cause = {"a kernel found a bad index or value",
               "CUDA_LAUNCH_BLOCKING=1, which shows the line that called the kernel"}},
    {.texts = {"illegal memory access", "cudaErrorIllegalAddress"},
     .cause = {"a kernel read or wrote outside its memory",
               "CUDA_LAUNCH_BLOCKING=1, which shows the line, or compute-sanitizer, which shows "
               "the kernel"}},
    {.texts = {"misaligned address"},
     .cause = {"a kernel used a misaligned address",
               "CUDA_LAUNCH_BLOCKING=1, which shows the line, or compute-sanitizer, which shows "
               "the kernel"}},
    {.texts = {"CUDA driver version is insufficient for CUDA runtime version",
               "cudaErrorInsufficientDriver", "PTX was compiled with an unsupported toolchain"},
     .cause = {"the driver is older than the program's CUDA version",
               "a newer driver, or a build for an older CUDA"}},
    {.texts = {"unsupported display driver / cuda driver combination"},
     .cause =
         {"the driver's library and its kernel module have different versions",
          "reboot the node after a driver update, or mount the host's libcuda into the container"}},
    {.texts = {"libcuda.so.1: cannot open shared object file"},
     .cause = {"the NVIDIA driver is not visible",
               "in a container: --gpus all; otherwise install the driver on this node"}},
    {.texts = {"no kernel image is available for execution", "cudaErrorNoKernelImageForDevice"},
     .cause = {"the program was built for other GPUs", "rebuild it for this GPU's architecture"}},
    {.texts = {"system not yet initialized", "cudaErrorSystemNotReady"},
     .cause = {"the fabric manager of an NVSwitch machine is not running",
               "systemctl start nvidia-fabricmanager"}},
    {.texts = {"invalid device ordinal", "cudaErrorInvalidDevice"},
     .cause = {"a rank requested a GPU that it does not see",
               "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES and -np"}},
    {.texts = {"no CUDA-capable device is detected", "cudaErrorNoDevice",
               "Found no NVIDIA driver on your system"},
     .cause = {"no GPU is visible", "check CUDA_VISIBLE_DEVICES and the container's --gpus"}},
    {.texts = {"Torch not compiled with CUDA enabled"},
     .cause = {"this PyTorch is built without CUDA",
               "install the CUDA build of torch; check which Python environment the ranks use"}},
    {.texts = {"devices are busy or unavailable", "cudaErrorDevicesUnavailable"},
     .cause = {"the GPU is in use or in exclusive mode",
               "`nvidia-smi -q -d COMPUTE` shows the mode; " GPU_PROCESSES}},
    {.texts = {"Duplicate GPU detected"},
     .cause = {"two ranks use the same GPU",
               "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES"}},
    {.texts = {"no socket interface found"},
     .cause = {"NCCL_SOCKET_IFNAME does not name an interface that is up",
               "unset it, or choose an interface of `ip -br addr`"}},
    {.texts = {"Mismatched NCCL version detected"},
     .cause = {"nodes have different NCCL versions", "install the same NCCL on every node"}},
    {.texts = {"message truncated : receiving"},
     .cause = {"ranks disagree about a collective",
               "use the same sizes, NCCL_ALGO and NCCL_PROTO on every rank"}},
    {.texts = {"ncclInvalidUsage"},
     .cause = {"NCCL was called incorrectly, or by ranks that disagree",
               "NCCL_DEBUG=WARN, which shows the reason; often two ranks use the same GPU"}},
    {.texts = {"ncclUnhandledCudaError", "unhandled cuda error"},
     .cause = {"a CUDA call failed inside NCCL",
               "NCCL_DEBUG=INFO, which names it; often GPU memory, or a driver that is too old"}},
    {.texts = {"failed to listen on any local network address"},
     .cause = {"MASTER_PORT is in use", "omit --master-port: drover then holds a free port"}},
    {.texts = {"The client socket has timed out after",
               "The client socket has failed to connect to"},
     .cause = {"rank 0 did not answer at MASTER_ADDR:MASTER_PORT",
               "check that rank 0 runs, its address is reachable, and its port is open"}},
    {.texts = {"Gloo connectFullMesh failed"},
     .cause = {"gloo: ranks could not reach each other",
               "GLOO_SOCKET_IFNAME=NAME, the interface that all nodes share"}},
    {.texts = {"Expected to have finished reduction in the prior iteration"},
     .cause = {"DDP: parameters got no gradient",
               "find_unused_parameters=True, or the same path through the model on every rank"}},
    {.texts = {"is killed by signal"},
     .cause = {"a data loader worker was killed", "check host memory (dmesg) and /dev/shm"}},
    {.texts = {"error while loading shared libraries"},
     .cause = {"a shared library is missing",
               "-x LD_LIBRARY_PATH, which passes the search path to the ranks"},
     .status = 127},
    {.texts = {"' not found (required by"},
     .cause = {"the program needs a newer C or C++ library than this node has",
               "build it on the oldest node, or run it in a container"}},
    {.texts = {"undefined symbol:"},
     .cause = {"the versions of two libraries do not fit",
               "check LD_LIBRARY_PATH; reinstall what was built against another version"}},
    {.texts = {"wrong ELF class"},
     .cause = {"a library is for another kind of CPU", "check LD_LIBRARY_PATH"}},
    {.texts = {"Exec format error"},
     .cause = {"the program is for another kind of CPU, or a script without #!",
               "`file PROGRAM`, which shows its kind; begin a script with #! and an interpreter"}},
    {.texts = {"ModuleNotFoundError"},
     .cause = {"a Python module is missing", "check the virtual environment: `which python3`"}},
    {.texts = {"ImportError: cannot import name"},
     .cause = {"the versions of two Python packages do not fit",
               "`python3 -m pip check`, in the environment that the ranks use"}},
    {.texts = {"couldn't connect to 'https://huggingface.co'"},
     .cause = {"the node cannot reach the Hugging Face hub",
               "download the files first, then set HF_HUB_OFFLINE=1"}},
    {.texts = {"You are trying to access a gated repo"},
     .cause = {"the model needs a login", "-x HF_TOKEN; accept the model's terms on its page"}},
    {.texts = {"Default process group has not been initialized"},
     .cause = {"a collective was called before init_process_group()",
               "call torch.distributed.init_process_group() first"}},
    {.texts = {"getting local rank failed"},
     .cause = {"MPI_Init: this rank has already been in a job",
               "one MPI program per rank, not two in sequence in one script"}},
    {.texts = {"unsupported PMI version PMIx"},
     .cause = {"this MPICH uses PMI-1, which drover serves on one node only",
               "one node; or MPICH's own mpiexec, or an MPICH built with PMIx"}},
    {.texts = {"It looks like MPI_INIT failed"},
     .cause = {"MPI_Init failed",
               "see its reason above; use one MPI library for compiling and running"}},
    {.texts = {"There are not enough slots available in the system"},
     .cause = {"an mpirun that the rank started found no slots",
               "start the ranks with drover only, or set OMPI_MCA_rmaps_base_oversubscribe=1"}},
    {.cause = {"another rank waits for this one in MPI_Init",
               "call MPI_Init on every rank, or start fewer ranks (-np)"},
     .mpi_fault = JOB_MPI_NO_INIT},
    {.cause = {"a rank of MPI or PMIx exited early, and others may wait for it",
               "call MPI_Finalize on every path; _exit() and os._exit() skip exit handlers"},
     .mpi_fault = JOB_MPI_NO_FINALIZE},
    {.cause = {"a bus error: most often /dev/shm is too small",
               "in a container: --shm-size=8g or --ipc=host; otherwise df -h /dev/shm"},
     .signal = SIGBUS},
    {.cause = {"the program was built for a newer CPU", "rebuild it for this CPU"},
     .signal = SIGILL},
    {.texts = {"Illegal instruction"},
     .cause = {"the program was built for a newer CPU", "rebuild it for this CPU"}},
    {.cause = {"the limit of CPU time is reached", "raise ulimit -t"}, .signal = SIGXCPU},
    {.cause = {"the limit of file size is reached", "raise ulimit -f"}, .signal = SIGXFSZ},
    {.texts = {"Cannot allocate memory", "std::bad_alloc", "MemoryError"},
     .cause = {"out of host memory",
               "smaller batches, fewer workers, or higher limits (ulimit -v, the container's)"}},
    {.texts = {"Address already in use", "EADDRINUSE"},
     .cause = {"a port is in use", "ss -ltnp, which shows the other program; bind port 0, or "
                                   "MASTER_PORT, which drover holds for rank 0"}},
    {.texts = {"Permission denied"},
     .cause = {"access to a file or directory is denied", "check its owner and mode on this node"},
     .started = true},
    {.texts = {"Watchdog caught collective operation timeout", "Timed out waiting"},
     .cause = {"not all ranks joined a collective in time",
               "--hang-timeout, which shows what every rank waits in"}},
    {.texts = {"unhandled system error", "ncclSystemError"},
     .cause = {"a system call failed inside NCCL",
               "NCCL_DEBUG=INFO, which names it: network, memlock or /dev/shm"}},
    {.texts = {"ncclRemoteError", "remote process exited or there was a network error"},
     .cause = {"another process of the job ended first", "check the other ranks and nodes first"}},
    {.texts = {"Connection refused"},
     .cause =
         {"connection refused: no process listens at that address",
          "check that rank 0 runs and MASTER_ADDR is its address; check the other ranks first"}},
    {.texts = {"Connection closed by peer", "Connection reset by peer", "Broken pipe"},
     .cause = {"another process of the job ended first", "check the other ranks and nodes first"}},
};

static bool has_text(const struct rank_end *r, const char *const *lines, const char *text)
{
    for (; lines && *lines; lines++)
        if (strstr(*lines, text))
            return true;
    return r->start_status && strstr(r->start_error, text);
}

static bool matches(const struct pattern *p, const struct rank_end *r, const char *const *lines)
{
    if ((p->signal && r->signal != p->signal) || (p->status && r->status != p->status) ||
        (p->mpi_fault && r->mpi_fault != p->mpi_fault) || (p->oom_killed && !r->oom_killed) ||
        (p->started && r->start_status != 0))
        return false;
    for (size_t i = 0; p->texts[i]; i++)
        if (has_text(r, lines, p->texts[i]))
            return true;
    return !p->texts[0];
}

const struct failure_cause *failure_cause_find(const struct rank_end *r, const char *const *lines)
{
    for (size_t i = 0; i < COUNT_OF(patterns); i++)
        if (matches(&patterns[i], r, lines))
            return &patterns[i].cause;
    return NULL;
}

/* Returns true if a line names an exception: "ValueError: bad", "torch.cuda.SomeError",
 * "KeyboardInterrupt". */
static bool is_exception(const char *line)
{
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return name > 0 && (line[name] == '\0' || (line[name] == ':' && line[name + 1] == ' '));
}

const char *failure_cause_python_exception(const char *const *lines)
{
    const char *found = NULL;
    bool in_traceback = false; /* the lines of a traceback are indented */
    for (; lines && *lines; lines++) {
        const char *line = *lines;
        if (strncmp(line, "[rank", 5) == 0 && strstr(line, "]: ")) /* PyTorch's prefix */
            line = strstr(line, "]: ") + 3;
        if (strncmp(line, "Traceback (most recent call last):", 34) == 0) {
            in_traceback = true;
        } else if (in_traceback && line[0] != ' ' && line[0] != '\0') {
            in_traceback = false;
            found = is_exception(line) ? line : found;
        }
    }
    return found;
}

/* Returns the last line of `text`, and sets `*len` to its length without blanks at the end. */
static const char *last_line(const char *text, size_t *len)
{
    size_t end = strlen(text);
    while (end > 0 && isspace((unsigned char)text[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    *len = end - start;
    return text + start;
}

/* The file has one of two forms: {"message": {"message": M, "extraInfo": {"py_callstack": T}}} or
 * {"message": M}. */
char *failure_cause_error_file(const char *text)
{
    AUTO(json) json_t *file = NULL;
    if (json_parse(&file, text, strlen(text), NULL) < 0)
        return NULL;
    const json_t *outer = json_object_get(file, "message");
    const json_t *inner = json_is_object(outer) ? json_object_get(outer, "message") : outer;
    const char *message = json_string_value(inner);
    const char *traceback =
        json_string_value(json_object_get(json_object_get(outer, "extraInfo"), "py_callstack"));
    if (!message || !*message)
        return NULL;
    size_t len = 0, message_len = strcspn(message, "\n");
    const char *last = last_line(traceback ? traceback : "", &len);
    if (len == 0 || (len >= message_len && strncmp(last, message, message_len) == 0))
        return xasprintf("%.*s", (int)message_len, message);
    return xasprintf("%.*s (%.*s)", (int)message_len, message, (int)len, last);
}

/* Known handlers of core dumps, and how to find their dumps. For other handlers the text has only
 * their path. */
static const struct {
    const char *name, *hint;
} handlers[] = {
    {"systemd-coredump", "coredumpctl info %d"},
    {"apport", "see /var/crash and /var/lib/apport/coredump (process %d)"},
    {"abrt-hook-ccpp", "abrt list (process %d)"},
};

static char *core_handler(const char *command, int pid)
{
    AUTO(free) char *path = xstrndup(command, strcspn(command, " "));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        if (strcmp(name, handlers[i].name) != 0)
            continue;
        AUTO(free) char *hint = xasprintf(handlers[i].hint, pid);
        return xasprintf("handled by %s: %s", name, hint);
    }
    return xasprintf("handled by %s (process %d)", path, pid);
}

/* Appends the value of the field that the letter after '%' means, or '*' if the value is
 * unknown. */
static void add_core_field(struct strbuf *b, const struct failure_cause_core *c, char field)
{
    const char *slash = strrchr(c->program, '/');
    switch (field) {
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
        /* The kernel cuts the name after 15 characters */
        strbuf_printf(b, "%.15s", slash ? slash + 1 : c->program);
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
            add_core_field(&b, c, *p);
        }
    }
    if (c->uses_pid && !has_pid)
        strbuf_printf(&b, ".%d", c->pid);
    return strbuf_take(&b);
}
