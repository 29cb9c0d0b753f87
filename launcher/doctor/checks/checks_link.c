#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/gpu_health.h"
#include "launcher/doctor/facts/pci_devices.h"
#include "launcher/node/topo_path.h"

/* Returns the RDMA devices that are hardware (a strv). */
static char **rdma_devices(void)
{
    AUTO(strv) char **names = sysroot_list("/sys/class/infiniband");
    char **out = NULL;
    for (char **name = names; name && *name; name++)
        if (sysroot_exists("/sys/class/infiniband/%s/device", *name))
            strv_push(&out, xstrdup(*name));
    return out;
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

/* MIG instances do not use NVLink and peer access. */
static bool are_peers(const struct gpu_sample *a, const struct gpu_sample *b)
{
    long long mig;
    return strcmp(a->gpu.name, b->gpu.name) == 0 &&
           !(gpu_health_get(&mig, a, GPU_FACT_MIG_MODE) && mig) &&
           !(gpu_health_get(&mig, b, GPU_FACT_MIG_MODE) && mig);
}

static long long active_links(const struct gpu_sample *g)
{
    return gpu_sample_value(g, GPU_FACT_NVLINKS_ACTIVE, 0);
}

struct link_end {
    unsigned gpu, link;
    char text[24]; /* the other end; empty: unknown */
};

static int read_link_end(const struct nvml *n, void *inout, struct err *e)
{
    enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
    struct link_end *l = inout;
    unsigned type = REMOTE_GPU;
    struct nvml_pci pci = {0};
    nvml_device d = NULL;
    if (n->by_index(l->gpu, &d) != NVML_SUCCESS)
        return 0;
    if (n->nvlink_remote_type)
        (void)n->nvlink_remote_type(d, l->link, &type); /* else it is a GPU */
    if (type == REMOTE_SWITCH)
        snprintf(l->text, sizeof l->text, "an NVSwitch");
    else if (type == REMOTE_GPU && n->nvlink_remote_pci &&
             n->nvlink_remote_pci(d, l->link, &pci) == NVML_SUCCESS)
        gpu_facts_bus_id(l->text, sizeof l->text, &pci);
    return 0;
}

static void add_inactive(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    for (unsigned link = 0; link < NVML_NVLINKS_MAX; link++)
        for (int k = 0; k < h->count && !(active_links(g) & 1LL << link); k++)
            if (k != i && are_peers(g, &h->gpus[k]) && active_links(&h->gpus[k]) & 1LL << link) {
                struct link_end end = {.gpu = (unsigned)h->gpus[k].gpu.index, .link = link};
                bool known = gpu_health_call(read_link_end, &end, sizeof end) && end.text[0];
                gpu_health_add(h, CHECK_FAIL, i, "link %u is inactive; that of GPU %d leads to %s",
                               link, k, known ? end.text : "an unknown device");
                break;
            }
}

static void run_nvlink(struct check_result *r, struct check_env *env)
{
    AUTO(gpu_health) struct gpu_health h = {0};
    if (!gpu_health_begin(&h, r, env))
        return;
    for (int i = 0; i < h.count; i++)
        h.known += active_links(&h.gpus[i]) != 0;
    if (!h.known)
        return check_skip(r, "no GPU has an active NVLink");
    if (env->least == CHECK_LONG)
        gpu_health_let_counters_grow(env);
    for (int i = 0; i < h.count; i++) {
        const struct gpu_sample *g = &h.gpus[i];
        long long before, after;
        if (gpu_health_get(NULL, g, GPU_FACT_NVLINKS))
            add_inactive(&h, g, i);
        if (gpu_health_get(&before, g, GPU_FACT_NVLINK_ERRORS) &&
            gpu_health_again(&after, g, GPU_FACT_NVLINK_ERRORS) && after > before)
            gpu_health_add(&h, CHECK_WARN, i, "%lld NVLink errors in 0.3 s", after - before);
    }
    int links = __builtin_popcountll((unsigned long long)active_links(h.gpus));
    AUTO(free)
    char *ok = xasprintf("%d link%s of each GPU %s active", links, plural_s(links),
                         links == 1 ? "is" : "are");
    gpu_health_report(r, &h, "the same links on all GPUs", gpu_rows[GPU_FACT_NVLINKS].function, ok);
}

struct pair {
    unsigned from, to; /* GPUs */
    enum topo_path path;
    bool known; /* the access */
    unsigned status;
};

struct pairs {
    struct gpu_health health;
    struct pair at[GPU_HEALTH_GPUS_MAX][GPU_HEALTH_GPUS_MAX];
};

static const char *p2p_name(unsigned status)
{
    static const char *const names[] = {"OK",
                                        "chipset not supported",
                                        "GPU not supported",
                                        "topology not supported",
                                        "disabled by a setting of the driver",
                                        "not supported"};
    return status < COUNT_OF(names) ? names[status] : "unknown";
}

/* Returns true if a pair that is connected no better than this one has peer access. */
static bool others_have_access(const struct pairs *p, int a, int b)
{
    const struct gpu_sample *g = p->health.gpus;
    for (int i = 0; i < p->health.count; i++)
        for (int k = i + 1; k < p->health.count; k++)
            if (p->at[i][k].known && p->at[i][k].status == NVML_P2P_OK &&
                p->at[i][k].path >= p->at[a][b].path && strcmp(g[i].gpu.name, g[a].gpu.name) == 0)
                return true;
    return false;
}

static int read_access(const struct nvml *n, void *inout, struct err *e)
{
    struct pair *p = inout;
    nvml_device from = NULL, to = NULL;
    p->known = n->p2p_status && n->by_index(p->from, &from) == NVML_SUCCESS &&
               n->by_index(p->to, &to) == NVML_SUCCESS &&
               n->p2p_status(from, to, NVML_P2P_READ, &p->status) == NVML_SUCCESS;
    return 0;
}

/* Returns false if the access is unknown. */
static bool read_pair(struct pair *out, const struct check_env *env, const struct gpu_sample *a,
                      const struct gpu_sample *b)
{
    *out = (struct pair){.from = (unsigned)a->gpu.index,
                         .to = (unsigned)b->gpu.index,
                         .path = env->topo ? topo_path(env->topo, a->gpu.bus_id, b->gpu.bus_id)
                                           : TOPO_PATH_SYS};
    return gpu_health_call(read_access, out, sizeof *out) && out->known;
}

static void run_p2p(struct check_result *r, struct check_env *env)
{
    AUTO(free) struct pairs *p = xzalloc(sizeof *p);
    struct gpu_health *h = &p->health;
    if (!gpu_health_begin(h, r, env))
        return;
    if (h->count < 2)
        return check_skip(r, "one GPU");
    for (int i = 0; i < h->count; i++)
        for (int k = i + 1; k < h->count; k++)
            h->known += are_peers(&h->gpus[i], &h->gpus[k]) &&
                        read_pair(&p->at[i][k], env, &h->gpus[i], &h->gpus[k]);
    for (int i = 0; i < h->count; i++)
        for (int k = i + 1; k < h->count; k++)
            if (p->at[i][k].known && p->at[i][k].status != NVML_P2P_OK &&
                others_have_access(p, i, k))
                gpu_health_add(h, CHECK_FAIL, i, "to GPU %d: %s", k, p2p_name(p->at[i][k].status));
    gpu_health_report(r, h, "the same access for all pairs", "nvmlDeviceGetP2PStatus",
                      p->at[0][1].status == NVML_P2P_OK ? "peer access"
                                                        : "the same for all pairs: no peer access");
    gpu_health_free(h);
}

/* ---- PCI Express ---------------------------------------------------------------------------- */

enum {
    CONFIG_BYTES = 4096,
    EXTENDED = 0x100, /* offset of the first extended capability */
    CAPABILITY_ACS = 0x000d,
    ACS_CONTROL = 6, /* offset in the capability */
    ACS_SOURCE_VALIDATION = 0x1,
    ACS_REQUEST_REDIRECT = 0x4
};

static unsigned u16_at(const unsigned char *bytes)
{
    return bytes[0] | (unsigned)bytes[1] << 8;
}

/* Returns the ACS control register of a bridge; 0: it has none; -1: this user cannot read it. */
static int acs_control(const char *bus_id)
{
    unsigned char c[CONFIG_BYTES];
    AUTO(free) char *path = sysroot_path("/sys/bus/pci/devices/%s/config", bus_id);
    AUTO(file) FILE *file = fopen(path, "re");
    size_t n = file ? fread(c, 1, sizeof c, file) : 0;
    if (n <= 64)
        return -1;
    /* A malformed list may have a cycle; it has at most one entry per 8 bytes. */
    for (unsigned at = EXTENDED, i = 0; at >= EXTENDED && at + 8 <= n && i < CONFIG_BYTES / 8;
         i++) {
        if (u16_at(c + at) == CAPABILITY_ACS)
            return (int)u16_at(c + at + ACS_CONTROL);
        at = u16_at(c + at + 2) >> 4 & ~3U;
    }
    return 0;
}

/* Returns the bridges above GPUs without an NVLink (a strv). */
static char **bridges_above(const struct gpu_sample *g, int count)
{
    char **out = NULL;
    for (int i = 0; i < count; i++) {
        AUTO(strv) char **path = active_links(&g[i]) ? NULL : pci_devices_path(g[i].gpu.bus_id);
        for (size_t k = 0; k + 1 < strv_len(path); k++)
            if (!strv_has((const char *const *)out, path[k]))
                strv_push(&out, xstrdup(path[k]));
    }
    return out;
}

static void run_acs(struct check_result *r, struct check_env *env)
{
    int unreadable = 0;
    AUTO(gpu_health) struct gpu_health h = {0};
    if (!gpu_health_begin(&h, r, env))
        return;
    AUTO(strv) char **nics = rdma_devices();
    if (h.count < 2 && !nics)
        return check_skip(r, "one GPU without peers");
    if (pci_devices_in_virtual_machine())
        return check_skip(r, "a virtual machine, whose host needs ACS");
    AUTO(strv) char **bridges = bridges_above(h.gpus, h.count);
    if (!bridges)
        return check_skip(r, "the GPUs have NVLink, or no bridge is known above them");
    AUTO(strbuf) struct strbuf on = {0}, advice = {0};
    for (char **b = bridges; *b; b++) {
        int control = acs_control(*b);
        unreadable += control < 0;
        if (control <= 0 || !(control & (ACS_SOURCE_VALIDATION | ACS_REQUEST_REDIRECT)))
            continue;
        strbuf_printf(&on, "%s%s (control %04x)", on.len ? ", " : "", *b, (unsigned)control);
        strbuf_printf(&advice, "%ssetpci -s %s ECAP_ACS+6.w=0000", advice.len ? "; " : "", *b);
    }
    if (on.len) {
        check_bad(r, CHECK_FAIL, "off", "PCI configuration space", "ACS is on: %s",
                  strbuf_str(&on));
        check_advise(r, "switch ACS off in the BIOS, or after each start: %s", strbuf_str(&advice));
    } else if (unreadable) {
        check_skip(r, "only root can read the PCI configuration space");
    } else {
        check_ok(r, "PCI configuration space", "off on %zu bridge%s", strv_len(bridges),
                 plural_s((long long)strv_len(bridges)));
    }
}

static void run_iommu(struct check_result *r, struct check_env *env)
{
    static const char source[] = "/sys/class/iommu, iommu_group/type";
    AUTO(strv) char **gpus = pci_devices_gpus();
    AUTO(strv) char **nics = rdma_devices();
    AUTO(strv) char **units = sysroot_list("/sys/class/iommu");
    if (!gpus)
        return check_skip(r, "no NVIDIA GPU");
    if (pci_devices_in_virtual_machine())
        return check_skip(r, "a virtual machine, whose host has the IOMMU");
    if (!units)
        return check_ok(r, source, "off");
    AUTO(free) char *type = sysroot_read("/sys/bus/pci/devices/%s/iommu_group/type", gpus[0]);
    AUTO(free) char *words = sysroot_read("/proc/cmdline");
    bool passes = type ? strcmp(type, "identity") == 0 : words && strstr(words, "iommu=pt");
    if (passes)
        check_ok(r, source, "passes addresses through");
    else if (!gpus[1] && !nics)
        check_ok(r, source, "translates addresses; the GPU has no peers");
    else
        check_bad(r, CHECK_FAIL, "off, or iommu=pt", source, "translates addresses (%s)",
                  type ? type : "no iommu=pt in /proc/cmdline");
}

/* ---- RDMA ----------------------------------------------------------------------------------- */

/* dma-buf needs Linux 5.12 and the open kernel module. */
static bool has_dma_buf(void)
{
    int major = 0, minor = 0;
    AUTO(free) char *release = sysroot_read("/proc/sys/kernel/osrelease");
    AUTO(free) char *module = sysroot_read("/proc/driver/nvidia/version");
    return release && sscanf(release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 12)) && module &&
           strstr(module, "Open Kernel Module");
}

