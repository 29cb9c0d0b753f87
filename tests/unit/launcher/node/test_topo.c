#include "launcher/node/topo.h"

#include <hwloc/diff.h>
#include <limits.h>
#include <sched.h>
#include <sys/stat.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* Gives each test its own cache. */
static const char *own_cache(void)
{
    static char dir[] = "/tmp/drover-test-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    setenv("XDG_CACHE_HOME", dir, 1);
    unsetenv("DROVER_NVML_LIB");
    return dir;
}

static void end_cache(const char *dir)
{
    AUTO(free) char *command = xasprintf("rm -rf '%s'", dir);
    CHECK_INT(system(command), 0);
}

/* Returns the only file of the cache. */
static char *cached_file(const char *dir)
{
    char path[PATH_MAX] = "";
    AUTO(free) char *command = xasprintf("ls %s/drover/topology-*.xml", dir);
    FILE *p = popen(command, "r");
    CHECK(p && fgets(path, sizeof path, p));
    CHECK_INT(pclose(p), 0);
    path[strcspn(path, "\n")] = '\0';
    return xstrdup(path);
}

static ino_t inode(const char *path)
{
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    return st.st_ino;
}

static void check_this_machine(struct topo *t)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    CHECK_STR(topo_name(t), host);
    CHECK(hwloc_topology_is_thissystem(topo_hwloc(t)));
    AUTO(bitmap) hwloc_bitmap_t own = hwloc_bitmap_alloc();
    CHECK_INT(hwloc_get_cpubind(topo_hwloc(t), own, HWLOC_CPUBIND_THREAD), 0);
    CHECK(hwloc_bitmap_isequal(own, topo_allowed(t)));
    CHECK(hwloc_get_nbobjs_by_type(topo_hwloc(t), HWLOC_OBJ_PU) >= hwloc_bitmap_weight(own));
}

TEST(this_machine_is_the_same_discovered_and_from_the_cache)
{
    const char *dir = own_cache();
    setenv("HWLOC_PLUGINS_PATH", "/some/where", 1);
    AUTO(topo) struct topo *a = NULL, *b = NULL;
    CHECK_INT(topo_load(&a, NULL), 0);
    check_this_machine(a);
    CHECK_STR(getenv("HWLOC_PLUGINS_PATH"), "/some/where"); /* the user's value is kept */
    AUTO(free) char *file = cached_file(dir);
    ino_t first = inode(file);
    CHECK_INT(topo_load(&b, NULL), 0);
    CHECK_INT(inode(file), first); /* it was read, not rewritten */
    check_this_machine(b);
    hwloc_topology_diff_t diff = NULL;
    CHECK_INT(hwloc_topology_diff_build(topo_hwloc(a), topo_hwloc(b), 0, &diff), 0);
    CHECK(diff == NULL);
    end_cache(dir);
}

TEST(one_can_bind_with_a_topology_from_the_cache)
{
    const char *dir = own_cache();
    for (int i = 0; i < 2; i++) {
        AUTO(topo) struct topo *t = NULL;
        CHECK_INT(topo_load(&t, NULL), 0);
        AUTO(bitmap) hwloc_bitmap_t one = hwloc_bitmap_dup(topo_allowed(t));
        hwloc_bitmap_singlify(one);
        CHECK_INT(hwloc_set_cpubind(topo_hwloc(t), one, HWLOC_CPUBIND_THREAD), 0);
        CHECK_INT(sched_getcpu(), hwloc_bitmap_first(one));
        CHECK_INT(hwloc_set_cpubind(topo_hwloc(t), topo_allowed(t), HWLOC_CPUBIND_THREAD), 0);
    }
    end_cache(dir);
}

