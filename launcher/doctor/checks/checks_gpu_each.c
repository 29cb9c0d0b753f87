#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "launcher/doctor/checks/checks_gpu_internal.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/cuda_archs.h"
#include "launcher/doctor/facts/gpu_findings.h"
#include "launcher/doctor/facts/pci_devices.h"
#include "launcher/doctor/facts/program_libs.h"

/* ---- health --------------------------------------------------------------------------------- */

/* A check of each GPU alone: adds what is wrong with g[i], and counts it in `known`. */
typedef void gpu_fn(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                    int i, int count);

static void run_each(struct check_result *r, struct check_env *env, gpu_fn *fn, const char *want,
                     enum gpu_fact source, const char *ok)
{
    int count;
    const struct gpu_sample *g = gpu_findings_facts(r, env, &count);
    AUTO(gpu_findings) struct gpu_findings f = {0};
    for (int i = 0; g && i < count; i++)
        fn(&f, env, g, i, count);
    if (g)
        gpu_findings_report(r, &f, want, gpu_rows[source].function, ok);
}

static bool same_model(const struct gpu_sample *a, const struct gpu_sample *b)
{
    return strcmp(a->gpu.name, b->gpu.name) == 0;
}

static void ecc(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                int i, int count)
{
    (void)env;
    long long now = 0, ever = 0, on = 0, other;
    bool known_mode = gpu_health_get(&on, &g[i], GPU_FACT_ECC_MODE);
    f->known += gpu_health_get(&now, &g[i], GPU_FACT_ECC_VOLATILE) || known_mode;
    if (now > 0)
        gpu_findings_add(f, CHECK_FAIL, i, "%lld uncorrected errors since the last reset", now);
    else if (gpu_health_get(&ever, &g[i], GPU_FACT_ECC_AGGREGATE) && ever > 0)
        gpu_findings_add(f, CHECK_WARN, i, "%lld uncorrected errors in its life", ever);
    for (int k = 0; known_mode && !on && k < count; k++)
        if (same_model(&g[k], &g[i]) && gpu_health_get(&other, &g[k], GPU_FACT_ECC_MODE) && other)
            return gpu_findings_add(f, CHECK_WARN, i, "ECC is off, and on for GPU %d", k);
}

void checks_gpu_ecc(struct check_result *r, struct check_env *env)
{
    run_each(r, env, ecc, "no uncorrected error", GPU_FACT_ECC_VOLATILE, "no uncorrected error");
}

static void remap(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                  int i, int count)
{
    (void)env;
    (void)count;
    long long pending, failed;
    if (!gpu_health_get(&pending, &g[i], GPU_FACT_REMAP_PENDING) ||
        !gpu_health_get(&failed, &g[i], GPU_FACT_REMAP_FAILED))
        return;
    f->known++;
    if (failed)
        gpu_findings_add(f, CHECK_FAIL, i, "a row of memory could not be remapped");
    else if (pending)
        gpu_findings_add(f, CHECK_FAIL, i, "the remapping of a row is pending");
}

void checks_gpu_remap(struct check_result *r, struct check_env *env)
{
    run_each(r, env, remap, "no pending and no failed remapping", GPU_FACT_REMAP_PENDING,
             "none pending or failed");
}

enum { NEAR_SLOWDOWN = 3 }; /* degrees */

static void temp(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                 int i, int count)
{
    (void)env;
    (void)count;
    long long now = 0, limit, margin, slowdown;
    bool known = gpu_health_get(&now, &g[i], GPU_FACT_TEMPERATURE);
    long long left;
    if (known && gpu_health_get(&limit, &g[i], GPU_FACT_SLOWDOWN))
        left = (long long)limit - (long long)now;
    else if (gpu_health_get(&margin, &g[i], GPU_FACT_MARGIN) &&
             gpu_health_get(&slowdown, &g[i], GPU_FACT_SLOWDOWN_TLIMIT))
        left = (long long)margin - (long long)slowdown;
    else
        return;
    f->known++;
    if (left <= NEAR_SLOWDOWN)
        gpu_findings_add(f, CHECK_FAIL, i, "%lld degrees Celsius, slowdown at %lld", now,
                         (long long)now + left);
}

void checks_gpu_temp(struct check_result *r, struct check_env *env)
{
    run_each(r, env, temp, "more than 3 degrees below slowdown", GPU_FACT_TEMPERATURE,
             "below slowdown");
}

