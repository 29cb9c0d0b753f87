#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/checks/program.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/cuda_archs.h"
#include "launcher/doctor/facts/gpu_health.h"
#include "launcher/doctor/facts/pci_devices.h"

/* ---- health --------------------------------------------------------------------------------- */

static bool same_model(const struct gpu_sample *a, const struct gpu_sample *b)
{
    return strcmp(a->gpu.name, b->gpu.name) == 0;
}

static void ecc(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long now = 0, ever = 0, on = 0, other;
    bool known_mode = gpu_health_get(&on, g, GPU_FACT_ECC_MODE);
    h->known += gpu_health_get(&now, g, GPU_FACT_ECC_VOLATILE) || known_mode;
    if (now > 0)
        gpu_health_add(h, CHECK_FAIL, i, "%lld uncorrected error%s since the last reset", now,
                       plural_s(now));
    else if (gpu_health_get(&ever, g, GPU_FACT_ECC_AGGREGATE) && ever > 0)
        gpu_health_add(h, CHECK_WARN, i, "%lld uncorrected error%s in its life", ever,
                       plural_s(ever));
    for (int k = 0; known_mode && !on && k < h->count; k++)
        if (same_model(&h->gpus[k], g) && gpu_health_get(&other, &h->gpus[k], GPU_FACT_ECC_MODE) &&
            other)
            return gpu_health_add(h, CHECK_WARN, i, "ECC is off, and on for GPU %d", k);
}

static void remap(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long pending, failed;
    if (!gpu_health_get(&pending, g, GPU_FACT_REMAP_PENDING) ||
        !gpu_health_get(&failed, g, GPU_FACT_REMAP_FAILED))
        return;
    h->known++;
    if (failed)
        gpu_health_add(h, CHECK_FAIL, i, "a row of memory could not be remapped");
    else if (pending)
        gpu_health_add(h, CHECK_FAIL, i, "the remapping of a row is pending");
}

enum { NEAR_SLOWDOWN = 3 }; /* degrees */

static void temp(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long now = 0, limit, margin, slowdown, left;
    bool known = gpu_health_get(&now, g, GPU_FACT_TEMPERATURE);
    if (known && gpu_health_get(&limit, g, GPU_FACT_SLOWDOWN))
        left = limit - now;
    else if (gpu_health_get(&margin, g, GPU_FACT_MARGIN) &&
             gpu_health_get(&slowdown, g, GPU_FACT_SLOWDOWN_TLIMIT))
        left = margin - slowdown;
    else
        return;
    h->known++;
    if (left <= NEAR_SLOWDOWN)
        gpu_health_add(h, CHECK_FAIL, i, "%lld degrees Celsius, slowdown at %lld", now, now + left);
}