TEST(a_narrower_affinity_is_seen_though_the_cache_is_of_a_wider_one)
{
    const char *dir = own_cache();
    AUTO(topo) struct topo *wide = NULL, *narrow = NULL;
    CHECK_INT(topo_load(&wide, NULL), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)hwloc_bitmap_last(topo_allowed(wide)), &one);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_INT(topo_load(&narrow, NULL), 0);
    CHECK_INT(hwloc_bitmap_weight(topo_allowed(narrow)), 1);
    CHECK_INT(hwloc_bitmap_first(topo_allowed(narrow)), hwloc_bitmap_last(topo_allowed(wide)));
    end_cache(dir);
}

TEST(gpus_are_the_drivers_and_hang_on_a_node_where_the_bus_is_known)
{
    const char *dir = own_cache();
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    AUTO(free) char *lib = xasprintf("%s/../fake/libnvidia-ml.so.1", self);
    setenv("DROVER_NVML_LIB", lib, 1);
    setenv("DROVER_FAKE_GPUS", "GPU-aa,H100,1b,80000,70000", 1);
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load(&t, NULL), 0);
    CHECK_INT(topo_gpu_count(t), 1);
    CHECK_STR(topo_gpu(t, 0)->uuid, "GPU-aa");
    setenv("DROVER_FAKE_NVML_INIT", "18", 1);
    AUTO(topo) struct topo *broken = NULL;
    CHECK_INT(topo_load(&broken, NULL), 0); /* CPUs remain usable */
    CHECK_INT(topo_gpu_count(broken), 0);
    end_cache(dir);
}

TEST(a_recorded_machine_has_its_name_cpus_and_gpus)
{
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/dgx-a100.xml", NULL), 0);
    CHECK_STR(topo_name(t), "dgx-a100");
    CHECK_INT(hwloc_bitmap_weight(topo_allowed(t)), 256);
    CHECK_INT(topo_cpu_quota(t), 0);
    CHECK_INT(topo_gpu_count(t), 8);
    static const int numa[] = {3, 3, 1, 1, 7, 7, 5, 5};
    for (int i = 0; i < 8; i++) {
        CHECK_INT(topo_gpu(t, i)->index, i);
        CHECK_INT(topo_gpu(t, i)->numa, numa[i]);
    }
}

TEST(where_numa_is_not_recorded_it_follows_from_the_bus)
{
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/dgx-h100.xml", NULL), 0);
    for (int i = 0; i < 8; i++)
        CHECK_INT(topo_gpu(t, i)->numa, i / 4);
}

TEST(without_a_record_gpus_come_from_the_bus_and_their_sound_devices_do_not)
{
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/workstation-4gpu.xml", NULL), 0);
    CHECK_INT(topo_gpu_count(t), 4);
    CHECK_STR(topo_gpu(t, 1)->bus_id, "0000:21:00.0");
    CHECK_INT(topo_gpu(t, 3)->numa, 0);
}

TEST(a_recorded_cpuset_and_quota_are_kept)
{
    AUTO(topo) struct topo *t = NULL, *q = NULL;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/h100-container.xml", NULL), 0);
    AUTO(bitmap) hwloc_bitmap_t expected = hwloc_bitmap_alloc();
    CHECK_INT(cpu_list_parse(expected, "0-7,60,61,112-119", NULL), 0);
    CHECK(hwloc_bitmap_isequal(expected, topo_allowed(t)));
    CHECK_INT(topo_load_file(&q, "tests/plan/machines/pod-quota.xml", NULL), 0);
    CHECK_INT(topo_cpu_quota(q), 4);
}

static void write_file(const char *path, const char *text)
{
    AUTO(file) FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0);
}

