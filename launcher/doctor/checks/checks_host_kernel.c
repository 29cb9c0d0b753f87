/* What the kernel says: its clock, its processes, its settings. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks_host.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/pci_devices.h"

/* ---- host.clock ----------------------------------------------------------------------------- */

static void run_clock(struct check_result *r, struct check_env *env)
{
    struct timex t = {0}; /* `modes` is 0, so it only reads */
    int state = adjtimex(&t);
    if (state < 0)
        check_skip(r, "adjtimex: %s", strerror(errno));
    else if (state == TIME_ERROR || t.status & STA_UNSYNC)
        check_bad(r, CHECK_WARN, "synchronised", "adjtimex()", "not synchronised");
    else
        check_ok(r, "adjtimex()", "synchronised, error at most %ld ms", t.maxerror / 1000);
}

/* ---- host.dstate ---------------------------------------------------------------------------- */

enum { KERNEL_THREAD = 0x00200000, STUCK_MS = 5000 };

/* Returns true if a process of user space is in state D. */
static bool waits_in_kernel(const char *pid)
{
    AUTO(free) char *stat = sysroot_read("/proc/%s/stat", pid);
    const char *rest = stat ? strrchr(stat, ')') : NULL;
    char state;
    unsigned flags;
    return rest && sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
           state == 'D' && !(flags & KERNEL_THREAD);
}

/* Sets `*ms` to the time at which a process ran last, on a clock that is the same for all. */
static bool last_run(double *ms, const char *pid)
{
    AUTO(free) char *sched = sysroot_read("/proc/%s/sched", pid);
    const char *at = sched ? strstr(sched, "se.exec_start") : NULL;
    return at && (at = strchr(at, ':')) && sscanf(at + 1, "%lf", ms) == 1;
}

static bool holds_gpu(const char *pid)
{
    AUTO(strv) char **fds = sysroot_list("/proc/%s/fd", pid);
    for (char **fd = fds; fd && *fd; fd++) {
        char file[32] = "";
        AUTO(free) char *path = sysroot_path("/proc/%s/fd/%s", pid, *fd);
        if (readlink(path, file, sizeof file - 1) > 0 && strncmp(file, "/dev/nvidia", 11) == 0)
            return true;
    }
    return false;
}

/* A process in state D that has not run for some seconds. */
struct waiter {
    const char *pid; /* borrowed */
    double last_ms;
};

enum { WAITERS_MAX = 64 };

struct waiters {
    struct waiter all[WAITERS_MAX];
    size_t count;
    bool unknown; /* a process is in state D, and the kernel does not say since when */
};

static void find_waiters(struct waiters *w, char *const *pids, double now_ms)
{
    for (; pids && *pids && w->count < WAITERS_MAX; pids++) {
        double last;
        if (!isdigit((unsigned char)**pids) || !waits_in_kernel(*pids))
            continue;
        if (now_ms < 0 || !last_run(&last, *pids))
            w->unknown = true;
        else if (now_ms - last >= STUCK_MS)
            w->all[w->count++] = (struct waiter){*pids, last};
    }
}

/* Returns true if the process has not run since it was found. The clocks of the CPUs may differ, so
 * that the time alone proves nothing; a process that waits for a disk runs many times a second. */
static bool still_waits(const struct waiter *w)
{
    double last;
    return waits_in_kernel(w->pid) && last_run(&last, w->pid) && last <= w->last_ms;
}

/* Appends "train (pid 55) for 6 s in os_acquire_mutex". Returns true if it has opened a GPU. */
static bool describe(struct strbuf *b, const struct waiter *w, double now_ms)
{
    AUTO(free) char *name = sysroot_read("/proc/%s/comm", w->pid);
    AUTO(free) char *where = sysroot_read("/proc/%s/wchan", w->pid);
    bool gpu = holds_gpu(w->pid);
    strbuf_printf(b, "%s%s (pid %s) for %.0f s", b->len ? ", " : "", name ? name : "?", w->pid,
                  (now_ms - w->last_ms) / 1000);
    if (where && *where && strcmp(where, "0") != 0)
        strbuf_printf(b, " in %s", where);
    if (gpu)
        strbuf_puts(b, " with a GPU");
    return gpu;
}