static void slow(struct gpu_health *h, const struct gpu_sample *g, int i)
{
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
    bool known = gpu_health_get(&bits, g, GPU_FACT_THROTTLE);
    bool loaded = gpu_health_get(&pstate, g, GPU_FACT_PSTATE) && pstate == 0;
    h->known += known;
    for (size_t k = 0; known && loaded && k < COUNT_OF(reasons); k++)
        if (bits & reasons[k].bit) {
            gpu_health_add(h, reasons[k].state, i, "%s", reasons[k].text);
            break;
        }
    if (gpu_health_get(&limit, g, GPU_FACT_POWER_LIMIT) &&
        gpu_health_get(&usual, g, GPU_FACT_POWER_DEFAULT) && limit < usual)
        gpu_health_add(h, CHECK_WARN, i, "power limit %lld W, default %lld W", limit / 1000,
                       usual / 1000);
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
static void add_narrow_ports(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    AUTO(strv) char **path = pci_devices_path(g->gpu.bus_id);
    size_t n = strv_len(path);
    for (size_t k = 0; k + 1 < n - n % 2; k += 2) {
        long long now = link_width(path[k + 1], "current");
        long long upper = link_width(path[k], "max"), lower = link_width(path[k + 1], "max");
        long long max = upper < lower ? upper : lower;
        if (now > 0 && now < max)
            gpu_health_add(h, CHECK_FAIL, i, "the link below port %s has %lld of %lld lanes",
                           path[k], now, max);
    }
}

static void pcie(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long width, max_width, gen, max_gen, reasons, pstate, before, after;
    gpu_health_let_counters_grow(h->env);
    bool known = gpu_health_get(&width, g, GPU_FACT_PCIE_WIDTH) &&
                 gpu_health_get(&max_width, g, GPU_FACT_PCIE_MAX_WIDTH);
    h->known += known;
    if (known && width < max_width)
        gpu_health_add(h, CHECK_FAIL, i, "%lld of %lld lanes", width, max_width);
    else
        add_narrow_ports(h, g, i);
    if (gpu_health_get(&pstate, g, GPU_FACT_PSTATE) && pstate == 0 &&
        gpu_health_get(&reasons, g, GPU_FACT_THROTTLE) && !(reasons & NVML_REASON_IDLE) &&
        gpu_health_get(&gen, g, GPU_FACT_PCIE_GEN) &&
        gpu_health_get(&max_gen, g, GPU_FACT_PCIE_MAX_GEN) && gen < max_gen)
        gpu_health_add(h, CHECK_WARN, i, "PCIe %lld under load, of %lld", gen, max_gen);
    if (gpu_health_get(&before, g, GPU_FACT_PCIE_REPLAYS) &&
        gpu_health_again(&after, g, GPU_FACT_PCIE_REPLAYS) && after > before)
        gpu_health_add(h, CHECK_WARN, i, "%lld PCIe replays in 0.3 s", after - before);
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

static void add_process(struct gpu_health *h, int i, const struct gpu_process *p)
{
    long uid = user_of((unsigned)p->pid);
    AUTO(free) char *command = sysroot_read("/proc/%d/comm", p->pid);
    AUTO(free)
    char *memory =
        p->bytes < 0 ? xstrdup("memory unknown") : xasprintf("%lld MiB", (long long)p->bytes / MIB);
    if (uid == (long)geteuid() || (command && strncmp(command, "nvidia-cuda-mps", 15) == 0))
        return;
    if (uid < 0)
        return gpu_health_add(h, CHECK_FAIL, i, "process %d, %s: a process of the host", p->pid,
                              memory);
    const struct passwd *user = getpwuid((uid_t)uid);
    gpu_health_add(h, CHECK_FAIL, i, "process %d of %s (%s), %s", p->pid,
                   user ? user->pw_name : "an unknown user", command ? command : "?", memory);
}

static void busy(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long total, used, graphics;
    bool known = gpu_health_get(NULL, g, GPU_FACT_PROCESSES);
    h->known += known;
    for (int k = 0; known && k < g->process_count; k++)
        add_process(h, i, &g->processes[k]);
    if (!known || g->process_count || !gpu_health_get(&graphics, g, GPU_FACT_GRAPHICS) ||
        graphics || !gpu_health_get(&total, g, GPU_FACT_MEMORY_TOTAL) ||
        !gpu_health_get(&used, g, GPU_FACT_MEMORY_USED))
        return;
    if (used * 100 > total * STRANGER_PERCENT)
        gpu_health_add(h, CHECK_FAIL, i, "%lld MiB in use without a visible process%s", used / MIB,
                       pci_devices_hidden_by_container() ? ": a process of the host" : "");
}

/* ---- gpu.mode ------------------------------------------------------------------------------- */

static void mode(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long compute, mig, pending;
    bool known = gpu_health_get(&compute, g, GPU_FACT_COMPUTE_MODE);
    h->known += known;
    if (known && compute == NVML_COMPUTE_PROHIBITED)
        gpu_health_add(h, CHECK_FAIL, i, "compute mode is prohibited");
    else if (known && compute != 0 && h->env->ranks > h->count)
        gpu_health_add(h, CHECK_FAIL, i, "compute mode is exclusive, for %d ranks on %d GPU%s",
                       h->env->ranks, h->count, plural_s(h->count));
    if (gpu_health_get(&mig, g, GPU_FACT_MIG_MODE) &&
        gpu_health_get(&pending, g, GPU_FACT_MIG_MODE_PENDING) && mig != pending)
        gpu_health_add(h, CHECK_WARN, i, "MIG mode changes from %s at the next reset",
                       mig ? "on to off" : "off to on");
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
static void add_odd(struct gpu_health *h, size_t which)
{
    AUTO(free) char **text = xcalloc((size_t)h->count, sizeof *text);
    for (int i = 0; i < h->count; i++)
        text[i] = property(&h->gpus[i], which);
    for (int i = 0; i < h->count; i++) {
        const char *most = majority(h->gpus, text, h->count, i, which == 0);
        if (text[i] && most && strcmp(text[i], most) != 0)
            gpu_health_add(h, CHECK_WARN, i, "%s, the others %s", text[i], most);
    }
    for (int i = 0; i < h->count; i++)
        free(text[i]);
}

static void run_same(struct check_result *r, struct check_env *env)
{
    AUTO(gpu_health) struct gpu_health h = {0};
    AUTO(strbuf) struct strbuf all = {0};
    if (!gpu_health_begin(&h, r, env))
        return;
    h.known = h.count;
    strbuf_printf(&all, "%d x ", h.count);
    for (size_t which = 0; which < PROPERTIES; which++) {
        AUTO(free) char *text = property(h.gpus, which);
        if (text)
            strbuf_printf(&all, "%s%s", which ? ", " : "", text);
        add_odd(&h, which);
    }
    gpu_health_report(r, &h, "equal GPUs", "NVML", strbuf_str(&all));
}

/* ---- gpu.arch ------------------------------------------------------------------------------- */

static void run_arch(struct check_result *r, struct check_env *env)
{
    static const char library[] = "torch/lib/libtorch_cuda.so";
    AUTO(gpu_health) struct gpu_health h = {0};
    if (!gpu_health_begin(&h, r, env))
        return;
    AUTO(free) char *python = program_python(env->command);
    AUTO(strv) char **found = NULL;
    struct cuda_archs archs = {0};
    if (python)
        program_packages(&found, python, library);
    for (char **path = found; path && *path && archs.count == 0; path++)
        (void)cuda_archs_read(&archs, *path); /* the next one may have it */
    if (!archs.count)
        return check_skip(r, "the program's libtorch_cuda.so was not found");
    for (int i = 0; i < h.count; i++) {
        long long capability;
        if (!gpu_health_get(&capability, &h.gpus[i], GPU_FACT_CAPABILITY))
            continue;
        h.known++;
        if (!cuda_archs_run_on(&archs, (int)capability))
            gpu_health_add(&h, CHECK_FAIL, i, "sm_%lld is not among those of %s", capability,
                           library);
    }
    gpu_health_report(r, &h, "an architecture that runs on each GPU", library,
                      "all GPUs are supported");
}

static const char crash[] = "Programs fail or compute wrong results on such a GPU.";
static const char slower[] = "All ranks of a job wait for the slowest GPU.";

const struct check checks_gpu_each[] = {
    {"gpu.ecc", "uncorrected memory errors", CHECK_LONG, gpu_health_check_each,
     .each = &(const struct gpu_health_check){ecc, "no uncorrected error", GPU_FACT_ECC_VOLATILE,
                                              .ok = "no uncorrected error"},
     .needs = {"gpu.answers"}, .why = crash,
     .advice = "reset the GPU (nvidia-smi --gpu-reset -i GPU); if errors return, drain the node"},
    {"gpu.remap", "remapped rows of memory", CHECK_LONG, gpu_health_check_each,
     .each =
         &(const struct gpu_health_check){remap, "no pending and no failed remapping",
                                          GPU_FACT_REMAP_PENDING, .ok = "none pending or failed"},
     .needs = {"gpu.answers"}, .why = crash,
     .advice = "reset the GPU when the node is free: nvidia-smi --gpu-reset -i GPU"},
    {"gpu.temp", "temperature", CHECK_REPORT, gpu_health_check_each,
     .each = &(const struct gpu_health_check){temp, "more than 3 degrees below slowdown",
                                              GPU_FACT_TEMPERATURE, .ok = "below slowdown"},
     .needs = {"gpu.answers"}, .why = slower,
     .advice = "look after airflow and fans; compare with the node's other GPUs"},
    {"gpu.slow", "slowdown", CHECK_REPORT, gpu_health_check_each,
     .each = &(const struct gpu_health_check){slow, "no slowdown", GPU_FACT_THROTTLE,
                                              .ok = "no slowdown"},
     .needs = {"gpu.answers"}, .why = slower,
     .advice = "check power supply and cooling, and find the program that has lowered the power "
               "limit: nvidia-smi -q -d POWER,PERFORMANCE"},
    {"gpu.pcie", "PCIe link", CHECK_LONG, gpu_health_check_each,
     .each = &(const struct gpu_health_check){pcie, "all lanes", GPU_FACT_PCIE_WIDTH,
                                              .ok = "all lanes"},
     .needs = {"gpu.answers"},
     .why =
         "A link with fewer lanes or a lower generation halves the bandwidth between host and GPU.",
     .advice = "reseat the GPU or its riser, and look at the narrow port: lspci -vv"},
    {"gpu.busy", "processes of others", CHECK_REPORT, gpu_health_check_each,
     .each = &(const struct gpu_health_check){busy, "no process of another user",
                                              GPU_FACT_PROCESSES, .ok = "no stranger"},
     .needs = {"gpu.answers"}, .why = "Another program takes memory and time of the GPU.",
     .advice = "end the process or use another GPU; in a container, memory without a process "
               "belongs to a process of the host"},
    {"gpu.mode", "compute and MIG mode", CHECK_STOP, gpu_health_check_each,
     .each = &(const struct gpu_health_check){mode, "default compute mode", GPU_FACT_COMPUTE_MODE,
                                              .ok = "default"},
     .needs = {"gpu.answers"},
     .why = "In another mode than the default one, some or all ranks cannot use the GPU.",
     .advice = "nvidia-smi -c 0; for MIG: nvidia-smi --gpu-reset"},
    {"gpu.same", "equal GPUs", CHECK_LONG, run_same, .needs = {"gpu.answers"}, .compared = true,
     .why = slower,
     .advice =
         "set the same modes and limits on all GPUs, and update the VBIOS of the one that differs"},
    {"gpu.arch", "architectures of the program", CHECK_LONG, run_arch, .needs = {"gpu.answers"},
     .why = "Without code for its architecture a GPU fails with 'no kernel image is available'.",
     .advice = "install a build of PyTorch for this GPU's architecture"},
    {0},
};
