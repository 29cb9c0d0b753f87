#include <ctype.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/checks/checks_host_internal.h"
#include "launcher/doctor/core/sysroot.h"

static const struct check rows[] = {
    {.id = "host.shm",
     .what = "space in /dev/shm",
     .quick = true,
     .preflight = CHECK_PREFLIGHT_REPORT,
     .run = checks_host_shm,
     .why = "NCCL, MPI and data loaders exchange data through files in /dev/shm. Without space "
            "there, ranks end with SIGBUS or \"unhandled system error\".",
     .advice = "in a container: docker run --shm-size=1g, or --ipc=host; else: mount -o "
               "remount,size=50% /dev/shm"},
    {.id = "host.shm_left",
     .what = "leftover segments in /dev/shm",
     .run = checks_host_shm_left,
     .why = "A killed rank leaves its shared memory. The files take main memory until they are "
            "removed.",
     .advice = "remove the files"},
    {.id = "host.memlock",
     .what = "limit of locked memory",
     .quick = true,
     .preflight = CHECK_PREFLIGHT_REPORT,
     .run = checks_host_memlock,
     .why = "RDMA adapters access only locked memory. With a low limit, NCCL and MPI cannot "
            "register their buffers.",
     .advice =
         "add '* - memlock unlimited' to limits.conf(5) and log in again; in a container: docker "
         "run --ulimit memlock=-1; sshd and slurmd keep their own limits (LimitMEMLOCK=infinity)"},
    {.id = "host.nofile",
     .what = "limit of open files",
     .quick = true,
     .run = checks_host_nofile,
     .why = "Connections, data files and shared memory each take a descriptor. A rank that may "
            "open no more fails late, with \"Too many open files\".",
     .advice = "ulimit -n 65536; in a container: docker run --ulimit nofile=65536"},
    {.id = "host.nproc",
     .what = "limit of processes and threads",
     .quick = true,
     .preflight = CHECK_PREFLIGHT_REPORT,
     .run = checks_host_nproc,
     .why = "Each thread counts. A rank that may start no thread aborts in OpenMP, NCCL or a data "
            "loader.",
     .advice = "ulimit -u unlimited; in a container: docker run --pids-limit -1"},
    {.id = "host.cpus",
     .what = "usable CPUs",
     .quick = true,
     .run = checks_host_cpus,
     .why =
         "A container's limit of CPU time does not change the number of CPUs that programs see. "
         "They start a thread per CPU, and the kernel then stops all of them for most of the time.",
     .advice = "start fewer ranks, or raise the limit of CPU time (docker run --cpus)"},
    {.id = "host.mem",
     .what = "memory that is left",
     .quick = true,
     .preflight = CHECK_PREFLIGHT_REPORT,
     .run = checks_host_mem,
     .why = "At the limit the kernel kills a process of the group with SIGKILL.",
     .advice = "end processes that hold memory, or raise the limit (docker run --memory)"},
    {.id = "host.oom",
     .what = "earlier OOM kills",
     .run = checks_host_oom,
     .why = "The kernel has killed a process to free memory. The same job is likely to be killed "
            "again.",
     .advice = "use fewer workers per data loader, or raise the memory limit"},
    {.id = "host.disk",
     .what = "space for trials, checkpoints and temporary files",
     .quick = true,
     .preflight = CHECK_PREFLIGHT_REPORT,
     .run = checks_host_disk,
     .why = "A full disk ends a job in the middle of a checkpoint. Many small files use up inodes "
            "before blocks.",
     .advice = "remove files, or choose another directory (TMPDIR for temporary files)"},
    {.id = "host.fs",
     .what = "kind of the file systems that are written",
     .quick = true,
     .run = checks_host_fs,
     .why = "Nothing can be written to a read-only file system, and no program starts from one "
            "with the option noexec. A sweep's store on a network file system is slow.",
     .advice = "choose a directory on a local disk that this user may write to (--dir)"},
    {.id = "host.nfs_hang",
     .what = "network file systems that do not answer",
     .run = checks_host_nfs_hang,
     .why = "A process that touches a file system without a server waits in the kernel and cannot "
            "be killed.",
     .advice = "bring its server back, or: umount -l DIRECTORY"},
    {.id = "host.clock",
     .what = "synchronised clock",
     .run = checks_host_clock,
     .why = "Nodes with different times cannot authenticate each other (munge), and their logs "
            "cannot be compared.",
     .advice = "start a time service: systemctl enable --now chronyd"},
    {.id = "host.dstate",
     .what = "processes that cannot be killed",
     .run = checks_host_dstate,
     .why = "A process in state D waits in the kernel. If it waits in the GPU driver, the GPU "
            "stays unusable until the machine restarts.",
     .advice = "restart the machine"},
    {.id = "host.thp",
     .what = "swap in use",
     .run = checks_host_thp,
     .why = "A process whose memory was swapped out runs up to a thousand times slower, and all "
            "ranks wait for the slowest one.",
     .advice = "end the process that swaps most, or: swapoff -a"},
    {.id = "host.governor",
     .what = "CPU frequency",
     .run = checks_host_governor,
     .why = "Slow CPUs start kernels and load data late, and the GPUs wait.",
     .advice = "cpupower frequency-set -g performance"},
    {.id = "host.numa_bal",
     .what = "automatic NUMA balancing",
     .run = checks_host_numa_bal,
     .why = "The kernel unmaps pages of a process to learn which node uses them. This stalls "
            "transfers between main memory and GPUs.",
     .advice = "sysctl -w kernel.numa_balancing=0"},
};