static void run_dstate(struct check_result *r, struct check_env *env)
{
    enum { LOOK_AGAIN_MS = 300 };
    static const char source[] = "/proc/*/{stat,sched,wchan}";
    AUTO(strv) char **pids = sysroot_list("/proc");
    AUTO(strbuf) struct strbuf text = {0};
    struct waiters w = {0};
    double now_ms;
    bool gpu = false;
    if (!last_run(&now_ms, "self"))
        now_ms = -1;
    find_waiters(&w, pids, now_ms);
    if (w.count > 0)
        poll(NULL, 0, LOOK_AGAIN_MS);
    for (size_t i = 0; i < w.count; i++)
        if (still_waits(&w.all[i]))
            gpu |= describe(&text, &w.all[i], now_ms);
    if (text.len)
        check_bad(r, gpu ? CHECK_FAIL : CHECK_WARN, "none", source, "%s", strbuf_str(&text));
    else if (w.unknown)
        check_skip(r, "the kernel has no /proc/PID/sched");
    else
        check_ok(r, source, "none");
    if (gpu)
        check_advise(r, "restart the machine; the GPU driver does not return from this function");
    else if (text.len)
        check_advise(r, "see if the disk or the server that it waits for is in order; if it does "
                        "not come back, restart the machine");
}

/* ---- host.thp ------------------------------------------------------------------------------- */

/* Returns the chosen word of "always [madvise] never". */
static char *chosen(const char *text)
{
    const char *begin = text ? strchr(text, '[') : NULL;
    return begin ? xstrndup(begin + 1, strcspn(begin + 1, "]")) : xstrdup("unknown");
}

static void run_thp(struct check_result *r, struct check_env *env)
{
    enum { SWAP_KIB_MAX = 1 << 20 };
    static const char source[] = "/proc/meminfo";
    AUTO(free) char *info = sysroot_read("/proc/meminfo");
    AUTO(free) char *modes = sysroot_read("/sys/kernel/mm/transparent_hugepage/enabled");
    AUTO(free) char *mode = chosen(modes);
    AUTO(free) char *swappiness = sysroot_read("/proc/sys/vm/swappiness");
    int64_t total, left;
    if (!checks_host_field(&total, info, "SwapTotal") ||
        !checks_host_field(&left, info, "SwapFree"))
        return check_skip(r, "no SwapTotal in %s", source);
    AUTO(free)
    char *value = xasprintf("%s of swap in use (transparent huge pages: %s, swappiness: %s)",
                            checks_host_size((uint64_t)(total - left) << 10).text, mode,
                            swappiness ? swappiness : "unknown");
    if (total - left <= SWAP_KIB_MAX)
        return check_ok(r, source, "%s", value);
    check_bad(r, CHECK_WARN, "1 GiB or less", source, "%s", value);
    AUTO(free) char *biggest = checks_host_biggest("VmSwap");
    if (biggest)
        check_advise(r, "end the processes that swap most: %s; then: swapoff -a && swapon -a",
                     biggest);
}

/* ---- host.governor -------------------------------------------------------------------------- */

#define CPUFREQ "/sys/devices/system/cpu/cpufreq"

static bool has_battery(void)
{
    AUTO(strv) char **supplies = sysroot_list("/sys/class/power_supply");
    for (char **s = supplies; s && *s; s++) {
        AUTO(free) char *type = sysroot_read("/sys/class/power_supply/%s/type", *s);
        AUTO(free) char *scope = sysroot_read("/sys/class/power_supply/%s/scope", *s);
        if (type && strcmp(type, "Battery") == 0 && !(scope && strcmp(scope, "Device") == 0))
            return true;
    }
    return false;
}

/* Returns true if the CPUs of a policy stay slow under load. The drivers that let the hardware
 * choose call their normal mode "powersave"; there, the preference decides. */
static bool saves_power(const char *policy, const char *governor)
{
    AUTO(free) char *driver = sysroot_read(CPUFREQ "/%s/scaling_driver", policy);
    AUTO(free)
    char *preference = sysroot_read(CPUFREQ "/%s/energy_performance_preference", policy);
    if (strcmp(governor, "powersave") != 0)
        return false;
    bool by_hardware =
        driver && (strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0);
    return !by_hardware || (preference && strcmp(preference, "power") == 0);
}

