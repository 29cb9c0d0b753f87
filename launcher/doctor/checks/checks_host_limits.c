/* Limits of this process, and what uses them up: shared memory, locked memory, files, threads, CPU
 * time, memory. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks_host.h"
#include "launcher/doctor/core/kernel_log.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/node/cgroup.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* ---- host.shm ------------------------------------------------------------------------------- */

static void run_shm(struct check_result *r, struct check_env *env)
{
    static const char source[] = "statvfs(/dev/shm)";
    AUTO(free) char *path = sysroot_path("/dev/shm");
    uint64_t needed = 64 * MIB * (uint64_t)checks_host_ranks(env);
    struct statvfs v;
    if (statvfs(path, &v) < 0)
        return check_bad(r, CHECK_FAIL, "a tmpfs", source, "%s", strerror(errno));
    uint64_t size = v.f_blocks * v.f_frsize, left = v.f_bavail * v.f_frsize;
    struct checks_host_size size_text = checks_host_size(size), left_text = checks_host_size(left);
    if (size == 0) /* a tmpfs without a limit */
        return check_ok(r, source, "no limit");
    if (left >= needed && size >= GIB)
        return check_ok(r, source, "%s free of %s", left_text.text, size_text.text);
    AUTO(free)
    char *want = left < needed
                     ? xasprintf("%s free (64 MiB per rank)", checks_host_size(needed).text)
                     : xstrdup("a size of 1 GiB or more");
    check_bad(r, left < needed ? CHECK_FAIL : CHECK_WARN, want, source, "%s free of %s",
              left_text.text, size_text.text);
    uint64_t gib = (needed + GIB - 1) / GIB;
    if (size >= GIB && size >= needed)
        check_advise(r, "files fill it: ls -l /dev/shm, and remove those of ended programs (see "
                        "host.shm_left)");
    else
        check_advise(r,
                     "in a container: docker run --shm-size=%" PRIu64 "g, or --ipc=host; else: "
                     "mount -o remount,size=%" PRIu64 "G /dev/shm",
                     gib, gib);
}

/* ---- host.shm_left -------------------------------------------------------------------------- */

/* Names of the initial namespaces of a machine. They never change (linux/proc_ns.h). */
static const char first_pids[] = "pid:[4026531836]", first_ipc[] = "ipc:[4026531839]";

/* Returns true if this process is in the namespace. */
static bool is_in(const char *file, const char *name)
{
    char link[64] = "";
    AUTO(free) char *path = sysroot_path("/proc/self/ns/%s", file);
    ssize_t n = readlink(path, link, sizeof link - 1);
    return n > 0 && strcmp(link, name) == 0;
}

/* A file of /dev/shm. */
struct segment {
    char *name; /* borrowed */
    uint64_t bytes;
    bool mapped;
};

struct segments {
    struct segment *all;
    size_t count;
    size_t hidden; /* of other users, whose processes this user may not look at */
};

static bool is_segment(const char *name)
{
    static const char *const prefixes[] = {"nccl-", "torch_", "psm3", "vader", NULL};
    return strv_begins(prefixes, name);
}

/* Marks the segments that a process maps. Returns false if its mappings cannot be read. */
static bool mark_mapped(struct segments *s, const char *pid)
{
    AUTO(free) char *path = sysroot_path("/proc/%s/maps", pid);
    AUTO(free) char *text = file_text(path);
    int error = errno;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        const char *base = strrchr(line, '/');
        for (size_t i = 0; base && i < s->count; i++)
            s->all[i].mapped |= strcmp(base + 1, s->all[i].name) == 0;
    }
    return text || error == ENOENT || error == ESRCH; /* it has exited */
}

/* Reads the size of each segment. One that is gone, or that is hidden, counts as mapped. */
static void read_sizes(struct segments *s, bool all_visible)
{
    for (size_t i = 0; i < s->count; i++) {
        struct stat st;
        AUTO(free) char *path = sysroot_path("/dev/shm/%s", s->all[i].name);
        bool exists = lstat(path, &st) == 0;
        bool hidden = exists && !s->all[i].mapped && !all_visible && st.st_uid != geteuid();
        s->hidden += hidden;
        s->all[i].mapped |= !exists || hidden;
        s->all[i].bytes = s->all[i].mapped ? 0 : (uint64_t)st.st_blocks * 512;
    }
}