TEST(files_that_are_none_are_named)
{
    const char *dir = own_cache();
    struct topo *t = NULL;
    struct err e = {0};
    CHECK_INT(topo_load_file(&t, "/nowhere/x.xml", &e), -ENOENT);
    CHECK_HAS(e.text, "/nowhere/x.xml");
    AUTO(free) char *xml = xasprintf("%s/m.xml", dir), *json = xasprintf("%s/m.gpus.json", dir);
    write_file(xml, "<topology version=\"2.0\"><object type=\"Machine\"");
    CHECK_INT(topo_load_file(&t, xml, &e), -EINVAL);
    CHECK_HAS(e.text, xml);
    AUTO(free) char *copy = xasprintf("cp tests/plan/machines/laptop.xml '%s'", xml);
    CHECK_INT(system(copy), 0);
    static const char *const bad[] = {
        "[",
        "{}",
        "[{\"index\": 0}]",
        "[{\"index\":0,\"uuid\":\"u\",\"name\":\"n\",\"bus_id\":\"nonsense\"}]",
        "[{\"index\":0,\"uuid\":\"u\",\"name\":\"n\",\"bus_id\":\"07:00.0\",\"nuna\":1}]",
        "[{\"index\":4294967296,\"uuid\":\"u\",\"name\":\"n\",\"bus_id\":\"07:00.0\"}]"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        write_file(json, bad[i]);
        CHECK_INT(topo_load_file(&t, xml, &e), -EINVAL);
        CHECK_HAS(e.text, json);
    }
    CHECK(t == NULL);
    end_cache(dir);
}

static void check_travels(const struct topo *t)
{
    AUTO(topo) struct topo *u = NULL;
    AUTO(free) char *bytes = NULL;
    size_t len = 0;
    struct err e = {0};
    if (topo_export(&bytes, &len, t, &e) < 0 || topo_import(&u, NULL, bytes, len, &e) < 0)
        FAIL("%s", e.text);
    CHECK_STR(topo_name(u), topo_name(t));
    CHECK_INT(topo_cpu_quota(u), topo_cpu_quota(t));
    CHECK(hwloc_bitmap_isequal(topo_allowed(u), topo_allowed(t)));
    CHECK(!hwloc_topology_is_thissystem(topo_hwloc(u)));
    hwloc_topology_diff_t diff = NULL;
    CHECK_INT(hwloc_topology_diff_build(topo_hwloc(t), topo_hwloc(u), 0, &diff), 0);
    CHECK(!diff);
    CHECK_INT(topo_gpu_count(u), topo_gpu_count(t));
    for (int i = 0; i < topo_gpu_count(t); i++) {
        CHECK_STR(topo_gpu(u, i)->uuid, topo_gpu(t, i)->uuid);
        CHECK_STR(topo_gpu(u, i)->bus_id, topo_gpu(t, i)->bus_id);
        CHECK_INT(topo_gpu(u, i)->index, topo_gpu(t, i)->index);
        CHECK_INT(topo_gpu(u, i)->numa, topo_gpu(t, i)->numa);
    }
}

TEST(a_machine_travels_as_it_is)
{
    static const char *const machines[] = {"dgx-a100", "h100-container", "pod-quota", "xeon-2s",
                                           "desktop-mixed"};
    const char *dir = own_cache();
    AUTO(topo) struct topo *here = NULL;
    CHECK_INT(topo_load(&here, NULL), 0);
    check_travels(here);
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        AUTO(topo) struct topo *t = NULL;
        AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", machines[i]);
        CHECK_INT(topo_load_file(&t, path, NULL), 0);
        check_travels(t);
    }
    struct topo *none = NULL;
    struct err e = {0};
    CHECK_INT(topo_import(&none, NULL, "{\"name\":\"x\"}", 12, &e), -EINVAL);
    CHECK_HAS(e.text, "quota");
    end_cache(dir);
}

/* Returns the machine's export under another name, in another cgroup, with less memory. */
static char *sister_of(const char *bytes)
{
    AUTO(strbuf) struct strbuf b = {0};
    const char *first = strstr(bytes, "\"dgx-h100\""), *second = strstr(first + 1, "\"dgx-h100\"");
    const char *memory = strstr(second, "local_memory=\"");
    CHECK(first && second && memory);
    strbuf_add(&b, bytes, (size_t)(first - bytes));
    strbuf_puts(&b, "\"sister\"");
    strbuf_add(&b, first + 10, (size_t)(second - first - 10));
    strbuf_puts(&b, "\"sister\"/>\t<info name=\"LinuxCgroup\" value=\"/a\"");
    strbuf_add(&b, second + 10, (size_t)(memory + 14 - second - 10));
    strbuf_puts(&b, "4096");
    strbuf_puts(&b, strchr(memory + 14, '"'));
    return strbuf_take(&b);
}

