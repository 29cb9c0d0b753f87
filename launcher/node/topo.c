#include "launcher/node/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/log.h"
#include "common/private_dir.h"
#include "launcher/node/cgroup.h"

enum {
    QUOTA_MAX = 65535,
    NVLINKS_MAX = 1000,
    FILE_MAX = 16 << 20, /* of an XML; a machine with 2,048 hardware threads needs 2 MB */
    FILES_PER_HOST = 16  /* of the cache; a host may have several cpusets */
};

struct topo {
    hwloc_topology_t hw;
    char *name;
    hwloc_bitmap_t allowed;
    int quota;
    struct gpu *gpus;
    int gpu_count;
    bool driver_failed, unbindable;
};

void topo_free(struct topo *t)
{
    if (!t)
        return;
    topo_known_release(t->hw);
    hwloc_bitmap_free(t->allowed);
    free(t->gpus);
    free(t->name);
    free(t);
}

hwloc_topology_t topo_hwloc(const struct topo *t)
{
    return t->hw;
}

const char *topo_name(const struct topo *t)
{
    return t->name;
}

hwloc_const_bitmap_t topo_allowed(const struct topo *t)
{
    return t->allowed;
}

bool topo_is_unbindable(const struct topo *t)
{
    return t->unbindable;
}

int topo_cpu_quota(const struct topo *t)
{
    return t->quota;
}

int topo_gpu_count(const struct topo *t)
{
    return t->gpu_count;
}

const struct gpu *topo_gpu(const struct topo *t, int i)
{
    return &t->gpus[i];
}

/* Returns true, and sets `*out`, if `uuid` begins with the word. */
static bool has_prefix(const char **out, const char *uuid, const char *word, size_t len)
{
    if (strncmp(uuid, word, len) != 0)
        return false;
    *out = uuid;
    return true;
}

bool topo_find_gpu(const struct gpu **gpu, const char **uuid, const struct topo *t,
                   const char *word, size_t len)
{
    int found = 0;
    bool is_index = len > 0 && len < 8 && strspn(word, "0123456789") >= len;
    if (!is_index && (len < 5 || (strncmp(word, "GPU-", 4) != 0 && strncmp(word, "MIG-", 4) != 0)))
        return false;
    for (int i = 0; i < topo_gpu_count(t); i++) {
        const struct gpu *g = topo_gpu(t, i);
        int before = found;
        if (is_index) {
            found += g->index == atoi(word) && has_prefix(uuid, g->uuid, "", 0);
        } else {
            found += has_prefix(uuid, g->uuid, word, len);
            for (int p = 0; p < GPU_MIG_MAX; p++)
                found += has_prefix(uuid, g->mig_uuids[p], word, len);
        }
        if (found > before)
            *gpu = g;
    }
    return found == 1;
}

/* ---- cache ---------------------------------------------------------------------------------- */

char *topo_cache_key(void)
{
    static const char *const overrides[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT",
                                            "HWLOC_COMPONENTS", "HWLOC_CPUID_PATH"};
    for (size_t i = 0; i < COUNT_OF(overrides); i++)
        if (getenv(overrides[i]))
            return NULL;
    AUTO(free) char *boot = file_line("/proc/sys/kernel/random/boot_id");
    AUTO(free) char *online = file_line("/sys/devices/system/cpu/online");
    AUTO(free) char *cpus = file_field("/proc/self/status", "Cpus_allowed_list:");
    AUTO(free) char *mems = file_field("/proc/self/status", "Mems_allowed_list:");
    if (!boot || !online || !cpus || !mems)
        return NULL;
    return xasprintf("1 hwloc=%x boot=%s online=%s cpus=%s mems=%s", hwloc_get_api_version(), boot,
                     online, cpus, mems);
}