static void run_gdr(struct check_result *r, struct check_env *env)
{
    static const char source[] = "/sys/module, /proc/driver/nvidia/version";
    AUTO(strv) char **gpus = pci_devices_gpus();
    AUTO(strv) char **nics = rdma_devices();
    if (!gpus || !nics)
        check_skip(r, gpus ? "no RDMA device" : "no NVIDIA GPU");
    else if (sysroot_exists("/sys/module/nvidia_peermem") ||
             sysroot_exists("/sys/module/nv_peer_mem") ||
             sysroot_exists("/sys/kernel/mm/memory_peers/nv_mem"))
        check_ok(r, source, "nvidia-peermem is loaded");
    else if (has_dma_buf())
        check_ok(r, source, "dma-buf");
    else
        check_bad(r, CHECK_FAIL, "nvidia-peermem or dma-buf", source,
                  "neither nvidia-peermem nor dma-buf, with RDMA device %s", nics[0]);
}

enum { PORTS_MAX = 64, PORT_COUNTERS = 2, PORT_TEXT = 64, GROWTH_MS = 300 };

struct port {
    char name[PORT_TEXT], kind[3 * PORT_TEXT]; /* ports of the same kind are compared */
    bool active;
    double rate_gbps;
    long long errors[PORT_COUNTERS];
};