TEST(equal_machines_share_what_hwloc_has_parsed_and_others_do_not)
{
    AUTO(topo) struct topo *t = NULL, *other = NULL;
    struct topo *got[4] = {0};
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/dgx-h100.xml", NULL), 0);
    CHECK_INT(topo_load_file(&other, "tests/plan/machines/xeon-2s.xml", NULL), 0);
    AUTO(free) char *bytes = NULL, *foreign = NULL;
    size_t len, foreign_len;
    CHECK_INT(topo_export(&bytes, &len, t, NULL), 0);
    CHECK_INT(topo_export(&foreign, &foreign_len, other, NULL), 0);
    AUTO(free) char *sister = sister_of(bytes);
    struct topo_known *known = topo_known_new();
    CHECK_INT(topo_import(&got[0], known, bytes, len, NULL), 0);
    CHECK_INT(topo_import(&got[1], known, sister, strlen(sister), NULL), 0);
    CHECK_INT(topo_import(&got[2], known, foreign, foreign_len, NULL), 0);
    CHECK_INT(topo_import(&got[3], known, bytes, len, NULL), 0);
    topo_known_free(known); /* the topologies have what they need */
    CHECK_STR(topo_name(got[1]), "sister");
    CHECK(topo_hwloc(got[0]) == topo_hwloc(got[1]) && topo_hwloc(got[0]) == topo_hwloc(got[3]));
    CHECK(topo_hwloc(got[0]) != topo_hwloc(got[2]));
    CHECK_INT(topo_gpu_count(got[1]), topo_gpu_count(t));
    for (int i = 0; i < 4; i++)
        topo_free(got[i]);
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

TEST(the_second_of_equal_machines_is_imported_five_times_faster)
{
    enum { TIMES = 50 };
    AUTO(topo) struct topo *t = NULL;
    CHECK_INT(topo_load_file(&t, "tests/plan/machines/dgx-a100-fabric.xml", NULL), 0);
    AUTO(free) char *bytes = NULL;
    size_t len;
    CHECK_INT(topo_export(&bytes, &len, t, NULL), 0);
    AUTO(topo_known) struct topo_known *known = topo_known_new();
    double ms[2];
    for (int again = 0; again < 2; again++) {
        double from = cpu_ms();
        for (int i = 0; i < TIMES; i++) {
            AUTO(topo) struct topo *u = NULL;
            CHECK_INT(topo_import(&u, again ? known : NULL, bytes, len, NULL), 0);
        }
        ms[again] = (cpu_ms() - from) / TIMES;
    }
    printf("# %zu bytes: %.3f ms, again %.3f ms\n", len, ms[0], ms[1]);
    CHECK_TIME(ms[1] < ms[0] / 5);
}

TEST(lists_are_read_as_the_kernel_writes_them_and_strictly)
{
    AUTO(bitmap) hwloc_bitmap_t b = hwloc_bitmap_alloc(), expected = hwloc_bitmap_alloc();
    CHECK_INT(cpu_list_parse(b, "8,0-3", NULL), 0);
    hwloc_bitmap_set_range(expected, 0, 3);
    hwloc_bitmap_set(expected, 8);
    CHECK(hwloc_bitmap_isequal(b, expected));
    static const char *const bad[] = {"",   ",",   "0,",   ",0",    "0-",      "-1", "3-1",
                                      "0x", "0 1", "0--1", "65536", "0-70000", "x",  "0-3x"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(cpu_list_parse(b, bad[i], NULL), -EINVAL);
    CHECK(hwloc_bitmap_isequal(b, expected));
}
