#include "launcher/node/topo_path.h"

#include <stdio.h>
#include <string.h>

const struct topo_path_words topo_path_words[TOPO_PATHS] = {
    [TOPO_PATH_SELF] = {"X", "the device itself"},
    [TOPO_PATH_PIX] = {"PIX", "through at most one PCIe bridge"},
    [TOPO_PATH_PXB] = {"PXB", "through several PCIe bridges, but not through the host bridge"},
    [TOPO_PATH_PHB] = {"PHB", "through a PCIe host bridge (usually the CPU)"},
    [TOPO_PATH_NODE] = {"NODE", "through several PCIe host bridges of one NUMA node"},
    [TOPO_PATH_SYS] = {"SYS", "through the link between NUMA nodes"},
};

/* ---- paths ---------------------------------------------------------------------------------- */

static hwloc_obj_t device(const struct topo *t, const char *bus_id)
{
    return bus_id[0] ? hwloc_get_pcidev_by_busidstring(topo_hwloc(t), bus_id) : NULL;
}

static bool is_host_bridge(hwloc_obj_t o)
{
    return o->type == HWLOC_OBJ_BRIDGE && o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

static hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b)
{
    for (hwloc_obj_t x = a; x; x = x->parent)
        for (hwloc_obj_t y = b; y; y = y->parent)
            if (x == y)
                return x;
    return NULL;
}

/* Returns the number of bridges between a device and one of its ancestors. */
static int bridges_below(hwloc_obj_t o, hwloc_obj_t ancestor)
{
    int n = 0;
    for (o = o->parent; o && o != ancestor; o = o->parent)
        n++;
    return n;
}

enum topo_path topo_path(const struct topo *t, const char *bus_a, const char *bus_b)
{
    hwloc_obj_t a = device(t, bus_a), b = device(t, bus_b);
    hwloc_obj_t common = a && b ? common_ancestor(a, b) : NULL;
    if (!common)
        return TOPO_PATH_SYS;
    if (a == b)
        return TOPO_PATH_SELF;
    if (common->type == HWLOC_OBJ_BRIDGE && !is_host_bridge(common))
        return bridges_below(a, common) <= 1 && bridges_below(b, common) <= 1 ? TOPO_PATH_PIX
                                                                              : TOPO_PATH_PXB;
    if (is_host_bridge(common))
        return TOPO_PATH_PHB;
    bool one_node = hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_NUMANODE) == 1 ||
                    hwloc_bitmap_weight(common->nodeset) == 1;
    return one_node ? TOPO_PATH_NODE : TOPO_PATH_SYS;
}

int topo_nvlinks(const struct gpu *a, const struct gpu *b)
{
    int direct = 0, switch_a = 0, switch_b = 0;
    for (int i = 0; i < GPU_NVLINK_PEERS_MAX; i++) {
        if (strcmp(a->nvlinks[i].to, b->bus_id) == 0)
            direct = a->nvlinks[i].count;
        if (strcmp(a->nvlinks[i].to, GPU_NVLINK_SWITCH) == 0)
            switch_a = a->nvlinks[i].count;
        if (strcmp(b->nvlinks[i].to, GPU_NVLINK_SWITCH) == 0)
            switch_b = b->nvlinks[i].count;
    }
    return direct ? direct : switch_a < switch_b ? switch_a : switch_b;
}

/* ---- network interfaces --------------------------------------------------------------------- */

static void add_nics(struct topo_nic **out, size_t *n, const struct topo *t,
                     hwloc_obj_osdev_type_t type)
{
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_osdev(topo_hwloc(t), o))) {
        hwloc_obj_t pci = o->parent;
        if (o->attr->osdev.type != type || !o->name || pci->type != HWLOC_OBJ_PCI_DEVICE)
            continue;
        const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
        *out = xrealloc(*out, *n + 1, sizeof **out);
        struct topo_nic *nic = &(*out)[(*n)++];
        *nic = (struct topo_nic){.name = o->name, .rdma = type == HWLOC_OBJ_OSDEV_OPENFABRICS};
        snprintf(nic->bus_id, sizeof nic->bus_id, "%04x:%02x:%02x.%x", (unsigned)a->domain, a->bus,
                 a->dev, a->func);
    }
}