static void run_governor(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **policies = sysroot_list(CPUFREQ);
    int slow = 0, lowered = 0, count = 0;
    long long max, top, lowest_khz = 0, top_khz = 0;
    AUTO(free) char *governor = NULL;
    for (char **p = policies; p && *p; p++) {
        AUTO(free) char *name = sysroot_read(CPUFREQ "/%s/scaling_governor", *p);
        if (!name)
            continue;
        count++;
        slow += saves_power(*p, name);
        if (sysroot_number(&max, CPUFREQ "/%s/scaling_max_freq", *p) &&
            sysroot_number(&top, CPUFREQ "/%s/cpuinfo_max_freq", *p) && max < top - top / 100) {
            lowered++;
            lowest_khz = lowest_khz && lowest_khz < max ? lowest_khz : max;
            top_khz = top;
        }
        free(governor);
        governor = TAKE(name);
    }
    if (count == 0)
        check_skip(r, "the kernel does not control the frequency (no cpufreq)");
    else if (has_battery())
        check_skip(r, "a machine with a battery");
    else if (slow)
        check_bad(r, CHECK_WARN, "performance", CPUFREQ, "powersave for %d of %d polic%s", slow,
                  count, count == 1 ? "y" : "ies");
    else if (lowered)
        check_bad(r, CHECK_WARN, "the maximum of the hardware", CPUFREQ,
                  "%d of %d polic%s limited to %lld MHz of %lld MHz", lowered, count,
                  count == 1 ? "y is" : "ies are", lowest_khz / 1000, top_khz / 1000);
    else
        check_ok(r, CPUFREQ, "%s", governor);
    if (count && !slow && lowered && r->state == CHECK_WARN)
        check_advise(r, "cpupower frequency-set --max %lldMHz", top_khz / 1000);
}

/* ---- host.numa_bal -------------------------------------------------------------------------- */

static int numa_nodes(void)
{
    AUTO(strv) char **names = sysroot_list("/sys/devices/system/node");
    int n = 0;
    for (char **name = names; name && *name; name++)
        n += strncmp(*name, "node", 4) == 0 && isdigit((unsigned char)(*name)[4]);
    return n;
}

static void run_numa_bal(struct check_result *r, struct check_env *env)
{
    static const char source[] = "/proc/sys/kernel/numa_balancing";
    AUTO(strv) char **gpus = pci_devices_gpus();
    long long mode;
    if (!sysroot_number(&mode, "%s", source))
        check_skip(r, "the kernel has no %s", source);
    else if (mode & 1 && numa_nodes() > 1 && gpus)
        check_bad(r, CHECK_WARN, "0", source, "%lld", mode);
    else
        check_ok(r, source, "%lld", mode);
}

const struct check checks_host_kernel[] = {
    {"host.clock", "synchronised clock", CHECK_LONG, run_clock,
     .why = "Nodes with different times cannot authenticate each other (munge), and their logs "
            "cannot be compared.",
     .advice = "start a time service: systemctl enable --now chronyd"},
    {"host.dstate", "processes that cannot be killed", CHECK_LONG, run_dstate,
     .why = "A process in state D waits in the kernel. If it waits in the GPU driver, the GPU "
            "stays unusable until the machine restarts.",
     .advice = "restart the machine"},
    {"host.thp", "swap in use", CHECK_LONG, run_thp,
     .why = "A process whose memory was swapped out runs up to a thousand times slower, and all "
            "ranks wait for the slowest one.",
     .advice = "end the process that swaps most, or: swapoff -a"},
    {"host.governor", "CPU frequency", CHECK_LONG, run_governor,
     .why = "Slow CPUs start kernels and load data late, and the GPUs wait.",
     .advice = "cpupower frequency-set -g performance"},
    {"host.numa_bal", "automatic NUMA balancing", CHECK_LONG, run_numa_bal,
     .why = "The kernel unmaps pages of a process to learn which node uses them. This stalls "
            "transfers between main memory and GPUs.",
     .advice = "sysctl -w kernel.numa_balancing=0"},
    {0},
};
