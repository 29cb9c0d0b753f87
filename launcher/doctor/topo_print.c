#include "launcher/doctor/topo_print.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/plural.h"
#include "launcher/node/topo_path.h"

/* The rows and columns of the matrix: the GPUs, then the interfaces. */
struct devices {
    const struct topo *topo;
    struct topo_nic *nics;
    size_t gpu_count, nic_count, count;
};

static void find_devices(struct devices *d, const struct topo *t)
{
    d->topo = t;
    d->gpu_count = (size_t)topo_gpu_count(t);
    d->nic_count = topo_nics(&d->nics, t);
    d->count = d->gpu_count + d->nic_count;
}

static const char *bus_id_of(const struct devices *d, size_t i)
{
    return i < d->gpu_count ? topo_gpu(d->topo, (int)i)->bus_id : d->nics[i - d->gpu_count].bus_id;
}

/* "GPU0" or "mlx5_0" */
static char *label_of(const struct devices *d, size_t i)
{
    return i < d->gpu_count ? xasprintf("GPU%d", topo_gpu(d->topo, (int)i)->index)
                            : xstrdup(d->nics[i - d->gpu_count].name);
}

/* A cell of the matrix: "NV18" if two GPUs have NVLinks, else their path. */
static char *cell_of(const struct devices *d, size_t a, size_t b, bool *seen)
{
    int links = a != b && a < d->gpu_count && b < d->gpu_count
                    ? topo_nvlinks(topo_gpu(d->topo, (int)a), topo_gpu(d->topo, (int)b))
                    : 0;
    if (links > 0)
        return xasprintf("NV%d", links);
    /* A port of an adapter is a function of its own, and still a row of its own. */
    enum topo_path p =
        a == b ? TOPO_PATH_SELF : topo_path(d->topo, bus_id_of(d, a), bus_id_of(d, b));
    if (p == TOPO_PATH_SELF && a != b)
        p = TOPO_PATH_PIX;
    if (seen)
        seen[p] = true;
    return xstrdup(topo_path_words[p].name);
}

static char *cpus_near(const struct devices *d, size_t i)
{
    AUTO(bitmap) hwloc_bitmap_t cpus = topo_cpus_near(d->topo, bus_id_of(d, i));
    char *text = NULL;
    return hwloc_bitmap_list_asprintf(&text, cpus) < 0 ? xstrdup("?") : text;
}

/* Returns the OS index of the NUMA node to which a device is attached; -1: several, or unknown. */
static int numa_of(const struct devices *d, size_t i)
{
    if (i < d->gpu_count && topo_gpu(d->topo, (int)i)->numa >= 0)
        return topo_gpu(d->topo, (int)i)->numa;
    hwloc_topology_t hw = topo_hwloc(d->topo);
    hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(hw, bus_id_of(d, i));
    hwloc_obj_t near = pci ? hwloc_get_non_io_ancestor_obj(hw, pci) : NULL;
    return near && hwloc_bitmap_weight(near->nodeset) == 1 ? hwloc_bitmap_first(near->nodeset) : -1;
}

static int nic_for(const struct devices *d, size_t gpu)
{
    return topo_nearest_nic(d->topo, d->nics, d->nic_count, (int)gpu);
}

/* ---- the tree ------------------------------------------------------------------------------- */

static void print_size(struct strbuf *b, uint64_t bytes)
{
    if (bytes)
        strbuf_printf(b, ", %.0f GiB", (double)bytes / (1 << 30));
}

static size_t device_at(const struct devices *d, hwloc_obj_t pci)
{
    hwloc_topology_t hw = topo_hwloc(d->topo);
    for (size_t i = 0; i < d->count; i++)
        if (bus_id_of(d, i)[0] && hwloc_get_pcidev_by_busidstring(hw, bus_id_of(d, i)) == pci)
            return i;
    return d->count;
}

static bool has_device(const struct devices *d, hwloc_obj_t o)
{
    if (o->type == HWLOC_OBJ_PCI_DEVICE)
        return device_at(d, o) < d->count;
    for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling)
        if (has_device(d, c))
            return true;
    return false;
}

static void print_device(struct strbuf *b, const struct devices *d, size_t i)
{
    AUTO(free) char *label = label_of(d, i);
    strbuf_printf(b, "%-7s %s", label, bus_id_of(d, i));
    if (i < d->gpu_count) {
        const struct gpu *g = topo_gpu(d->topo, (int)i);
        int parts = 0;
        strbuf_printf(b, "  %s", g->name);
        while (parts < GPU_MIG_MAX && g->mig_uuids[parts][0])
            parts++;
        if (parts)
            strbuf_printf(b, " (%d MIG instance%s)", parts, plural_s(parts));
    } else if (d->nics[i - d->gpu_count].rdma) {
        strbuf_puts(b, "  RDMA");
    }
    strbuf_puts(b, "\n");
}