size_t topo_nics(struct topo_nic **out, const struct topo *t)
{
    size_t n = 0;
    *out = NULL;
    add_nics(out, &n, t, HWLOC_OBJ_OSDEV_OPENFABRICS);
    if (n == 0)
        add_nics(out, &n, t, HWLOC_OBJ_OSDEV_NETWORK);
    return n;
}

bool topo_has_fabric(const struct topo *t)
{
    enum {
        CLASS_FABRIC_FIRST = 0x0207, /* InfiniBand controller; 0x0208: fabric controller */
        CLASS_FABRIC_LAST = 0x0208,
        VENDOR_AMAZON = 0x1d0f, /* its EFA has devices 0xefa0, … */
        VENDOR_CRAY = 0x17db,   /* Slingshot, whose class is Ethernet */
        VENDOR_MELLANOX = 0x15b3
    };
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_osdev(topo_hwloc(t), o)))
        if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            return true;
    while ((o = hwloc_get_next_pcidev(topo_hwloc(t), o))) {
        const struct hwloc_pcidev_attr_s *a = &o->attr->pcidev;
        if ((a->class_id >= CLASS_FABRIC_FIRST && a->class_id <= CLASS_FABRIC_LAST) ||
            (a->vendor_id == VENDOR_AMAZON && a->device_id >> 4 == 0xefa) ||
            a->vendor_id == VENDOR_CRAY || a->vendor_id == VENDOR_MELLANOX)
            return true;
    }
    return false;
}

/* Returns the distance of a GPU's nearest interface, and the set of these interfaces. */
static enum topo_path nearest(const struct topo *t, const struct topo_nic *nics, size_t n, int gpu,
                              bool *is_nearest)
{
    enum topo_path best = TOPO_PATHS;
    for (size_t i = 0; i < n; i++) {
        enum topo_path p = topo_path(t, topo_gpu(t, gpu)->bus_id, nics[i].bus_id);
        if (p < best)
            memset(is_nearest, 0, n * sizeof *is_nearest);
        best = p < best ? p : best;
        is_nearest[i] = p == best;
    }
    return best;
}

int topo_nearest_nic(const struct topo *t, const struct topo_nic *nics, size_t n, int gpu)
{
    if (n == 0)
        return -1;
    AUTO(free) bool *mine = xcalloc(n, sizeof *mine);
    AUTO(free) bool *others = xcalloc(n, sizeof *others);
    (void)nearest(t, nics, n, gpu, mine);
    size_t turn = 0, count = 0;
    for (int g = 0; g < gpu; g++) {
        memset(others, 0, n * sizeof *others);
        (void)nearest(t, nics, n, g, others);
        turn += memcmp(mine, others, n * sizeof *mine) == 0;
    }
    for (size_t i = 0; i < n; i++)
        count += mine[i];
    for (size_t i = 0, at = turn % count; i < n; i++)
        if (mine[i] && at-- == 0)
            return (int)i;
    return -1; /* cannot be: `mine` has `count` interfaces */
}

hwloc_bitmap_t topo_cpus_near(const struct topo *t, const char *bus_id)
{
    hwloc_obj_t pci = device(t, bus_id);
    hwloc_obj_t near = pci ? hwloc_get_non_io_ancestor_obj(topo_hwloc(t), pci) : NULL;
    hwloc_bitmap_t cpus = hwloc_bitmap_dup(topo_allowed(t));
    if (near && hwloc_bitmap_intersects(near->cpuset, cpus))
        hwloc_bitmap_and(cpus, cpus, near->cpuset);
    return cpus;
}