static void judge_segments(struct check_result *r, const struct segments *s)
{
    enum { NAMES_MAX = 8 };
    AUTO(strbuf) struct strbuf names = {0};
    uint64_t bytes = 0;
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->all[i].mapped)
            continue;
        bytes += s->all[i].bytes;
        if (left++ < NAMES_MAX)
            strbuf_printf(&names, " /dev/shm/%s", s->all[i].name);
    }
    static const char source[] = "/dev/shm, /proc/*/maps";
    if (left == 0 && s->hidden > 0)
        return check_skip(r, "%zu file%s of other users, whose processes this user may not look at",
                          s->hidden, plural_s(s->hidden));
    if (left == 0)
        return check_ok(r, source, "none");
    check_bad(r, CHECK_WARN, "none", source, "%zu file%s that no process maps, %s", left,
              plural_s(left), checks_host_size(bytes).text);
    check_advise(r, "rm%s%s", strbuf_str(&names), left > NAMES_MAX ? " …" : "");
}

static void run_shm_left(struct check_result *r, struct check_env *env)
{
    if (!is_in("pid", first_pids) && is_in("ipc", first_ipc))
        return check_skip(r, "this container shares /dev/shm with processes that it cannot see");
    AUTO(strv) char **names = sysroot_list("/dev/shm");
    AUTO(strv) char **pids = sysroot_list("/proc");
    AUTO(free) struct segment *all = xcalloc(strv_len(names) + 1, sizeof *all);
    struct segments s = {.all = all};
    for (char **n = names; n && *n; n++)
        if (is_segment(*n))
            all[s.count++].name = *n;
    bool all_visible = true;
    for (char **pid = pids; s.count && pid && *pid; pid++)
        if (isdigit((unsigned char)**pid))
            all_visible &= mark_mapped(&s, *pid);
    read_sizes(&s, all_visible);
    judge_segments(r, &s);
}

/* ---- limits of setrlimit() ------------------------------------------------------------------ */

enum { CAP_IPC_LOCK = 14 };

/* Returns true if the limit of locked memory does not apply to this process. */
static bool may_lock_all(void)
{
    AUTO(free) char *status = sysroot_read("/proc/self/status");
    const char *line = status ? strstr(status, "CapEff:") : NULL;
    return line && strtoull(line + strlen("CapEff:"), NULL, 16) >> CAP_IPC_LOCK & 1;
}

static void run_memlock(struct check_result *r, struct check_env *env)
{
    static const char source[] = "getrlimit(RLIMIT_MEMLOCK)";
    AUTO(strv) char **devices = sysroot_list("/sys/class/infiniband");
    struct rlimit l;
    if (!devices)
        check_skip(r, "no RDMA device");
    else if (getrlimit(RLIMIT_MEMLOCK, &l) < 0)
        check_skip(r, "%s: %s", source, strerror(errno));
    else if (l.rlim_cur == RLIM_INFINITY)
        check_ok(r, source, "unlimited");
    else if (may_lock_all())
        check_ok(r, source, "%s, which does not apply to this process (CAP_IPC_LOCK)",
                 checks_host_size(l.rlim_cur).text);
    else
        check_bad(r, l.rlim_cur < GIB ? CHECK_FAIL : CHECK_WARN, "unlimited", source, "%s",
                  checks_host_size(l.rlim_cur).text);
}

static void run_nofile(struct check_result *r, struct check_env *env)
{
    static const char source[] = "getrlimit(RLIMIT_NOFILE)";
    enum { GOOD = 65536 };
    rlim_t needed = 1024 + 64 * (rlim_t)checks_host_ranks(env);
    rlim_t good = needed > GOOD ? needed : GOOD;
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return check_skip(r, "%s: %s", source, strerror(errno));
    if (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= good)
        return check_ok(r, source, "%lld", (long long)l.rlim_cur);
    AUTO(free)
    char *want = l.rlim_cur < needed
                     ? xasprintf("%lld or more (1024, and 64 per rank)", (long long)needed)
                     : xasprintf("%lld or more", (long long)good);
    check_bad(r, l.rlim_cur < needed ? CHECK_FAIL : CHECK_WARN, want, source, "%lld",
              (long long)l.rlim_cur);
    if (l.rlim_max >= good)
        check_advise(r, "ulimit -n %lld", (long long)good);
    else
        check_advise(r,
                     "add '* - nofile %lld' to limits.conf(5) and log in again; in a container: "
                     "docker run --ulimit nofile=%lld",
                     (long long)good, (long long)good);
}

/* ---- host.nproc ----------------------------------------------------------------------------- */