/* Bridges and devices below an object. Parts of the bus without GPUs and interfaces are left out.
 * A host bridge with its devices is one level, and so is a switch. */
static void print_io(struct strbuf *b, const struct devices *d, hwloc_obj_t first, int indent)
{
    for (hwloc_obj_t o = first; o; o = o->next_sibling) {
        if (!has_device(d, o))
            continue;
        if (o->type == HWLOC_OBJ_PCI_DEVICE) {
            strbuf_printf(b, "%*s", indent, "");
            print_device(b, d, device_at(d, o));
        } else if (o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
            strbuf_printf(b, "%*shost bridge %04x:%02x\n", indent, "",
                          (unsigned)o->attr->bridge.downstream.pci.domain,
                          (unsigned)o->attr->bridge.downstream.pci.secondary_bus);
            print_io(b, d, o->io_first_child, indent + 2);
        } else if (o->io_first_child && o->io_first_child->next_sibling) { /* a switch */
            strbuf_printf(b, "%*sPCIe switch\n", indent, "");
            print_io(b, d, o->io_first_child, indent + 2);
        } else { /* a port */
            print_io(b, d, o->io_first_child, indent);
        }
    }
}

/* Devices of an object that is not one NUMA node, and of all objects above and in a NUMA node. */
static void print_io_of(struct strbuf *b, const struct devices *d, hwloc_obj_t o, int indent)
{
    print_io(b, d, o->io_first_child, indent);
    for (hwloc_obj_t c = o->first_child; c; c = c->next_sibling)
        print_io_of(b, d, c, indent);
}

static void print_numa(struct strbuf *b, const struct devices *d, hwloc_obj_t numa)
{
    AUTO(free) char *cpus = NULL;
    if (hwloc_bitmap_list_asprintf(&cpus, numa->cpuset) < 0)
        return;
    int cores =
        hwloc_get_nbobjs_inside_cpuset_by_type(topo_hwloc(d->topo), numa->cpuset, HWLOC_OBJ_CORE);
    strbuf_printf(b, "  NUMA node %u: %d core%s, CPUs %s", numa->os_index, cores, plural_s(cores),
                  cpus);
    print_size(b, numa->attr->numanode.local_memory);
    strbuf_puts(b, "\n");
    hwloc_obj_t top = numa->parent;
    while (top->parent && hwloc_bitmap_weight(top->parent->nodeset) == 1)
        top = top->parent;
    print_io_of(b, d, top, 4);
}

/* Bridges whose place is a package or the machine, which has several NUMA nodes. */
static void print_shared_io(struct strbuf *b, const struct devices *d, hwloc_obj_t o)
{
    if (hwloc_bitmap_weight(o->nodeset) <= 1)
        return;
    AUTO(strbuf) struct strbuf io = {0};
    print_io(&io, d, o->io_first_child, 4);
    if (io.len) {
        AUTO(free) char *nodes = NULL;
        if (hwloc_bitmap_list_asprintf(&nodes, o->nodeset) >= 0)
            strbuf_printf(b, "  NUMA nodes %s\n%s", nodes, strbuf_str(&io));
    }
    for (hwloc_obj_t c = o->first_child; c; c = c->next_sibling)
        print_shared_io(b, d, c);
}

static void print_tree(struct strbuf *b, const struct devices *d)
{
    hwloc_topology_t hw = topo_hwloc(d->topo);
    int cores = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE);
    int cpus = hwloc_bitmap_weight(topo_allowed(d->topo));
    strbuf_printf(b, "  %d core%s, %d CPU%s may be used", cores, plural_s(cores), cpus,
                  plural_s(cpus));
    if (topo_cpu_quota(d->topo))
        strbuf_printf(b, " (the cgroup allows the time of %d)", topo_cpu_quota(d->topo));
    strbuf_printf(b, ", %zu GPU%s, %zu network interface%s\n", d->gpu_count, plural_s(d->gpu_count),
                  d->nic_count, plural_s(d->nic_count));
    for (hwloc_obj_t n = NULL; (n = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, n));)
        print_numa(b, d, n);
    print_shared_io(b, d, hwloc_get_root_obj(hw));
    for (size_t i = 0; i < d->count; i++)
        if (!bus_id_of(d, i)[0] || !hwloc_get_pcidev_by_busidstring(hw, bus_id_of(d, i))) {
            strbuf_puts(b, "  not on a bus that is visible here: ");
            print_device(b, d, i);
        }
}

/* ---- the matrix ----------------------------------------------------------------------------- */