static void slow(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                 int i, int count)
{
    (void)env;
    (void)count;
    static const struct {
        unsigned bit;
        enum check_state state;
        const char *text;
    } reasons[] = {
        {NVML_REASON_HW_THERMAL, CHECK_FAIL, "hardware slowdown: temperature"},
        {NVML_REASON_POWER_BRAKE, CHECK_FAIL, "hardware slowdown: power brake"},
        {NVML_REASON_HW_SLOWDOWN, CHECK_FAIL, "hardware slowdown"},
        {NVML_REASON_SW_THERMAL, CHECK_WARN, "the driver lowers the clocks: temperature"},
    };
    long long bits = 0, pstate = 1, limit, usual;
    bool known = gpu_health_get(&bits, &g[i], GPU_FACT_THROTTLE);
    bool loaded = gpu_health_get(&pstate, &g[i], GPU_FACT_PSTATE) && pstate == 0;
    f->known += known;
    for (size_t k = 0; known && loaded && k < COUNT_OF(reasons); k++)
        if (bits & reasons[k].bit) {
            gpu_findings_add(f, reasons[k].state, i, "%s", reasons[k].text);
            break;
        }
    if (gpu_health_get(&limit, &g[i], GPU_FACT_POWER_LIMIT) &&
        gpu_health_get(&usual, &g[i], GPU_FACT_POWER_DEFAULT) && limit < usual)
        gpu_findings_add(f, CHECK_WARN, i, "power limit %lld W, default %lld W", limit / 1000,
                         usual / 1000);
}

void checks_gpu_slow(struct check_result *r, struct check_env *env)
{
    run_each(r, env, slow, "no slowdown", GPU_FACT_THROTTLE, "no slowdown");
}

/* ---- gpu.pcie ------------------------------------------------------------------------------- */

/* Returns a number that sysfs knows of a device's link; 0: unknown. */
static long long link_width(const char *bus_id, const char *what)
{
    long long n = 0;
    return sysroot_number(&n, "/sys/bus/pci/devices/%s/%s_link_width", bus_id, what) && n < 255 ? n
                                                                                                : 0;
}

/* Links are between a port (root port or downstream port of a switch) and the device below it.
 * Ports alternate on the way down, so these are the pairs 0-1, 2-3, … of the path. */
static void add_narrow_ports(struct gpu_findings *f, const struct gpu_sample *g, int i)
{
    AUTO(strv) char **path = pci_devices_path(g[i].gpu.bus_id);
    size_t n = strv_len(path);
    for (size_t k = 0; k + 1 < n - n % 2; k += 2) {
        long long now = link_width(path[k + 1], "current");
        long long upper = link_width(path[k], "max"), lower = link_width(path[k + 1], "max");
        long long max = upper < lower ? upper : lower;
        if (now > 0 && now < max)
            gpu_findings_add(f, CHECK_FAIL, i, "the link below port %s has %lld of %lld lanes",
                             path[k], now, max);
    }
}

static void pcie(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                 int i, int count)
{
    (void)count;
    long long width, max_width, gen, max_gen, reasons, pstate, before, after;
    bool known = gpu_health_get(&width, &g[i], GPU_FACT_PCIE_WIDTH) &&
                 gpu_health_get(&max_width, &g[i], GPU_FACT_PCIE_MAX_WIDTH);
    f->known += known;
    if (known && width < max_width)
        gpu_findings_add(f, CHECK_FAIL, i, "%lld of %lld lanes", width, max_width);
    else
        add_narrow_ports(f, g, i);
    if (gpu_health_get(&pstate, &g[i], GPU_FACT_PSTATE) && pstate == 0 &&
        gpu_health_get(&reasons, &g[i], GPU_FACT_THROTTLE) && !(reasons & NVML_REASON_IDLE) &&
        gpu_health_get(&gen, &g[i], GPU_FACT_PCIE_GEN) &&
        gpu_health_get(&max_gen, &g[i], GPU_FACT_PCIE_MAX_GEN) && gen < max_gen)
        gpu_findings_add(f, CHECK_WARN, i, "PCIe %lld under load, of %lld", gen, max_gen);
    if (gpu_health_get(&before, &g[i], GPU_FACT_PCIE_REPLAYS) &&
        gpu_health_again(&after, &g[i], GPU_FACT_PCIE_REPLAYS) && after > before)
        gpu_findings_add(f, CHECK_WARN, i, "%lld PCIe replays in 0.3 s", after - before);
}