/* Returns the directories of this process's cgroups without the recorded root, as sysroot_read()
 * takes them. */
static char **groups(const char *controller)
{
    char **dirs = cgroup_dirs(sysroot(), controller);
    size_t root = strlen(sysroot());
    for (char **d = dirs; d && *d; d++)
        memmove(*d, *d + root, strlen(*d + root) + 1);
    return dirs;
}

static int affinity_cpus(void)
{
    cpu_set_t sets[8]; /* 8192 CPUs */
    return sched_getaffinity(0, sizeof sets, sets) < 0 ? 0 : CPU_COUNT_S(sizeof sets, sets);
}

/* Returns the CPUs whose time this process may use. */
static int usable_cpus(void)
{
    int cpus = affinity_cpus(), quota = cgroup_cpus(sysroot());
    return quota > 0 && quota < cpus ? quota : cpus;
}

static int omp_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : 0;
}

/* Returns how many more processes the cgroups allow; -1: no limit. */
static int64_t pids_left(void)
{
    AUTO(strv) char **dirs = groups("pids");
    long long max, current;
    int64_t left = -1;
    for (char **d = dirs; d && *d; d++) {
        if (!sysroot_number(&max, "%s/pids.max", *d))
            continue;
        if (!sysroot_number(&current, "%s/pids.current", *d))
            current = 0;
        int64_t n = max > current ? max - current : 0;
        left = left < 0 || n < left ? n : left;
    }
    return left;
}

static void run_nproc(struct check_result *r, struct check_env *env)
{
    int64_t ranks = checks_host_ranks(env), cpus = usable_cpus();
    int64_t threads = omp_threads() ? ranks * omp_threads() : cpus;
    int64_t needed = 4 * (threads > ranks ? threads : ranks), pids = pids_left();
    struct rlimit l;
    if (getrlimit(RLIMIT_NPROC, &l) < 0 || geteuid() == 0) /* root has no such limit */
        l.rlim_cur = RLIM_INFINITY;
    bool by_user = l.rlim_cur != RLIM_INFINITY && (pids < 0 || (int64_t)l.rlim_cur < pids);
    int64_t left = by_user ? (int64_t)l.rlim_cur : pids;
    const char *source = by_user ? "getrlimit(RLIMIT_NPROC)" : "pids.max of the cgroup";
    if (left < 0)
        return check_ok(r, source, "no limit");
    if (left >= needed)
        return check_ok(r, source, "%" PRId64, left);
    AUTO(free)
    char *want = xasprintf("%" PRId64 " or more (4 per thread of a rank)", needed);
    check_bad(r, CHECK_FAIL, want, source, "%" PRId64 "%s", left, by_user ? "" : " are left");
    if (by_user && (l.rlim_max == RLIM_INFINITY || (int64_t)l.rlim_max >= needed))
        check_advise(r, "ulimit -u %" PRId64, needed);
    else if (by_user)
        check_advise(r, "add '* - nproc %" PRId64 "' to limits.conf(5) and log in again", needed);
    else
        check_advise(r,
                     "docker run --pids-limit %" PRId64 "; systemd: TasksMax=; Kubernetes: "
                     "podPidsLimit",
                     2 * needed);
}

/* ---- host.cpus ------------------------------------------------------------------------------ */

/* Returns how often the kernel has stopped this process's cgroup to enforce its limit. */
static int64_t times_throttled(void)
{
    AUTO(strv) char **dirs = groups("cpu");
    AUTO(free) char *stat = dirs ? sysroot_read("%s/cpu.stat", dirs[0]) : NULL;
    int64_t n = 0;
    checks_host_field(&n, stat, "nr_throttled");
    return n;
}

static void run_cpus(struct check_result *r, struct check_env *env)
{
    int ranks = checks_host_ranks(env), mask = affinity_cpus(), quota = cgroup_cpus(sysroot());
    int cpus = usable_cpus(), threads = omp_threads();
    if (mask == 0)
        return check_skip(r, "sched_getaffinity: %s", strerror(errno));
    if (ranks > cpus) {
        AUTO(free) char *want = xasprintf("one per rank (%d)", ranks);
        check_bad(r, CHECK_FAIL, want,
                  cpus < mask ? "cpu.max of the cgroup" : "sched_getaffinity()", "%d", cpus);
        check_advise(r, "start at most %d rank%s, or give the job more CPUs%s", cpus,
                     plural_s(cpus), cpus < mask ? " (docker run --cpus)" : "");
        return;
    }
    if (cpus == mask || (threads && threads * ranks <= cpus))
        return check_ok(r, "sched_getaffinity(), cpu.max of the cgroup", "%d", cpus);
    int64_t throttled = times_throttled();
    AUTO(free)
    char *want = xasprintf("CPU time for the %d CPU%s that programs see", mask, plural_s(mask));
    check_bad(r, CHECK_WARN, want, "cpu.max and cpu.stat of the cgroup",
              "the time of %d, throttled %" PRId64 " time%s", quota, throttled,
              plural_s(throttled));
    check_advise(r, "export OMP_NUM_THREADS=%d", cpus / ranks);
}