/* Reads the error counters of a port; -1: this one cannot be read. */
static void read_errors(long long out[PORT_COUNTERS], const char *device, const char *port)
{
    static const char *const counters[PORT_COUNTERS] = {"symbol_error", "link_downed"};
    for (size_t i = 0; i < PORT_COUNTERS; i++)
        if (!sysroot_number(&out[i], "/sys/class/infiniband/%s/ports/%s/counters/%s", device, port,
                            counters[i]))
            out[i] = -1;
}

/* Returns how much the counters that are known both times have grown. */
static long long growth(const struct port *before, const struct port *after)
{
    long long sum = 0;
    for (size_t i = 0; i < PORT_COUNTERS; i++)
        if (before->errors[i] >= 0 && after->errors[i] > before->errors[i])
            sum += after->errors[i] - before->errors[i];
    return sum;
}

/* Devices of one model and board, and ports of one number and kind of network, are neighbours. So
 * second ports, which are often not connected, are compared with each other. */
static void read_port(struct port *p, const char *device, const char *port)
{
    AUTO(free) char *dir = xasprintf("/sys/class/infiniband/%s", device);
    AUTO(free) char *type = sysroot_read("%s/hca_type", dir);
    AUTO(free) char *board = sysroot_read("%s/board_id", dir);
    AUTO(free) char *layer = sysroot_read("%s/ports/%s/link_layer", dir, port);
    AUTO(free) char *state = sysroot_read("%s/ports/%s/state", dir, port);
    AUTO(free) char *rate = sysroot_read("%s/ports/%s/rate", dir, port);
    *p = (struct port){.active = state && strstr(state, "ACTIVE"),
                       .rate_gbps = rate ? strtod(rate, NULL) : 0};
    read_errors(p->errors, device, port);
    snprintf(p->name, sizeof p->name, "%.40s port %.10s", device, port);
    snprintf(p->kind, sizeof p->kind, "%.40s %.40s %.40s %.10s", type ? type : "",
             board ? board : "", layer ? layer : "", port);
}

