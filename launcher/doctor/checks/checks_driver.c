#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/checks/program.h"
#include "launcher/doctor/core/kernel_log.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/doctor/facts/gpu_health.h"
#include "launcher/doctor/facts/pci_devices.h"
#include "launcher/gpu/xid.h"

static void run_nouveau(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **gpus = pci_devices_gpus();
    if (gpus && sysroot_exists("/sys/module/nouveau"))
        check_bad(r, CHECK_FAIL, "only NVIDIA's module", "/sys/module/nouveau",
                  "nouveau is loaded");
    else
        check_ok(r, "/sys/module/nouveau", "not loaded");
}

static void run_loads(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **gpus = pci_devices_gpus();
    struct err why = {0};
    int rc = gpu_health_open(env, &why);
    size_t n = strv_len(gpus);
    if (rc == NVML_SUCCESS || rc == NVML_VERSION_MISMATCH)
        check_ok(r, "dlopen, nvmlInit_v2", "NVML loads");
    else if (rc == NVML_NO_PERMISSION)
        check_skip(r, "nvmlInit_v2: %s", nvml_code_name(rc));
    else if (n == 0 && (rc < 0 || rc == NVML_NO_DRIVER))
        check_skip(r, "no NVIDIA GPU");
    else
        check_bad(r, CHECK_FAIL, "libnvidia-ml.so.1 that loads", "dlopen, nvmlInit_v2",
                  "%zu GPU%s in sysfs, but %s", n, plural_s((long long)n),
                  rc > 0         ? nvml_code_name(rc)
                  : why.code < 0 ? why.text
                                 : "/dev/nvidiactl is missing");
}

/* Copies the version of the kernel module: the number after "Module" in its version file. Returns
 * false if it is unknown. */
static bool module_version(char out[32])
{
    AUTO(free) char *text = sysroot_read("/proc/driver/nvidia/version");
    char *at = text ? strstr(text, "Module") : NULL;
    for (; at && *at && *at != '\n'; at += strcspn(at, " \n"), at += strspn(at, " "))
        if (strspn(at, "0123456789.") > 3 && sscanf(at, "%31[0-9.]", out) == 1)
            return true;
    return false;
}

static int read_driver_version(const struct nvml *n, void *inout, struct err *e)
{
    enum { SIZE = 96 };
    if (n->driver_version)
        (void)n->driver_version(inout, SIZE);
    return 0;
}

static void run_match(struct check_result *r, struct check_env *env)
{
    static const char source[] = "nvmlInit_v2, /proc/driver/nvidia/version";
    char module[32] = "", library[96] = "";
    bool known = module_version(module);
    int rc = gpu_health_open(env, NULL);
    if (rc == NVML_SUCCESS)
        (void)gpu_health_call(read_driver_version, library, sizeof library); /* else it is empty */
    if (rc == NVML_VERSION_MISMATCH)
        check_bad(r, CHECK_FAIL, "equal versions", source,
                  "the NVML library has another version than the kernel module (%s)",
                  known ? module : "unknown");
    else if (known && library[0] && strcmp(module, library) != 0)
        check_bad(r, CHECK_FAIL, "equal versions", source, "NVML %s, kernel module %s", library,
                  module);
    else
        check_ok(r, source, "%s", library[0] ? library : "NVML accepts the kernel module");
}

static bool is_device_node(const char *name)
{
    return strcmp(name, "nvidiactl") == 0 || strcmp(name, "nvidia-uvm") == 0 ||
           (strncmp(name, "nvidia", 6) == 0 && name[6] &&
            !name[6 + strspn(name + 6, "0123456789")]);
}

/* EPERM is that of a cgroup that grants other devices, as Slurm's does: not a fault. */
static void run_nodes(struct check_result *r, struct check_env *env)
{
    AUTO(strv) char **names = sysroot_list("/dev");
    AUTO(strbuf) struct strbuf denied = {0};
    int found = 0;
    bool has_uvm = false;
    for (char **name = names; name && *name; name++) {
        if (!is_device_node(*name))
            continue;
        found++;
        has_uvm |= strcmp(*name, "nvidia-uvm") == 0;
        AUTO(free) char *path = sysroot_path("/dev/%s", *name);
        AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 && errno == EACCES)
            strbuf_printf(&denied, "%s/dev/%s", denied.len ? ", " : "", *name);
    }
    if (found == 0) {
        check_skip(r, "no device node of NVIDIA's driver");
    } else if (denied.len) {
        check_bad(r, CHECK_FAIL, "readable and writable", "open", "%s: permission denied",
                  strbuf_str(&denied));
        check_advise(r, "join the group that owns the device, as `ls -l /dev/nvidia*` shows, and "
                        "log in again");
    } else if (!has_uvm) {
        check_bad(r, CHECK_FAIL, "/dev/nvidia-uvm", "/dev", "/dev/nvidia-uvm is missing");
    } else {
        check_ok(r, "open", "%d device node%s can be opened", found, plural_s(found));
    }
}