void checks_gpu_pcie(struct check_result *r, struct check_env *env)
{
    int count;
    if (gpu_health_read(env, &count))
        gpu_health_let_counters_grow(env);
    run_each(r, env, pcie, "all lanes", GPU_FACT_PCIE_WIDTH, "all lanes");
}

/* ---- gpu.busy ------------------------------------------------------------------------------- */

enum { STRANGER_PERCENT = 5, MIB = 1 << 20 };

/* Returns the user of a process, or -1 if this process cannot see it. */
static long user_of(unsigned pid)
{
    AUTO(free) char *status = sysroot_read("/proc/%u/status", pid);
    const char *line = status ? strstr(status, "\nUid:") : NULL;
    long uid;
    return line && sscanf(line, "\nUid:%ld", &uid) == 1 ? uid : -1;
}

static void add_process(struct gpu_findings *f, int i, const struct gpu_process *p)
{
    long uid = user_of((unsigned)p->pid);
    AUTO(free) char *command = sysroot_read("/proc/%d/comm", p->pid);
    AUTO(free)
    char *memory =
        p->bytes < 0 ? xstrdup("memory unknown") : xasprintf("%lld MiB", (long long)p->bytes / MIB);
    if (uid == (long)geteuid() || (command && strncmp(command, "nvidia-cuda-mps", 15) == 0))
        return;
    if (uid < 0)
        return gpu_findings_add(f, CHECK_FAIL, i, "process %d, %s: a process of the host", p->pid,
                                memory);
    const struct passwd *user = getpwuid((uid_t)uid);
    gpu_findings_add(f, CHECK_FAIL, i, "process %d of %s (%s), %s", p->pid,
                     user ? user->pw_name : "an unknown user", command ? command : "?", memory);
}

static void busy(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                 int i, int count)
{
    (void)env;
    (void)count;
    long long total, used, graphics;
    bool known = gpu_health_get(NULL, &g[i], GPU_FACT_PROCESSES);
    f->known += known;
    for (int k = 0; known && k < g[i].process_count; k++)
        add_process(f, i, &g[i].processes[k]);
    if (!known || g[i].process_count || !gpu_health_get(&graphics, &g[i], GPU_FACT_GRAPHICS) ||
        graphics || !gpu_health_get(&total, &g[i], GPU_FACT_MEMORY_TOTAL) ||
        !gpu_health_get(&used, &g[i], GPU_FACT_MEMORY_USED))
        return;
    if (used * 100 > total * STRANGER_PERCENT)
        gpu_findings_add(f, CHECK_FAIL, i, "%lld MiB in use without a visible process%s",
                         used / MIB,
                         pci_devices_hidden_by_container() ? ": a process of the host" : "");
}

void checks_gpu_busy(struct check_result *r, struct check_env *env)
{
    run_each(r, env, busy, "no process of another user", GPU_FACT_PROCESSES, "no stranger");
}

/* ---- gpu.mode ------------------------------------------------------------------------------- */

static void mode(struct gpu_findings *f, const struct check_env *env, const struct gpu_sample *g,
                 int i, int count)
{
    long long compute, mig, pending;
    bool known = gpu_health_get(&compute, &g[i], GPU_FACT_COMPUTE_MODE);
    f->known += known;
    if (known && compute == NVML_COMPUTE_PROHIBITED)
        gpu_findings_add(f, CHECK_FAIL, i, "compute mode is prohibited");
    else if (known && compute != 0 && env->ranks > count)
        gpu_findings_add(f, CHECK_FAIL, i, "compute mode is exclusive, for %d ranks on %d GPUs",
                         env->ranks, count);
    if (gpu_health_get(&mig, &g[i], GPU_FACT_MIG_MODE) &&
        gpu_health_get(&pending, &g[i], GPU_FACT_MIG_MODE_PENDING) && mig != pending)
        gpu_findings_add(f, CHECK_WARN, i, "MIG mode changes from %s at the next reset",
                         mig ? "on to off" : "off to on");
}

void checks_gpu_mode(struct check_result *r, struct check_env *env)
{
    run_each(r, env, mode, "default compute mode", GPU_FACT_COMPUTE_MODE, "default");
}

/* ---- gpu.same ------------------------------------------------------------------------------- */