/* ---- host.mem ------------------------------------------------------------------------------- */

struct left {
    int64_t bytes, limit; /* limit 0: the machine's */
    const char *source;
};

/* Reads the first of the two files that has a number: that of version 2, then that of version 1. */
static bool group_number(long long *out, const char *dir, const char *v2, const char *v1)
{
    return sysroot_number(out, "%s/%s", dir, v2) || sysroot_number(out, "%s/%s", dir, v1);
}

/* Returns the memory of a group that the kernel can free at once: pages of files. */
static int64_t reclaimable(const char *dir)
{
    AUTO(free) char *stat = sysroot_read("%s/memory.stat", dir);
    int64_t active = 0, inactive = 0;
    if (!checks_host_field(&active, stat, "total_active_file")) /* version 1 */
        checks_host_field(&active, stat, "active_file");
    if (!checks_host_field(&inactive, stat, "total_inactive_file"))
        checks_host_field(&inactive, stat, "inactive_file");
    return active + inactive;
}

static void take_smaller(struct left *l, const char *dir, long long limit, const char *source)
{
    long long used;
    if (limit <= 0 || limit >= INT64_MAX >> 1 || /* version 1: no limit */
        !group_number(&used, dir, "memory.current", "memory.usage_in_bytes"))
        return;
    used -= reclaimable(dir);
    int64_t bytes = used < limit ? limit - used : 0;
    if (bytes < l->bytes)
        *l = (struct left){bytes, limit, source};
}

static struct left memory_left(int64_t available)
{
    struct left l = {available, 0, "MemAvailable in /proc/meminfo"};
    AUTO(strv) char **dirs = groups("memory");
    long long n;
    for (char **d = dirs; d && *d; d++) {
        if (group_number(&n, *d, "memory.max", "memory.limit_in_bytes"))
            take_smaller(&l, *d, n, "memory.max of the cgroup");
        if (sysroot_number(&n, "%s/memory.high", *d))
            take_smaller(&l, *d, n, "memory.high of the cgroup");
    }
    return l;
}

static void run_mem(struct check_result *r, struct check_env *env)
{
    AUTO(free) char *info = sysroot_read("/proc/meminfo");
    int64_t available, total = 0, swap = 0, swap_free = 0;
    if (!checks_host_field(&available, info, "MemAvailable"))
        return check_skip(r, "no MemAvailable in /proc/meminfo");
    checks_host_field(&total, info, "MemTotal");
    checks_host_field(&swap, info, "SwapTotal");
    checks_host_field(&swap_free, info, "SwapFree");
    struct left l = memory_left(available << 10);
    uint64_t needed = GIB * (uint64_t)checks_host_ranks(env);
    AUTO(free)
    char *value =
        xasprintf("%s left of %s, %s of swap in use", checks_host_size((uint64_t)l.bytes).text,
                  checks_host_size(l.limit ? (uint64_t)l.limit : (uint64_t)total << 10).text,
                  checks_host_size((uint64_t)(swap - swap_free) << 10).text);
    if ((uint64_t)l.bytes >= needed)
        return check_ok(r, l.source, "%s", value);
    AUTO(free) char *want = xasprintf("%s left (1 GiB per rank)", checks_host_size(needed).text);
    check_bad(r, CHECK_FAIL, want, l.source, "%s", value);
    AUTO(free) char *biggest = checks_host_biggest("VmRSS");
    if (biggest)
        check_advise(r, "end processes or raise the limit; these hold most: %s", biggest);
}

/* ---- host.oom ------------------------------------------------------------------------------- */

struct kills {
    int count;
    double age_s;  /* of the last one */
    char name[32]; /* its process */
};