/* ---- CUDA ----------------------------------------------------------------------------------- */

/* Sets the version of the runtime in a directory, as far as file names tell it. */
static bool runtime_version(const char *dir, int *major, int *minor)
{
    AUTO(free) char *pattern = xasprintf("%s/libcudart.so.*", dir);
    glob_t g = {0};
    *major = *minor = -1;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) {
            int a = -1, b = -1;
            sscanf(strrchr(g.gl_pathv[i], '/'), "/libcudart.so.%d.%d", &a, &b);
            if (a > *major || (a == *major && b > *minor)) {
                *major = a;
                *minor = b;
            }
        }
    globfree(&g);
    return *major >= 0;
}

/* Wheels have the minor version only in the name of their metadata. */
static void wheel_minor(const char *python, int major, int *minor)
{
    AUTO(free) char *pattern = xasprintf("nvidia_cuda_runtime*-%d.*.dist-info", major);
    AUTO(strv) char **found = NULL;
    program_packages(&found, python, pattern);
    if (found)
        sscanf(strchr(strrchr(found[0], '/'), '-'), "-%*d.%d", minor);
}

/* Returns the directories that may have the program's CUDA runtime, in the order in which they are
 * searched (a strv): $LD_LIBRARY_PATH, NVIDIA's wheels, those next to the program. */
static char **runtime_dirs(char *const *command, const char *python)
{
    const char *dirs = getenv("LD_LIBRARY_PATH");
    char **out = NULL;
    for (const char *d = dirs; d && *d; d += strspn(d, ":")) {
        size_t len = strcspn(d, ":");
        if (len > 0)
            strv_push(&out, xstrndup(d, len));
        d += len;
    }
    if (python) {
        program_packages(&out, python, "nvidia/cuda_runtime/lib");
        program_packages(&out, python, "nvidia/cu[0-9]*/lib"); /* since CUDA 13 */
    }
    AUTO(free) char *program = program_find(command[0]);
    AUTO(free) char *prefix = program ? program_prefix(program) : NULL;
    if (prefix) {
        strv_push(&out, xasprintf("%s/lib", prefix));
        strv_push(&out, xasprintf("%s/lib64", prefix));
    }
    return out;
}

static int read_cuda_version(const struct nvml *n, void *inout, struct err *e)
{
    int version = 0;
    if (n->cuda_version && n->cuda_version(&version) == NVML_SUCCESS)
        *(int *)inout = version;
    return 0;
}

static void run_cuda(struct check_result *r, struct check_env *env)
{
    static const char source[] = "nvmlSystemGetCudaDriverVersion_v2";
    int driver = 0, major = -1, minor = -1;
    if (!env->command)
        return check_skip(r, "no program");
    AUTO(free) char *python = program_python(env->command);
    AUTO(strv) char **dirs = runtime_dirs(env->command, python);
    char **dir = dirs;
    while (dir && *dir && !runtime_version(*dir, &major, &minor))
        dir++;
    if (major < 0)
        return check_skip(r, "the program's CUDA runtime was not found");
    if (python && minor < 0)
        wheel_minor(python, major, &minor);
    int rc = gpu_health_open(env, NULL);
    if (rc != NVML_SUCCESS || !gpu_health_call(read_cuda_version, &driver, sizeof driver) ||
        driver == 0)
        return check_skip(r, "the driver does not tell its CUDA version");
    int driver_major = driver / 1000, driver_minor = driver % 1000 / 10;
    bool lower = driver_major == major && minor > driver_minor;
    AUTO(free)
    char *runtime = minor < 0 ? xasprintf("%d", major) : xasprintf("%d.%d", major, minor);
    AUTO(free) char *want = xasprintf("CUDA %s or newer in the driver", runtime);
    /* Within a major version, CUDA promises that all but new functions and PTX code work. */
    if (driver_major < major || lower)
        check_bad(r, driver_major < major ? CHECK_FAIL : CHECK_WARN, want, source,
                  "driver: CUDA %d.%d; the program's runtime in %s: %s", driver_major, driver_minor,
                  *dir, runtime);
    else
        check_ok(r, source, "driver: CUDA %d.%d; program: %s", driver_major, driver_minor, runtime);
}

/* ---- what each GPU reports of the driver ---------------------------------------------------- */