/* Returns true if only this user can write in the directory. Creates it if it is missing. */
static bool is_own(const char *dir)
{
    struct stat st;
    return (mkdir(dir, 0700) == 0 || errno == EEXIST) && lstat(dir, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* Returns the directory of the cache; NULL: none is possible. */
static char *cache_dir(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    AUTO(free) char *base = NULL;
    if (xdg && xdg[0] == '/')
        base = xstrdup(xdg);
    else if (home && home[0] == '/')
        base = xasprintf("%s/.cache", home);
    if (base) {
        (void)mkdir(base, 0700); /* it may exist; is_own() reports any failure */
        AUTO(free) char *dir = xasprintf("%s/drover", base);
        if (is_own(dir))
            return TAKE(dir);
    }
    char *dir = NULL;
    return private_dir_in(&dir, "/tmp", NULL) < 0 ? NULL : dir;
}

/* Returns the path of the file for a key; NULL: there is no cache. The name contains the host,
 * since hosts may share a home directory, and a hash of the key, since a host may have several
 * cpusets. */
static char *file_path(const char *key)
{
    char host[65] = "";
    AUTO(free) char *dir = cache_dir();
    (void)gethostname(host, sizeof host - 1); /* an empty name also works, since the key decides */
    for (char *p = host; *p; p++)
        if (*p == '/')
            *p = '_';
    return dir ? xasprintf(
                     "%s/topology-%s-%u.xml", dir, host,
                     (unsigned)(fnv_hash_bytes(FNV_HASH_INIT, key, strlen(key)) % FILES_PER_HOST))
               : NULL;
}

/* Reads a regular file that only this user can write. */
static int read_own(struct strbuf *out, const char *path)
{
    AUTO(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return -EPERM;
    return file_read_fd(out, fd, FILE_MAX);
}

/* Returns the line that precedes the XML. Its checksum detects damage. It need not detect an
 * attack, since other users cannot write here. */
static char *format_header(const char *key, const char *xml, size_t len)
{
    return xasprintf("drover-topology %s bytes=%zu sum=%016" PRIx64 "\n", key, len,
                     fnv_hash_bytes(FNV_HASH_INIT, xml, len));
}

char *topo_cache_get(const char *key, size_t *len)
{
    AUTO(free) char *path = file_path(key);
    AUTO(strbuf) struct strbuf b = {0};
    if (!path || read_own(&b, path) < 0)
        return NULL;
    const char *newline = b.len ? memchr(b.data, '\n', b.len) : NULL;
    size_t skip = newline ? (size_t)(newline + 1 - b.data) : 0;
    AUTO(free) char *header = format_header(key, b.data + skip, b.len - skip);
    if (strlen(header) != skip || memcmp(header, b.data, skip) != 0)
        return NULL;
    strbuf_consume(&b, skip);
    *len = b.len;
    return strbuf_take(&b);
}

void topo_cache_put(const char *key, const char *xml, size_t len)
{
    AUTO(free) char *path = file_path(key);
    AUTO(free) char *header = format_header(key, xml, len);
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_puts(&b, header);
    strbuf_add(&b, xml, len);
    int rc = path ? file_replace(path, b.data, b.len, 0600) : 0;
    if (rc < 0)
        log_debug("topology cache not written: %s", strerror(-rc));
}

/* ---- this machine --------------------------------------------------------------------------- */

/* Calls hwloc_topology_init() so that it loads no plug-ins. The first call in a process would load
 * those for libxml2, OpenCL, X and libpciaccess, which takes 3 ms. hwloc's built-in components do
 * their work. */
static int init_without_plugins(hwloc_topology_t *hw)
{
    const char *variable = "HWLOC_PLUGINS_PATH", *users = getenv(variable);
    AUTO(free) char *saved = users ? xstrdup(users) : NULL;
    setenv(variable, "/dev/null", 1);
    int rc = hwloc_topology_init(hw);
    if (saved)
        setenv(variable, saved, 1);
    else
        unsetenv(variable);
    return rc;
}

static hwloc_topology_t new_topology(unsigned long flags)
{
    /* An hwloc that was built without plug-ins has these components built in, so they are also
     * excluded by name. hwloc ignores names that it does not know. "pci" is libpciaccess, which
     * leaks memory; sysfs provides everything except the names of devices. */
    static const char *const unused[] = {"opencl",    "cuda", "nvml", "rsmi",
                                         "levelzero", "gl",   "pci"};
    hwloc_topology_t hw = NULL;
    if (init_without_plugins(&hw) < 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(unused); i++)
        (void)hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            unused[i]);
    hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(hw, flags);
    return hw;
}

/* Returns the topology in the XML, or that of this machine if it is NULL. Returns NULL if hwloc
 * rejects it. */
static hwloc_topology_t load(unsigned long flags, const char *xml, size_t len)
{
    hwloc_topology_t hw = new_topology(flags);
    if (hw && (!xml || hwloc_topology_set_xmlbuffer(hw, xml, (int)len) == 0) &&
        hwloc_topology_load(hw) == 0)
        return hw;
    topo_known_release(hw);
    return NULL;
}

/* Loads this machine's topology from the cache, but reads the CPUs that its cgroup allows again. */
static hwloc_topology_t from_cache(const char *key)
{
    size_t len = 0;
    AUTO(free) char *xml = key ? topo_cache_get(key, &len) : NULL;
    return xml ? load(HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
                          HWLOC_TOPOLOGY_FLAG_THISSYSTEM_ALLOWED_RESOURCES,
                      xml, len)
               : NULL;
}

static hwloc_topology_t discover(const char *key)
{
    hwloc_topology_t hw = load(0, NULL, 0);
    char *xml = NULL;
    int len = 0;
    if (hw && key && hwloc_topology_is_thissystem(hw) &&
        hwloc_topology_export_xmlbuffer(hw, &xml, &len, 0) == 0 && len > 1) {
        topo_cache_put(key, xml, (size_t)len - 1); /* hwloc counts the NUL */
        hwloc_free_xmlbuffer(hw, xml);
    }
    return hw;
}

/* Sets the CPUs that this process may use. hwloc reads those of the cgroup. The affinity of this
 * process may be narrower (taskset, an outer launcher). */
static void set_allowed(struct topo *t)
{
    t->allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t->hw));
    AUTO(bitmap) hwloc_bitmap_t affinity = hwloc_bitmap_alloc();
    if (hwloc_topology_is_thissystem(t->hw) &&
        hwloc_get_cpubind(t->hw, affinity, HWLOC_CPUBIND_THREAD) == 0 &&
        hwloc_bitmap_intersects(affinity, t->allowed))
        hwloc_bitmap_and(t->allowed, t->allowed, affinity);
}