/* Returns a property of a GPU as text; NULL: unknown. The caller frees it. */
static char *property(const struct gpu_sample *g, size_t which)
{
    static const struct {
        enum gpu_fact fact;
        const char *before, *after;
        long long divisor;
    } numbers[] = {{GPU_FACT_MEMORY_TOTAL, "", " MiB", MIB},
                   {GPU_FACT_ECC_MODE, "ECC mode ", "", 1},
                   {GPU_FACT_POWER_LIMIT, "", " W", 1000},
                   {GPU_FACT_MAX_SM_CLOCK, "SM clock up to ", " MHz", 1},
                   {GPU_FACT_MAX_MEMORY_CLOCK, "memory clock up to ", " MHz", 1}};
    long long n;
    if (which == 0)
        return xstrdup(g->gpu.name);
    if (which == 1)
        return g->gpu.vbios[0] && gpu_health_get(NULL, g, GPU_FACT_VBIOS)
                   ? xasprintf("VBIOS %s", g->gpu.vbios)
                   : NULL;
    which -= 2;
    if (which >= COUNT_OF(numbers) || !gpu_health_get(&n, g, numbers[which].fact))
        return NULL;
    return xasprintf("%s%lld%s", numbers[which].before, n / numbers[which].divisor,
                     numbers[which].after);
}

enum { PROPERTIES = 7 };

/* Returns the property that more than half of the GPUs of a model have; NULL: none. Borrowed. */
static const char *majority(const struct gpu_sample *g, char *const *text, int count, int model,
                            bool any_model)
{
    for (int i = 0; i < count; i++) {
        int peers = 0, equal = 0;
        for (int k = 0; text[i] && k < count; k++)
            if (text[k] && (any_model || same_model(&g[k], &g[model]))) {
                peers++;
                equal += strcmp(text[k], text[i]) == 0;
            }
        if (equal * 2 > peers)
            return text[i];
    }
    return NULL;
}

/* Adds the GPUs that differ from most others of their model; property 0 is the model. */
static void add_odd(struct gpu_findings *f, const struct gpu_sample *g, int count, size_t which)
{
    AUTO(free) char **text = xcalloc((size_t)count, sizeof *text);
    for (int i = 0; i < count; i++)
        text[i] = property(&g[i], which);
    for (int i = 0; i < count; i++) {
        const char *most = majority(g, text, count, i, which == 0);
        if (text[i] && most && strcmp(text[i], most) != 0)
            gpu_findings_add(f, CHECK_WARN, i, "%s, the others %s", text[i], most);
    }
    for (int i = 0; i < count; i++)
        free(text[i]);
}

void checks_gpu_same(struct check_result *r, struct check_env *env)
{
    int count;
    const struct gpu_sample *g = gpu_findings_facts(r, env, &count);
    AUTO(gpu_findings) struct gpu_findings f = {.known = count};
    AUTO(strbuf) struct strbuf all = {0};
    if (!g)
        return;
    strbuf_printf(&all, "%d x ", count);
    for (size_t which = 0; which < PROPERTIES; which++) {
        AUTO(free) char *text = property(&g[0], which);
        if (text)
            strbuf_printf(&all, "%s%s", which ? ", " : "", text);
        add_odd(&f, g, count, which);
    }
    gpu_findings_report(r, &f, "equal GPUs", "NVML", strbuf_str(&all));
}

/* ---- gpu.arch ------------------------------------------------------------------------------- */

static void add_arch(struct gpu_findings *f, const struct gpu_sample *g, const struct cuda_archs *a,
                     const char *library)
{
    long long capability;
    if (!gpu_health_get(&capability, g, GPU_FACT_CAPABILITY))
        return;
    f->known++;
    if (!cuda_archs_run_on(a, (int)capability))
        gpu_findings_add(f, CHECK_FAIL, g->gpu.index, "sm_%lld is not among those of %s",
                         capability, library);
}

void checks_gpu_arch(struct check_result *r, struct check_env *env)
{
    static const char library[] = "torch/lib/libtorch_cuda.so";
    int count;
    const struct gpu_sample *g = gpu_findings_facts(r, env, &count);
    AUTO(strv) char **packages = g ? program_libs_packages(env->command) : NULL;
    AUTO(gpu_findings) struct gpu_findings f = {0};
    struct cuda_archs archs = {0};
    for (char **p = packages; p && *p && archs.count == 0; p++) {
        AUTO(free) char *path = xasprintf("%s/%s", *p, library);
        (void)cuda_archs_read(&archs, path); /* the next directory may have it */
    }
    for (int i = 0; g && archs.count && i < count; i++)
        add_arch(&f, &g[i], &archs, library);
    if (g && !archs.count)
        check_skip(r, "the program's libtorch_cuda.so was not found");
    else if (g)
        gpu_findings_report(r, &f, "an architecture that runs on each GPU", library,
                            "all GPUs are supported");
}