static int read_ports(struct port *out)
{
    AUTO(strv) char **devices = rdma_devices();
    int n = 0;
    for (char **d = devices; d && *d; d++) {
        AUTO(strv) char **ports = sysroot_list("/sys/class/infiniband/%s/ports", *d);
        for (char **p = ports; p && *p && n < PORTS_MAX; p++)
            read_port(&out[n++], *d, *p);
    }
    return n;
}

/* Adds a port that differs from more than half of its kind. */
static void compare_port(struct gpu_health *f, const struct port *ports, int n, int i)
{
    int kind = 0, active = 0, faster = 0;
    double rate = 0;
    for (int k = 0; k < n; k++) {
        if (strcmp(ports[k].kind, ports[i].kind) != 0)
            continue;
        kind++;
        active += ports[k].active;
        if (ports[k].active && ports[k].rate_gbps > ports[i].rate_gbps) {
            faster++;
            rate = ports[k].rate_gbps;
        }
    }
    if (!ports[i].active && active * 2 > kind)
        gpu_health_add(f, CHECK_FAIL, -1, "%s is not active", ports[i].name);
    else if (ports[i].active && faster * 2 > active)
        gpu_health_add(f, CHECK_FAIL, -1, "%s has %.0f Gb/s, the others %.0f", ports[i].name,
                       ports[i].rate_gbps, rate);
}

