/* kit_gpu_machine - a healthy machine with eight GPUs, as NVML's stand-in and as a recorded root,
 * into which tests put faults. */
#pragma once

#include <limits.h>

#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/core/check_run.h"
#include "tests/unit/kit_machine.h"
#include "tests/unit/kit_root.h"

enum { KIT_ROWS_MAX = 48 };

static struct {
    char *root, *fake; /* the directory; the file of the stand-in */
    struct check_env env;
    struct topo *topo;
    struct check rows[KIT_ROWS_MAX];
    struct check_result results[KIT_ROWS_MAX];
    size_t count;
} kit;

static inline void kit_link(const char *target, const char *fmt, const char *name)
{
    AUTO(free) char *path = xasprintf("%s/%s/%s", kit.root, fmt, name);
    CHECK_INT(symlink(target, path), 0);
}

/* Writes a configuration space with an ACS capability behind another one. */
static inline void kit_put_acs(const char *bus_id, unsigned control, size_t size)
{
    unsigned char c[4096] = {0};
    memcpy(c + 0x100, "\x01\x00\x01\x14", 4); /* AER, and the next one at 0x140 */
    memcpy(c + 0x140, "\x0d\x00\x01\x00", 4);
    c[0x146] = (unsigned char)control;
    AUTO(free) char *path = xasprintf("%s/sys/bus/pci/devices/%s/config", kit.root, bus_id);
    AUTO(file) FILE *f = fopen(path, "w");
    CHECK(f && fwrite(c, 1, size, f) == size);
}

static inline void kit_put_pci(const char *dir, const char *bus_id, const char *vendor,
                               const char *class)
{
    const char *const files[][2] = {{"vendor", vendor},
                                    {"class", class},
                                    {"current_link_width", "16\n"},
                                    {"max_link_width", "16\n"},
                                    {"iommu_group/type", "identity\n"}};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, files[i][0]);
        put(kit.root, path, files[i][1]);
    }
    AUTO(free) char *target = xasprintf("../../../../%s", dir);
    put(kit.root, "sys/bus/pci/devices/.keep", "");
    kit_link(target, "sys/bus/pci/devices", bus_id);
}

/* Adds a GPU below a root port. */
static inline void kit_put_gpu(int i, unsigned bus)
{
    AUTO(free) char *port = xasprintf("0000:%02x:01.0", bus - 1);
    AUTO(free) char *gpu = xasprintf("0000:%02x:00.0", bus);
    AUTO(free) char *port_dir = xasprintf("sys/devices/pci0000:%02x/%s", bus - 1, port);
    AUTO(free) char *gpu_dir = xasprintf("%s/%s", port_dir, gpu);
    AUTO(free) char *node = xasprintf("dev/nvidia%d", i);
    kit_put_pci(gpu_dir, gpu, "0x10de\n", "0x030200\n");
    kit_put_pci(port_dir, port, "0x8086\n", "0x060400\n");
    kit_put_acs(port, 0, 4096);
    kit_link("../../../../bus/pci/drivers/nvidia", gpu_dir, "driver");
    put(kit.root, node, "");
}

static inline void kit_put_port(int i, const char *file, const char *text)
{
    AUTO(free) char *path = xasprintf("sys/class/infiniband/mlx5_%d/%s", i, file);
    put(kit.root, path, text);
}

static inline void kit_put_nic(int i)
{
    kit_put_port(i, "device/vendor", "0x15b3\n");
    kit_put_port(i, "hca_type", "MT4129\n");
    kit_put_port(i, "board_id", "MT_0000000838\n");
    kit_put_port(i, "ports/1/state", "4: ACTIVE\n");
    kit_put_port(i, "ports/1/link_layer", "InfiniBand\n");
    kit_put_port(i, "ports/1/rate", "400 Gb/sec (4X NDR)\n");
    kit_put_port(i, "ports/1/counters/symbol_error", "3\n");
    kit_put_port(i, "ports/1/counters/link_downed", "0\n");
    kit_put_port(i, "ports/2/state", "1: DOWN\n"); /* not connected, like all second ports */
    kit_put_port(i, "ports/2/link_layer", "InfiniBand\n");
    kit_put_port(i, "ports/2/rate", "10 Gb/sec (4X SDR)\n");
}