/* Sets the NUMA node of each GPU for which NVML has not reported it: the node to which the GPU's
 * bus is attached. */
static void locate_gpus(struct topo *t)
{
    for (int i = 0; i < t->gpu_count; i++) {
        struct gpu *g = &t->gpus[i];
        hwloc_obj_t pci =
            g->numa < 0 && g->bus_id[0] ? hwloc_get_pcidev_by_busidstring(t->hw, g->bus_id) : NULL;
        hwloc_obj_t ancestor = pci ? hwloc_get_non_io_ancestor_obj(t->hw, pci) : NULL;
        if (ancestor && hwloc_bitmap_weight(ancestor->nodeset) == 1)
            g->numa = hwloc_bitmap_first(ancestor->nodeset);
    }
}

int topo_load(struct topo **out, struct err *e)
{
    return topo_load_within(out, TOPO_DRIVER_MS, e);
}

/* Returns true if a sandbox forbids this process to choose its CPUs, even those that it has. */
static bool binding_is_refused(void)
{
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) == 0 &&
           sched_setaffinity(0, sizeof own, &own) < 0 && (errno == EPERM || errno == ENOSYS);
}

int topo_load_within(struct topo **out, int driver_ms, struct err *e)
{
    AUTO(topo) struct topo *t = xzalloc(sizeof *t);
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    t->name = xstrdup(host);
    AUTO(free) char *key = topo_cache_key();
    t->hw = from_cache(key);
    if (!t->hw)
        t->hw = discover(key);
    if (!t->hw)
        return err_set(e, -EIO, "hwloc: cannot discover this machine's topology: %s",
                       strerror(errno));
    set_allowed(t);
    t->quota = cgroup_cpus("");
    t->unbindable = binding_is_refused();
    struct err gpu_error = {0};
    t->driver_failed = gpu_list(&t->gpus, &t->gpu_count, driver_ms, &gpu_error) < 0;
    if (t->driver_failed)
        log_warn("GPUs are not used: %s", gpu_error.text);
    locate_gpus(t);
    *out = TAKE(t);
    return 0;
}