const struct check *checks_host(size_t *count)
{
    *count = COUNT_OF(rows);
    return rows;
}

int checks_host_ranks(const struct check_env *env)
{
    int gpus = env->topo ? topo_gpu_count(env->topo) : 0;
    if (env->ranks > 0)
        return env->ranks;
    return gpus > 0 ? gpus : 1;
}

bool checks_host_field(int64_t *out, const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        const char *number = line + len + strspn(line + len, ": \t");
        if (number > line + len && isdigit((unsigned char)*number)) {
            *out = strtoll(number, NULL, 10);
            return true;
        }
    }
    return false;
}

struct checks_host_size checks_host_size(uint64_t bytes)
{
    struct checks_host_size s;
    byte_size_format(s.text, sizeof s.text, bytes);
    return s;
}

/* ---- the biggest processes ------------------------------------------------------------------ */

enum { BIGGEST = 3 };

struct process {
    int64_t kib;
    char name[32];
    char pid[16];
};

/* Inserts `p` into the list, which is sorted by size; the smallest one drops out. */
static void insert(struct process list[BIGGEST], struct process p)
{
    for (int i = 0; i < BIGGEST; i++)
        if (p.kib > list[i].kib) {
            struct process smaller = list[i];
            list[i] = p;
            p = smaller;
        }
}

char *checks_host_biggest(const char *key)
{
    struct process list[BIGGEST] = {0};
    AUTO(strv) char **names = sysroot_list("/proc");
    for (char **pid = names; pid && *pid; pid++) {
        struct process p = {0};
        AUTO(free)
        char *status = isdigit((unsigned char)**pid) ? sysroot_read("/proc/%s/status", *pid) : NULL;
        if (!checks_host_field(&p.kib, status, key) ||
            sscanf(status, "Name:\t%31[^\n]", p.name) != 1)
            continue;
        snprintf(p.pid, sizeof p.pid, "%s", *pid);
        insert(list, p);
    }
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < BIGGEST && list[i].kib > 0; i++)
        strbuf_printf(&b, "%s%s (pid %s) %s", i ? ", " : "", list[i].name, list[i].pid,
                      checks_host_size((uint64_t)list[i].kib << 10).text);
    return b.len ? strbuf_take(&b) : NULL;
}