static void note_kill(void *arg, double age_s, const char *text)
{
    struct kills *k = arg;
    const char *killed = strstr(text, "Killed process "), *name = killed ? strchr(killed, '(') : 0;
    if (!name || !strcasestr(text, "out of memory") || age_s > 24 * 3600)
        return;
    k->count++;
    k->age_s = age_s;
    snprintf(k->name, sizeof k->name, "%.*s", (int)strcspn(name + 1, ")"), name + 1);
}

/* Returns the kills in this process's cgroup and those below it; -1: unknown. */
static int64_t kills_of_group(void)
{
    AUTO(free) char *dir = cgroup_dir(sysroot(), "memory");
    const char *at = dir ? dir + strlen(sysroot()) : "";
    AUTO(free) char *events = dir ? sysroot_read("%s/memory.events", at) : NULL;
    AUTO(free) char *control = dir ? sysroot_read("%s/memory.oom_control", at) : NULL;
    int64_t n;
    if (checks_host_field(&n, events, "oom_kill") || checks_host_field(&n, control, "oom_kill"))
        return n;
    return -1;
}

static void run_oom(struct check_result *r, struct check_env *env)
{
    struct kills k = {0};
    int rc = kernel_log_read(note_kill, &k);
    int64_t n = kills_of_group();
    if (k.count > 0)
        check_bad(r, CHECK_WARN, "none in 24 hours", "/dev/kmsg",
                  "%d, the last one of %s %.1f h ago", k.count, k.name, k.age_s / 3600);
    else if (rc < 0 && n > 0) /* the kernel counts without times */
        check_bad(r, CHECK_WARN, "none", "memory.events of the cgroup",
                  "%" PRId64 " in this cgroup since it exists", n);
    else if (rc < 0 && n < 0)
        check_skip(r, "/dev/kmsg: %s, and the cgroup does not count OOM kills", strerror(-rc));
    else
        check_ok(r, rc < 0 ? "memory.events of the cgroup" : "/dev/kmsg",
                 rc < 0 ? "none in this cgroup" : "none in 24 hours");
}

const struct check checks_host_limits[] = {
    {"host.shm", "space in /dev/shm", CHECK_REPORT, run_shm,
     .why = "NCCL, MPI and data loaders exchange data through files in /dev/shm. Without space "
            "there, ranks end with SIGBUS or \"unhandled system error\".",
     .advice = "in a container: docker run --shm-size=1g, or --ipc=host; else: mount -o "
               "remount,size=50% /dev/shm"},
    {"host.shm_left", "leftover segments in /dev/shm", CHECK_LONG, run_shm_left,
     .why = "A killed rank leaves its shared memory. The files take main memory until they are "
            "removed.",
     .advice = "remove the files"},
    {"host.memlock", "limit of locked memory", CHECK_REPORT, run_memlock,
     .why = "RDMA adapters access only locked memory. With a low limit, NCCL and MPI cannot "
            "register their buffers.",
     .advice =
         "add '* - memlock unlimited' to limits.conf(5) and log in again; in a container: docker "
         "run --ulimit memlock=-1; sshd and slurmd keep their own limits (LimitMEMLOCK=infinity)"},
    {"host.nofile", "limit of open files", CHECK_QUICK, run_nofile,
     .why = "Connections, data files and shared memory each take a descriptor. A rank that may "
            "open no more fails late, with \"Too many open files\".",
     .advice = "ulimit -n 65536; in a container: docker run --ulimit nofile=65536"},
    {"host.nproc", "limit of processes and threads", CHECK_REPORT, run_nproc,
     .why = "Each thread counts. A rank that may start no thread aborts in OpenMP, NCCL or a data "
            "loader.",
     .advice = "ulimit -u unlimited; in a container: docker run --pids-limit -1"},
    {"host.cpus", "usable CPUs", CHECK_QUICK, run_cpus,
     .why =
         "A container's limit of CPU time does not change the number of CPUs that programs see. "
         "They start a thread per CPU, and the kernel then stops all of them for most of the time.",
     .advice = "start fewer ranks, or raise the limit of CPU time (docker run --cpus)"},
    {"host.mem", "memory that is left", CHECK_REPORT, run_mem,
     .why = "At the limit the kernel kills a process of the group with SIGKILL.",
     .advice = "end processes that hold memory, or raise the limit (docker run --memory)"},
    {"host.oom", "earlier OOM kills", CHECK_LONG, run_oom,
     .why = "The kernel has killed a process to free memory. The same job is likely to be killed "
            "again.",
     .advice = "use fewer workers per data loader, or raise the memory limit"},
    {0},
};