bool topo_driver_failed(const struct topo *t)
{
    return t->driver_failed;
}

int topo_add_nvlinks(struct topo *t, struct err *e)
{
    return gpu_add_nvlinks(t->gpus, t->gpu_count, TOPO_DRIVER_MS, e);
}

/* ---- recorded machines ---------------------------------------------------------------------- */

static int copy_text(char *out, size_t size, const char *text)
{
    if (strlen(text) >= size)
        return -EINVAL;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int gpu_from_json(struct gpu *g, json_t *item, struct err *e)
{
    json_error_t json_error;
    const char *uuid, *name, *bus_id, *to;
    json_t *mig = NULL, *nvlinks = NULL, *instance, *links;
    size_t i;
    *g = (struct gpu){.numa = -1};
    if (!json_fits_int(item, NULL))
        return err_set(e, -EINVAL, "GPU record: a number is too large");
    if (json_unpack_ex(item, &json_error, JSON_STRICT, "{s:i,s:s,s:s,s:s,s?i,s?o,s?o}", "index",
                       &g->index, "uuid", &uuid, "name", &name, "bus_id", &bus_id, "numa", &g->numa,
                       "parts", &mig, "nvlinks", &nvlinks) < 0)
        return err_set(e, -EINVAL, "GPU record: %s", json_error.text);
    if (g->index < 0 || copy_text(g->uuid, sizeof g->uuid, uuid) < 0 ||
        copy_text(g->name, sizeof g->name, name) < 0 ||
        gpu_bus_id(g->bus_id, sizeof g->bus_id, bus_id) < 0)
        return err_set(e, -EINVAL, "GPU %d: malformed bus_id, or a text is too long", g->index);
    json_array_foreach (mig, i, instance)
        if (i >= GPU_MIG_MAX || !json_is_string(instance) ||
            copy_text(g->mig_uuids[i], sizeof g->mig_uuids[i], json_string_value(instance)) < 0)
            return err_set(e, -EINVAL, "GPU %d: malformed parts", g->index);
    json_object_foreach (nvlinks, to, links)
        if (!json_is_integer(links) || json_integer_value(links) < 1 ||
            json_integer_value(links) > NVLINKS_MAX ||
            gpu_count_nvlinks(g, to, (int)json_integer_value(links)) < 0)
            return err_set(e, -EINVAL, "GPU %d: malformed nvlinks", g->index);
    return 0;
}

static int compare_index(const void *a, const void *b)
{
    return ((const struct gpu *)a)->index - ((const struct gpu *)b)->index;
}

static int gpus_from_json(struct topo *t, const json_t *list, struct err *e)
{
    if (!json_is_array(list))
        return err_set(e, -EINVAL, "a list of GPUs is expected");
    t->gpus = xcalloc(json_array_size(list), sizeof *t->gpus);
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        if (gpu_from_json(&t->gpus[i], item, e) < 0)
            return e->code;
        t->gpu_count++;
    }
    if (t->gpu_count > 0)
        qsort(t->gpus, (size_t)t->gpu_count, sizeof *t->gpus, compare_index);
    return 0;
}