static void look_fabric(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long state, status = g->value[GPU_FACT_FABRIC_STATUS];
    if (!gpu_health_get(&state, g, GPU_FACT_FABRIC_STATE) || state == NVML_FABRIC_NOT_SUPPORTED)
        return;
    h->known++;
    if (state < NVML_FABRIC_COMPLETED)
        gpu_health_add(h, CHECK_FAIL, i, "registration %s",
                       state == 1 ? "has not started" : "is in progress");
    else if (status != NVML_SUCCESS)
        gpu_health_add(h, CHECK_FAIL, i, "%s", nvml_code_name((int)status));
}

static void look_persist(struct gpu_health *h, const struct gpu_sample *g, int i)
{
    long long on;
    if (!gpu_health_get(&on, g, GPU_FACT_PERSISTENCE))
        return;
    h->known++;
    if (!on)
        gpu_health_add(h, CHECK_WARN, i, "off");
}

struct gsp {
    struct xid last; /* code 0: none */
    double age_s;
};

static void find_gsp(void *arg, double age_s, const char *text)
{
    struct gsp *found = arg;
    struct xid x;
    if (xid_parse(&x, text) && (x.code == 119 || x.code == 120))
        *found = (struct gsp){x, age_s};
}

static void run_gsp(struct check_result *r, struct check_env *env)
{
    struct gsp found = {0};
    int count, rc = kernel_log_read(find_gsp, &found);
    const struct gpu_sample *g = gpu_health_read(env, &count);
    if (!g && !found.last.code)
        return check_skip(r, "no GPU");
    if (rc < 0)
        return check_skip(r, "/dev/kmsg: %s", strerror(-rc));
    if (!found.last.code)
        return check_ok(r, "/dev/kmsg", "no Xid 119 or 120 since boot");
    AUTO(free) char *text = xid_describe(&found.last, found.age_s);
    check_bad(r, CHECK_FAIL, "no Xid 119 or 120", "/dev/kmsg", "%s", text);
}

static const char no_torch[] = "Programs see no GPU, or fail at their first CUDA call.";

const struct check checks_driver[] = {
    {"drv.nouveau", "open-source module nouveau", CHECK_LONG, run_nouveau,
     .why = "While nouveau holds the GPUs, NVIDIA's driver cannot use them.",
     .advice = "add 'blacklist nouveau' to /etc/modprobe.d/nouveau.conf, rebuild the initramfs and "
               "restart the machine"},
    {"drv.loads", "NVIDIA's management library", CHECK_STOP, run_loads, .needs = {"drv.nouveau"},
     .why = no_torch,
     .advice = "install NVIDIA's driver; in a container: start it with `--gpus all`"},
    {"drv.match", "versions of driver library and kernel module", CHECK_STOP, run_match,
     .needs = {"drv.loads"},
     .why = "After an update of the driver, the old kernel module stays loaded until the next "
            "restart. Every CUDA program fails until then.",
     .advice = "restart the machine or reload the module; hold the driver's packages if unattended "
               "upgrades changed them"},
    {"drv.nodes", "access to the devices", CHECK_REPORT, run_nodes, .why = no_torch,
     .advice = "nvidia-modprobe -u"},
    {"drv.cuda", "driver new enough for the program", CHECK_REPORT, run_cuda,
     .needs = {"drv.loads", "drv.match"},
     .why = "A program needs a driver that supports the CUDA version that it was built with.",
     .advice = "update the driver, install its compatibility package (cuda-compat), or use a "
               "program that was built for the driver's CUDA version"},
    {"drv.fabric", "fabric manager", CHECK_STOP, gpu_health_check_each,
     .each =
         &(const struct gpu_health_check){look_fabric, "registered with the fabric manager",
                                          GPU_FACT_FABRIC_STATE, .ok = "all GPUs are registered",
                                          .none = "no NVSwitch fabric"},
     .needs = {"drv.loads", "drv.match"},
     .why = "On machines with NVSwitch, CUDA does not start until the fabric manager has "
            "registered the GPUs.",
     .advice = "systemctl start nvidia-fabricmanager, in the version of the driver"},
    {"drv.persist", "persistence mode", CHECK_LONG, gpu_health_check_each,
     .each = &(const struct gpu_health_check){look_persist, "on", GPU_FACT_PERSISTENCE, .ok = "on"},
     .needs = {"drv.loads", "drv.match"},
     .why =
         "Without it the driver initialises the GPU again for every program, which takes seconds.",
     .advice = "nvidia-smi -pm 1"},
    {"drv.gsp", "firmware of the GPUs", CHECK_LONG, run_gsp,
     .why = "A GPU whose system processor has failed looks healthy until a program uses it.",
     .advice = "reset the GPU (nvidia-smi --gpu-reset -i GPU) when no program uses it; if this "
               "fails, restart the machine"},
    {0},
};