static void print_legend(struct strbuf *b, const bool *seen, bool nvlinks)
{
    strbuf_puts(b, "\n");
    if (nvlinks)
        strbuf_puts(b, "  NV#   # NVLinks, directly or through NVSwitches\n");
    for (int p = TOPO_PATH_PIX; p < TOPO_PATHS; p++)
        if (seen[p])
            strbuf_printf(b, "  %-5s %s\n", topo_path_words[p].name, topo_path_words[p].meaning);
}

static void print_gpu_columns(struct strbuf *b, const struct devices *d, size_t gpu)
{
    AUTO(free) char *cpus = cpus_near(d, gpu);
    int nic = nic_for(d, gpu), numa = numa_of(d, gpu);
    char number[12] = "-";
    if (numa >= 0)
        snprintf(number, sizeof number, "%d", numa);
    strbuf_printf(b, " %-20s %-5s %s", cpus, number, nic < 0 ? "-" : d->nics[nic].name);
}

static void print_matrix(struct strbuf *b, const struct devices *d)
{
    bool seen[TOPO_PATHS] = {false}, nvlinks = false;
    strbuf_printf(b, "\n  %-7s", "");
    for (size_t i = 0; i < d->count; i++) {
        AUTO(free) char *label = label_of(d, i);
        strbuf_printf(b, " %-6s", label);
    }
    strbuf_puts(b, " CPUs                 NUMA  use NIC\n");
    for (size_t row = 0; row < d->count; row++) {
        AUTO(free) char *label = label_of(d, row);
        strbuf_printf(b, "  %-7s", label);
        for (size_t i = 0; i < d->count; i++) {
            AUTO(free) char *cell = cell_of(d, row, i, seen);
            nvlinks |= strncmp(cell, "NV", 2) == 0;
            strbuf_printf(b, " %-6s", cell);
        }
        if (row < d->gpu_count)
            print_gpu_columns(b, d, row);
        while (b->len && b->data[b->len - 1] == ' ')
            b->data[--b->len] = '\0';
        strbuf_puts(b, "\n");
    }
    print_legend(b, seen, nvlinks);
}

void topo_print(struct strbuf *out, const struct topo *t)
{
    struct devices d;
    find_devices(&d, t);
    print_tree(out, &d);
    if (d.gpu_count)
        print_matrix(out, &d);
    free(d.nics);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *numa_json(const struct topo *t)
{
    json_t *list = json_array();
    for (hwloc_obj_t n = NULL;
         (n = hwloc_get_next_obj_by_type(topo_hwloc(t), HWLOC_OBJ_NUMANODE, n));) {
        AUTO(free) char *cpus = NULL;
        if (hwloc_bitmap_list_asprintf(&cpus, n->cpuset) >= 0)
            json_array_append_new(list, json_pack("{s:i,s:s,s:I}", "node", (int)n->os_index, "cpus",
                                                  cpus, "memory_bytes",
                                                  (json_int_t)n->attr->numanode.local_memory));
    }
    return list;
}

static json_t *number_or_null(int n)
{
    return n < 0 ? json_null() : json_integer(n);
}

static json_t *gpu_json(const struct devices *d, size_t i)
{
    const struct gpu *g = topo_gpu(d->topo, (int)i);
    AUTO(free) char *cpus = cpus_near(d, i);
    int nic = nic_for(d, i);
    return json_pack("{s:i,s:s,s:s,s:s,s:o,s:s,s:o}", "index", g->index, "name", g->name, "uuid",
                     g->uuid, "bus_id", g->bus_id, "numa", number_or_null(numa_of(d, i)), "cpus",
                     cpus, "nic", nic < 0 ? json_null() : json_text(d->nics[nic].name));
}

json_t *topo_print_json(const struct topo *t)
{
    struct devices d;
    find_devices(&d, t);
    json_t *gpus = json_array(), *nics = json_array(), *rows = json_array();
    for (size_t i = 0; i < d.gpu_count; i++)
        json_array_append_new(gpus, gpu_json(&d, i));
    for (size_t i = 0; i < d.nic_count; i++)
        json_array_append_new(nics,
                              json_pack("{s:o,s:s,s:b,s:o}", "name", json_text(d.nics[i].name),
                                        "bus_id", d.nics[i].bus_id, "rdma", d.nics[i].rdma, "numa",
                                        number_or_null(numa_of(&d, d.gpu_count + i))));
    for (size_t row = 0; row < d.count; row++) {
        json_t *cells = json_array();
        for (size_t i = 0; i < d.count; i++) {
            AUTO(free) char *cell = cell_of(&d, row, i, NULL);
            json_array_append_new(cells, json_string(cell));
        }
        json_array_append_new(rows, cells);
    }
    free(d.nics);
    return json_pack("{s:i,s:i,s:o,s:o,s:o,s:o}", "cpus", hwloc_bitmap_weight(topo_allowed(t)),
                     "cores", hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_CORE), "numa",
                     numa_json(t), "gpus", gpus, "nics", nics, "paths", rows);
}