static int gpus_from_file(struct topo *t, const char *path, struct err *e)
{
    json_error_t json_error;
    AUTO(json) json_t *root = json_load_file(path, 0, &json_error);
    if (!root)
        return err_set(e, -EINVAL, "%s:%d: %s", path, json_error.line, json_error.text);
    return gpus_from_json(t, root, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

/* Adds NVIDIA's display (0300) and 3D (0302) controllers as GPUs. hwloc lists them in bus order. */
static void gpus_from_pci(struct topo *t)
{
    hwloc_obj_t pci = NULL;
    while ((pci = hwloc_get_next_pcidev(t->hw, pci))) {
        const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
        if (a->vendor_id != 0x10de || (a->class_id != 0x0300 && a->class_id != 0x0302))
            continue;
        t->gpus = xrealloc(t->gpus, (size_t)t->gpu_count + 1, sizeof *t->gpus);
        struct gpu *g = &t->gpus[t->gpu_count];
        *g = (struct gpu){.index = t->gpu_count++, .numa = -1};
        const char *model = hwloc_obj_get_info_by_name(pci, "PCIDevice");
        snprintf(g->name, sizeof g->name, "%s", model ? model : "NVIDIA");
        snprintf(g->bus_id, sizeof g->bus_id, "%04x:%02x:%02x.%x", (unsigned)a->domain, a->bus,
                 a->dev, a->func);
    }
}

/* Returns "dir/NAME" for "dir/NAME.xml". */
static char *stem_of(const char *path)
{
    size_t len = strlen(path);
    return xstrndup(path, len > 4 && strcmp(path + len - 4, ".xml") == 0 ? len - 4 : len);
}

int topo_load_file(struct topo **out, const char *xml_path, struct err *e)
{
    AUTO(topo) struct topo *t = xzalloc(sizeof *t);
    AUTO(strbuf) struct strbuf xml = {0};
    int rc = file_read(&xml, xml_path, FILE_MAX);
    if (rc < 0)
        return err_set(e, rc, "machine '%s': %s", xml_path, strerror(-rc));
    t->hw = load(0, strbuf_str(&xml), xml.len + 1);
    if (!t->hw)
        return err_set(e, -EINVAL, "machine '%s': hwloc rejected the file", xml_path);
    set_allowed(t);
    hwloc_obj_t root = hwloc_get_root_obj(t->hw);
    AUTO(free) char *stem = stem_of(xml_path);
    const char *host = hwloc_obj_get_info_by_name(root, "HostName");
    const char *quota = hwloc_obj_get_info_by_name(root, "CpuQuota");
    const char *slash = strrchr(stem, '/');
    t->name = xstrdup(host ? host : slash ? slash + 1 : stem);
    t->quota = quota ? atoi(quota) : 0;
    AUTO(free) char *gpus = xasprintf("%s.gpus.json", stem);
    if (access(gpus, F_OK) < 0)
        gpus_from_pci(t);
    else if (gpus_from_file(t, gpus, e) < 0)
        return e->code;
    locate_gpus(t);
    *out = TAKE(t);
    return 0;
}

/* ---- other machines ------------------------------------------------------------------------- */

static json_t *mig_to_json(const struct gpu *g)
{
    json_t *list = json_array();
    for (int i = 0; i < GPU_MIG_MAX && g->mig_uuids[i][0]; i++)
        json_array_append_new(list, json_string(g->mig_uuids[i]));
    return list;
}

static json_t *nvlinks_to_json(const struct gpu *g)
{
    json_t *o = json_object();
    for (int i = 0; i < GPU_NVLINK_PEERS_MAX && g->nvlinks[i].to[0]; i++)
        json_object_set_new(o, g->nvlinks[i].to, json_integer(g->nvlinks[i].count));
    return o;
}

static json_t *gpus_to_json(const struct topo *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->gpu_count; i++) {
        const struct gpu *g = &t->gpus[i];
        json_array_append_new(list, json_pack("{s:i,s:s,s:s,s:s,s:i,s:o,s:o}", "index", g->index,
                                              "uuid", g->uuid, "name", g->name, "bus_id", g->bus_id,
                                              "numa", g->numa, "parts", mig_to_json(g), "nvlinks",
                                              nvlinks_to_json(g)));
    }
    return list;
}

int topo_export(char **out, size_t *len, const struct topo *t, struct err *e)
{
    char *xml = NULL, *allowed = NULL;
    int xml_len = 0;
    if (hwloc_topology_export_xmlbuffer(t->hw, &xml, &xml_len, 0) < 0 ||
        hwloc_bitmap_list_asprintf(&allowed, t->allowed) < 0)
        return err_set(e, -EIO, "hwloc: cannot export this machine's topology");
    AUTO(json)
    json_t *j = json_pack("{s:o,s:i,s:b,s:s,s:o}", "name", json_text(t->name), "quota", t->quota,
                          "unbindable", t->unbindable, "allowed", allowed, "gpus", gpus_to_json(t));
    free(allowed);
    AUTO(free) char *head = json_line(j);
    for (char *c = xml; *c; c++)
        *c = *c == '\n' ? '\t' : *c;
    *out = xasprintf("%s\t%s", head, xml);
    *len = strlen(*out);
    hwloc_free_xmlbuffer(t->hw, xml);
    return 0;
}

static int import_hwloc(struct topo *t, struct topo_known *known, const char *xml, size_t len,
                        const char *allowed, struct err *e)
{
    t->hw = known ? topo_known_find(known, xml, len) : NULL;
    if (!t->hw) {
        AUTO(free) char *text = xstrndup(xml, len); /* with the newlines of the file */
        for (char *c = text; *c; c++)
            *c = *c == '\t' ? '\n' : *c;
        t->hw = load(0, text, strlen(text) + 1);
        if (!t->hw)
            return err_set(e, -EINVAL, "hwloc rejected the topology that the node sent");
        if (known)
            topo_known_add(known, xml, len, t->hw);
    }
    set_allowed(t);
    AUTO(bitmap) hwloc_bitmap_t sent = hwloc_bitmap_alloc();
    if (cpu_list_parse(sent, allowed, e) < 0)
        return e->code;
    if (hwloc_bitmap_intersects(sent, t->allowed))
        hwloc_bitmap_and(t->allowed, t->allowed, sent);
    return 0;
}

int topo_import(struct topo **out, struct topo_known *known, const char *bytes, size_t len,
                struct err *e)
{
    AUTO(topo) struct topo *t = xzalloc(sizeof *t);
    AUTO(json) json_t *j = NULL;
    const char *name, *allowed, *tab = memchr(bytes, '\t', len);
    size_t head = tab ? (size_t)(tab - bytes) : len;
    int64_t quota;
    if (json_parse(&j, bytes, head, e) < 0 || json_require_str(&name, j, "name", e) < 0 ||
        json_require_int(&quota, j, "quota", e) < 0 ||
        json_require_str(&allowed, j, "allowed", e) < 0 ||
        import_hwloc(t, known, bytes + head + (tab != NULL), len - head - (tab != NULL), allowed,
                     e) < 0 ||
        gpus_from_json(t, json_object_get(j, "gpus"), e) < 0) {
        err_wrap(e, "machine description");
        return -EINVAL;
    }
    t->name = xstrdup(name);
    t->quota = quota > 0 && quota <= QUOTA_MAX ? (int)quota : 0;
    t->unbindable = json_is_true(json_object_get(j, "unbindable"));
    *out = TAKE(t);
    return 0;
}
