#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/core/kernel_log.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/gpu_health.h"
#include "launcher/doctor/facts/pci_devices.h"
#include "launcher/gpu/xid.h"
#include "launcher/node/topo_visible.h"

/* ---- gpu.count ------------------------------------------------------------------------------ */

/* Returns the number of GPUs that NVML should report, if it reports fewer than sysfs: those in
 * sysfs, less those that this process may not see. A container lacks their device nodes, and a
 * cgroup refuses to open them. */
static int expected_gpus(int in_sysfs)
{
    int nodes = 0, refused = 0;
    for (int i = 0; i < GPU_HEALTH_GPUS_MAX; i++) {
        AUTO(free) char *path = sysroot_path("/dev/nvidia%d", i);
        AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
        nodes += fd >= 0 || errno != ENOENT;
        refused += fd < 0 && errno == EPERM;
    }
    int expected =
        nodes && nodes < in_sysfs && pci_devices_hidden_by_container() ? nodes : in_sysfs;
    return expected - refused;
}

/* Returns true if a word of CUDA_VISIBLE_DEVICES names a GPU, or hides the rest on purpose. */
static bool is_visible_word(const char *word, size_t len, const struct check_env *env,
                            const struct gpu_sample *g, int count)
{
    const struct gpu *gpu;
    const char *uuid;
    if (topo_hides_gpus(word, len))
        return true;
    if (strspn(word, "0123456789") >= len)
        return len < 8 && atoi(word) < count;
    for (int i = 0; i < count; i++)
        if (strncmp(g[i].gpu.uuid, word, len) == 0)
            return true;
    return env->topo && topo_find_gpu(&gpu, &uuid, env->topo, word, len);
}

static bool check_visible(struct check_result *r, const struct check_env *env,
                          const struct gpu_sample *g, int count)
{
    const char *words = getenv("CUDA_VISIBLE_DEVICES");
    for (const char *w = words; w && *w;) {
        size_t len = strcspn(w, ",");
        if (!is_visible_word(w, len, env, g, count)) {
            check_bad(r, CHECK_FAIL, "names of GPUs", "CUDA_VISIBLE_DEVICES",
                      "CUDA_VISIBLE_DEVICES names '%.*s', but %s %d GPU%s", (int)len, w,
                      count == 1 ? "there is" : "there are", count, plural_s(count));
            check_advise(r,
                         "correct or unset CUDA_VISIBLE_DEVICES; `nvidia-smi -L` lists the GPUs");
            return false;
        }
        w += len + (w[len] == ',');
    }
    return true;
}

static void run_count(struct check_result *r, struct check_env *env)
{
    static const char source[] = "nvmlDeviceGetCount_v2, /sys/bus/pci";
    int count;
    const struct gpu_sample *g = gpu_health_read(env, &count);
    AUTO(strv) char **gpus = pci_devices_gpus();
    int in_sysfs = (int)strv_len(gpus);
    int expected = count < in_sysfs ? expected_gpus(in_sysfs) : in_sysfs;
    if (count < expected) {
        AUTO(free) char *want = xasprintf("%d GPU%s, as in sysfs", expected, plural_s(expected));
        check_bad(r, CHECK_FAIL, want, source, "%d GPU%s in NVML", count, plural_s(count));
    } else if (!g) {
        check_skip(r, "no GPU");
    } else if (check_visible(r, env, g, count)) {
        if (count < in_sysfs)
            check_ok(r, source, "%d GPU%s; this container or cgroup hides %d more", count,
                     plural_s(count), in_sysfs - count);
        else
            check_ok(r, source, "%d GPU%s", count, plural_s(count));
    }
}

/* ---- gpu.answers ---------------------------------------------------------------------------- */

/* Adds the first error of each GPU. */
static void add_errors(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long temperature, power, clock;
    h->known++;
    for (int fact = 0; fact < GPU_FACTS; fact++)
        if (g->rc[fact] != NVML_SUCCESS && !gpu_facts_is_unavailable(g->rc[fact]))
            return gpu_health_add(h, CHECK_FAIL, i, "%s: %s", gpu_rows[fact].function,
                                  nvml_code_name(g->rc[fact]));
    if (gpu_health_get(&temperature, g, GPU_FACT_TEMPERATURE) &&
        gpu_health_get(&power, g, GPU_FACT_POWER) && gpu_health_get(&clock, g, GPU_FACT_SM_CLOCK) &&
        !temperature && !power && !clock)
        gpu_health_add(h, CHECK_FAIL, i, "temperature, power and clock are 0");
}

static void run_answers(struct check_result *r, struct check_env *env)
{
    int count, gpu, ms;
    enum gpu_fact fact;
    const struct gpu_sample *g = gpu_health_read(env, &count);
    AUTO(gpu_health) struct gpu_health h = {0};
    if (!g)
        return check_skip(r, "no GPU");
    bool stuck = gpu_health_stuck(&gpu, &fact, &ms);
    for (int i = 0; i < (stuck ? gpu : count); i++)
        add_errors(&h, &g[i], i);
    if (stuck)
        gpu_health_add(&h, CHECK_FAIL, gpu, "%s does not answer within %d ms",
                       gpu_rows[fact].function, ms);
    gpu_health_report(r, &h, "an answer to each call", "NVML", "all GPUs answer");
}