static inline void kit_put_files(void)
{
    static const char *const files[][2] = {
        {"dev/nvidiactl", ""},
        {"dev/nvidia-uvm", ""},
        {"dev/kmsg", "6,1,100,-;Linux version 6.8\n"},
        {"proc/uptime", "3600.00 1.00\n"},
        {"proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme avx2\n\n"},
        {"proc/cmdline", "root=/dev/sda1 iommu=pt\n"},
        {"proc/sys/kernel/osrelease", "6.8.0-40-generic\n"},
        {"proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                                       "580.65.06  Release Build\nGCC version:  13\n"},
        {"sys/class/iommu/dmar0/name", ""},
        {"sys/module/nvidia_peermem/refcnt", "0\n"},
    };
    for (size_t i = 0; i < COUNT_OF(files); i++)
        put(kit.root, files[i][0], files[i][1]);
}

/* Makes the machine; `lines` is added to the file of NVML's stand-in. */
static inline void kit_make(const char *lines)
{
    static const unsigned buses[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    AUTO(free) char *library = xasprintf("%s/../fake/libnvidia-ml.so.1", self);
    kit.root = new_root();
    for (int i = 0; i < 8; i++) {
        kit_put_gpu(i, buses[i]);
        kit_put_nic(i);
    }
    kit_put_files();
    AUTO(free) char *text = xasprintf("gpus 8\n%s", lines);
    put(kit.root, "fake", text);
    kit.fake = xasprintf("%s/fake", kit.root);
    setenv("DROVER_SYSROOT", kit.root, 1);
    setenv("DROVER_NVML_LIB", library, 1);
    setenv("DROVER_FAKE_NVML", kit.fake, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("LD_LIBRARY_PATH");
    kit.topo = machine("dgx-h100");
    kit.env = (struct check_env){.topo = kit.topo, .ranks = 8, .growth_ms = 60};
}

static inline void kit_clear_results(void)
{
    for (size_t i = 0; i < kit.count; i++)
        check_result_clear(&kit.results[i]);
    kit.count = 0;
}

static inline void kit_end(void)
{
    kit_clear_results();
    topo_free(kit.topo);
    remove_root(kit.root);
    free(kit.fake);
}

/* Runs the checks of driver, GPUs and links. */
static inline void kit_run(bool quick)
{
    const struct check *const groups[] = {checks_driver, checks_gpu, checks_gpu_each, checks_link};
    kit_clear_results();
    for (size_t g = 0; g < COUNT_OF(groups); g++)
        for (const struct check *c = groups[g]; c->id; c++)
            kit.rows[kit.count++] = *c;
    kit.env.least = quick ? CHECK_QUICK : CHECK_LONG;
    kit.env.deadline_ms = 3000;
    CHECK_INT(check_run(kit.results, kit.rows, kit.count, &kit.env, NULL), 0);
}

static inline size_t kit_row(const char *id)
{
    size_t i = 0;
    while (i < kit.count && strcmp(kit.rows[i].id, id) != 0)
        i++;
    CHECK(i < kit.count);
    return i;
}

static inline const struct check_result *kit_result_of(const char *id)
{
    return &kit.results[kit_row(id)];
}

/* Checks that no check but `except` (NULL: none) found a fault. */
static inline void kit_check_no_fault(const char *except)
{
    for (size_t i = 0; i < kit.count; i++)
        if ((kit.results[i].state == CHECK_FAIL || kit.results[i].state == CHECK_WARN) &&
            !(except && strcmp(except, kit.rows[i].id) == 0))
            FAIL("%s: %s %s", kit.rows[i].id, check_state_name(kit.results[i].state),
                 kit.results[i].value);
}

/* Checks the result of the check with the fault: its state, parts of its value and of its advice;
 * that no other check found a fault; and that those that need it are skipped. */
static inline void kit_check_fault(const char *id, enum check_state s, const char *value,
                                   const char *advice)
{
    size_t row = kit_row(id);
    const struct check_result *r = &kit.results[row];
    if (r->state != s)
        FAIL("%s is %s (%s), expected %s", id, check_state_name(r->state), r->value,
             check_state_name(s));
    CHECK_HAS(r->value, value);
    CHECK_HAS(r->advice ? r->advice : kit.rows[row].advice, advice);
    CHECK(r->want && r->source);
    kit_check_no_fault(id);
    for (size_t i = 0; i < kit.count && s == CHECK_FAIL; i++)
        for (size_t n = 0; n < CHECK_NEEDS_MAX && kit.rows[i].needs[n]; n++)
            if (strcmp(kit.rows[i].needs[n], id) == 0 && kit.results[i].value) {
                CHECK_INT(kit.results[i].state, CHECK_SKIP);
                CHECK_HAS(kit.results[i].value, id);
            }
}

/* A fault: lines for NVML's stand-in, or a file of the root. */
struct kit_fault {
    const char *id;
    enum check_state state;
    const char *lines, *path, *text; /* NULL: none */
    const char *value, *advice;      /* parts of the result */
};

static inline void kit_check_faults(const struct kit_fault *faults, size_t n)
{
    for (const struct kit_fault *f = faults; f < faults + n; f++) {
        kit_make(f->lines ? f->lines : "");
        if (f->path)
            put(kit.root, f->path, f->text);
        const struct check *c = check_find(f->id);
        CHECK(c);
        kit_run(c->when != CHECK_LONG);
        kit_check_fault(f->id, f->state, f->value, f->advice);
        kit_end();
    }
}