static void run_ib(struct check_result *r, struct check_env *env)
{
    struct port before[PORTS_MAX], after[PORTS_MAX];
    AUTO(gpu_health) struct gpu_health f = {0};
    int n = read_ports(before);
    if (n == 0)
        return check_skip(r, "no RDMA device");
    if (env->least == CHECK_LONG)
        (void)poll(NULL, 0,
                   env->growth_ms ? env->growth_ms
                                  : GROWTH_MS); /* a signal only makes the wait shorter */
    int again = read_ports(after);
    for (int i = 0; i < n; i++)
        compare_port(&f, before, n, i);
    for (int i = 0; i < n && n == again; i++)
        if (growth(&before[i], &after[i]) > 0)
            gpu_health_add(&f, CHECK_WARN, -1, "%s: %lld error%s in 0.3 s", after[i].name,
                           growth(&before[i], &after[i]), plural_s(growth(&before[i], &after[i])));
    f.known = n;
    AUTO(free) char *ok = xasprintf("%d port%s", n, plural_s(n));
    gpu_health_report(r, &f, "active, with equal rates", "/sys/class/infiniband", ok);
}

/* Returns how far the nearest adapter of a GPU is. */
static enum topo_path nearest_path(const struct topo *t, const struct topo_nic *nics, size_t n,
                                   int gpu)
{
    enum topo_path best = TOPO_PATH_SYS;
    for (size_t i = 0; i < n; i++) {
        enum topo_path p = topo_path(t, topo_gpu(t, gpu)->bus_id, nics[i].bus_id);
        best = p < best ? p : best;
    }
    return best;
}

static void run_near(struct check_result *r, struct check_env *env)
{
    AUTO(free) struct topo_nic *nics = NULL;
    AUTO(gpu_health) struct gpu_health f = {0};
    size_t n = env->topo ? topo_nics(&nics, env->topo) : 0;
    int count = env->topo ? topo_gpu_count(env->topo) : 0, near = 0;
    if (count == 0 || n == 0 || !nics[0].rdma)
        return check_skip(r, count ? "no RDMA device" : "no GPU");
    /* With one adapter, the GPUs of the other sockets have no better choice. */
    if (n == 1)
        return check_ok(r, "hwloc", "one RDMA device for all GPUs");
    for (int i = 0; i < count; i++)
        near += nearest_path(env->topo, nics, n, i) < TOPO_PATH_SYS;
    for (int i = 0; i < count && near; i++)
        if (nearest_path(env->topo, nics, n, i) == TOPO_PATH_SYS)
            gpu_health_add(&f, CHECK_WARN, topo_gpu(env->topo, i)->index,
                           "the nearest RDMA device is on another socket");
    f.known = count;
    gpu_health_report(r, &f, "an RDMA device on each GPU's socket", "hwloc",
                      near ? "each GPU has one on its socket" : "none is near a GPU");
}

static const char p2p_why[] =
    "Without direct access between GPUs, NCCL copies through host memory, or hangs.";
static const char rdma_why[] = "NCCL uses all adapters; the slowest one sets the pace of a job.";

const struct check checks_link[] = {
    {"link.nvlink", "NVLinks", CHECK_REPORT, run_nvlink, .needs = {"gpu.answers"},
     .why = "A GPU with fewer active links slows down all collectives of the node.",
     .advice = "reset the GPU at this end; if the link stays inactive, have the GPU or the link "
               "replaced: nvidia-smi nvlink -s"},
    {"link.p2p", "peer access between GPUs", CHECK_LONG, run_p2p, .needs = {"gpu.answers"},
     .why = p2p_why,
     .advice = "look at ACS and the IOMMU (link.acs, link.iommu), else the chipset: nvidia-smi "
               "topo -p2p r"},
    {"link.acs", "access control of PCIe bridges", CHECK_LONG, run_acs, .needs = {"gpu.answers"},
     .why = p2p_why, .advice = "switch ACS off in the BIOS"},
    {"link.iommu", "IOMMU", CHECK_QUICK, run_iommu, .why = p2p_why,
     .advice = "add iommu=pt to the kernel's command line, and restart the machine"},
    {"link.gdr", "GPUDirect RDMA", CHECK_LONG, run_gdr,
     .why = "Without it, data between GPU and network take the way through host memory.",
     .advice = "modprobe nvidia-peermem; use NCCL 2.23 or newer, since older ones look for it "
               "under another name"},
    {"link.ib", "RDMA ports", CHECK_LONG, run_ib, .why = rdma_why,
     .advice = "look at the cable and the switch of this port: ibstat, mlxlink"},
    {"link.near", "RDMA device near each GPU", CHECK_LONG, run_near, .why = rdma_why,
     .advice = "choose devices with NCCL_IB_HCA, or place the ranks near them: drover topo"},
    {0},
};