/* ---- gpu.xid -------------------------------------------------------------------------------- */

enum { DAY_S = 24 * 3600 };

enum { XIDS_MAX = 64 };

struct xids {
    struct { /* one entry per code and GPU */
        struct xid x;
        double age_s; /* of the last one */
        int times;
    } entries[XIDS_MAX];
    int count;
    struct gpu_health findings;
    int worst;
};

/* Xid 119 and 120 are those of drv.gsp. */
static void take_xid(void *arg, double age_s, const char *text)
{
    struct xids *all = arg;
    struct xid x;
    int i = 0;
    if (!xid_parse(&x, text) || x.code == 119 || x.code == 120)
        return;
    while (i < all->count &&
           (all->entries[i].x.code != x.code || strcmp(all->entries[i].x.bus_id, x.bus_id) != 0))
        i++;
    if (i == XIDS_MAX)
        return;
    all->count += i == all->count;
    all->entries[i].x = x;
    all->entries[i].age_s = age_s;
    all->entries[i].times++;
}

/* A GPU may have been reset since an old error, unlike the machine. */
static void add_xid(struct xids *all, int i)
{
    const char *meaning;
    enum xid_class class = xid_classify(all->entries[i].x.code, &meaning);
    bool is_old = all->entries[i].age_s > DAY_S;
    if (class == XID_IGNORE || (class < XID_RESET && is_old))
        return;
    bool fails = class == XID_RESTART || (class == XID_RESET && !is_old);
    AUTO(free) char *text = xid_describe(&all->entries[i].x, all->entries[i].age_s);
    all->worst = (int)class > all->worst ? (int)class : all->worst;
    AUTO(free)
    char *times =
        all->entries[i].times > 1 ? xasprintf(" (%d times)", all->entries[i].times) : xstrdup("");
    gpu_health_add(&all->findings, fails ? CHECK_FAIL : CHECK_WARN, -1, "%s%s", text, times);
}

static const char *const class_advice[] = {
    [XID_PROGRAM] = "start the program again; if the error returns with another program, drain the "
                    "node",
    [XID_LOOK] = "read the messages around it: dmesg -T | grep -i -A5 xid",
    [XID_RESET] = "reset the GPU when no program uses it: nvidia-smi --gpu-reset -i GPU",
    [XID_RESTART] = "restart the machine; if the error returns, have the GPU replaced",
};

static void add_recovery_action(struct xids *all, const struct gpu_sample *g)
{
    static const char *const actions[] = {"none", "reset the GPU", "restart the machine",
                                          "drain peer-to-peer traffic", "drain and reset"};
    long long action;
    if (!gpu_health_get(&action, g, GPU_FACT_RECOVERY_ACTION) || action == 0)
        return;
    int class = action == 2 ? XID_RESTART : XID_RESET;
    all->worst = class > all->worst ? class : all->worst;
    gpu_health_add(&all->findings, CHECK_FAIL, g->gpu.index, "the driver asks for: %s",
                   action > 0 && action < (int)COUNT_OF(actions) ? actions[action]
                                                                 : "an unknown action");
}

static void run_xid(struct check_result *r, struct check_env *env)
{
    struct xids all = {0};
    int count, rc = kernel_log_read(take_xid, &all);
    const struct gpu_sample *g = gpu_health_read(env, &count);
    for (int i = 0; i < all.count; i++)
        add_xid(&all, i);
    for (int i = 0; g && i < count; i++)
        add_recovery_action(&all, &g[i]);
    all.findings.known = rc == 0;
    if (all.findings.fail.len || all.findings.warn.len || (rc == 0 && g)) {
        gpu_health_report(r, &all.findings, "no Xid error", "/dev/kmsg, recovery action",
                          "no Xid error since boot that matters now");
        if (r->state != CHECK_OK)
            check_advise(r, "%s", class_advice[all.worst]);
    } else if (rc < 0 && g) {
        check_skip(r, "/dev/kmsg: %s", strerror(-rc));
    } else {
        check_skip(r, "no GPU");
    }
    gpu_health_free(&all.findings);
}

const struct check checks_gpu[] = {
    {"gpu.count", "all GPUs are present", CHECK_REPORT, run_count,
     .needs = {"drv.loads", "drv.match"},
     .why = "A GPU that has fallen off the bus is missing from NVML, and ranks get the wrong one.",
     .advice = "restart the machine; if the GPU stays away, drain the node"},
    {"gpu.answers", "all GPUs answer", CHECK_STOP, run_answers, .needs = {"drv.loads", "drv.match"},
     .why = "A GPU that hangs or is lost still appears in lists, and a job that uses it hangs.",
     .advice = "reset the GPU (nvidia-smi --gpu-reset -i GPU); if it does not answer then, restart "
               "the machine"},
    {"gpu.xid", "errors of the GPUs since boot", CHECK_LONG, run_xid,
     .why = "The driver reports each failure of a GPU as an Xid error in the kernel's log.",
     .advice = "see NVIDIA's catalogue of Xid errors"},
    {0},
};
