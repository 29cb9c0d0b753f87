#include "launcher/cause.h"

#include <signal.h>
#include <string.h>

#define WHO_ELSE "see who else is on the GPU (nvidia-smi), and `drover estimate`"

/* A row fits when a line has the text, or when there is no text and the fact holds. The first row
 * that fits counts: what comes after another failure stands last. */
struct row {
    const char *text;
    bool (*fact)(const struct rank_end *r); /* with a text: must hold too; NULL: always */
    struct cause cause;
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

static const struct row rows[] = {
    {NULL,
     out_of_memory,
     {"host memory: the kernel ended the rank to free some",
      "fewer data loader workers, smaller batches in host memory, or a higher memory limit"}},
    {"CUDA out of memory. Tried to allocate",
     NULL,
     {"GPU memory", "a smaller batch, activation checkpointing or ZeRO; " WHO_ELSE}},
    {"CUDA ran out of memory outside PyTorch's allocator",
     NULL,
     {"GPU memory, taken outside PyTorch", "leave room for NCCL and libraries; " WHO_ELSE}},
    {"insufficient shared memory (shm)",
     NULL,
     {"/dev/shm is too small", "in a container: --shm-size=8g or --ipc=host"}},
    {"failed to create shared memory file",
     NULL,
     {"/dev/shm is too small", "in a container: --shm-size=8g or --ipc=host"}},
    {"No space left on device", NULL, {"a disk is full", "df -h there, and /dev/shm and /tmp too"}},
    {"Too many open files", NULL, {"the limit of open files", "ulimit -n 65536 before the start"}},
    {"uncorrectable ECC error",
     NULL,
     {"a GPU's memory is damaged", "take the node out and run `drover doctor` on it"}},
    {"unspecified launch failure",
     NULL,
     {"a GPU fault, of the hardware or of a kernel",
      "look for Xid lines in the kernel's log (dmesg); `drover doctor`"}},
    {"device-side assert triggered",
     NULL,
     {"a kernel found a bad index or value",
      "CUDA_LAUNCH_BLOCKING=1 shows the line that called it"}},
    {"illegal memory access",
     NULL,
     {"a kernel read or wrote outside its memory",
      "CUDA_LAUNCH_BLOCKING=1 shows the line; compute-sanitizer shows the kernel"}},
    {"CUDA driver version is insufficient for CUDA runtime version",
     NULL,
     {"the driver is older than the CUDA that the program was built with",
      "a newer driver, or a build for an older CUDA"}},
    {"no kernel image is available for execution",
     NULL,
     {"the program was built for other GPUs", "rebuild for this GPU's architecture"}},
    {"system not yet initialized",
     NULL,
     {"the fabric manager of an NVSwitch machine is not running",
      "systemctl start nvidia-fabricmanager"}},
    {"invalid device ordinal",
     NULL,
     {"a rank asked for a GPU that it does not see",
      "use LOCAL_RANK as the device; check CUDA_VISIBLE_DEVICES and -np"}},
    {"no CUDA-capable device is detected",
     NULL,
     {"no GPU can be seen", "check CUDA_VISIBLE_DEVICES and the container's --gpus"}},
    {"devices are busy or unavailable",
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
    {"failed to listen on any local network address",
     NULL,
     {"MASTER_PORT is taken",
      "leave the port to drover: without --master-port it holds a free one"}},
    {"The client socket has timed out after",
     NULL,
     {"the rendezvous was not answered", "is rank 0 up, its address reachable, its port open?"}},
    {"is killed by signal",
     NULL,
     {"a data loader worker was killed", "look for host memory (dmesg) and for /dev/shm"}},
    {"error while loading shared libraries",
     not_found,
     {"a shared library is missing", "pass it on: -x LD_LIBRARY_PATH"}},
    {"ModuleNotFoundError",
     NULL,
     {"a Python module is missing", "is this the right virtual environment? `which python3`"}},
    {NULL,
     bus_error,
     {"a bus error: most often /dev/shm is too small",
      "in a container: --shm-size=8g or --ipc=host; else df -h /dev/shm"}},
    {NULL,
     illegal_instruction,
     {"the program was built for a newer CPU", "rebuild it for this one"}},
    {"Watchdog caught collective operation timeout",
     NULL,
     {"a collective was not joined by all ranks in time",
      "look at what the other ranks were doing"}},
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
};

static bool any_has(const char *const *lines, const char *text)
{
    for (; lines && *lines; lines++)
        if (strstr(*lines, text))
            return true;
    return false;
}

const struct cause *cause_find(const struct rank_end *r, const char *const *lines)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((!rows[i].fact || rows[i].fact(r)) && (!rows[i].text || any_has(lines, rows[i].text)))
            return &rows[i].cause;
    return NULL;
}
