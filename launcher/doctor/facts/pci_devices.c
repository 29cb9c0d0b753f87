#include "launcher/doctor/facts/pci_devices.h"

#include <limits.h>
#include <string.h>

#include "launcher/doctor/core/sysroot.h"

enum { BUS_ID_LEN = 12 }; /* "0000:1b:00.0" */

static bool is_nvidia_gpu(const char *bus_id)
{
    AUTO(free) char *vendor = sysroot_read("/sys/bus/pci/devices/%s/vendor", bus_id);
    if (!vendor || strcmp(vendor, "0x10de") != 0)
        return false;
    AUTO(free) char *class = sysroot_read("/sys/bus/pci/devices/%s/class", bus_id);
    return class && (strncmp(class, "0x0300", 6) == 0 || strncmp(class, "0x0302", 6) == 0);
}

char *pci_devices_driver(const char *bus_id)
{
    AUTO(free) char *path = sysroot_path("/sys/bus/pci/devices/%s/driver", bus_id);
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return NULL;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    return xstrdup(slash ? slash + 1 : target);
}

char **pci_devices_gpus(void)
{
    AUTO(strv) char **names = sysroot_list("/sys/bus/pci/devices");
    char **gpus = NULL;
    for (char **name = names; name && *name; name++) {
        if (!is_nvidia_gpu(*name))
            continue;
        AUTO(free) char *driver = pci_devices_driver(*name);
        if (!driver || strncmp(driver, "vfio", 4) != 0)
            strv_push(&gpus, xstrdup(*name));
    }
    return gpus;
}

static bool is_bus_id(const char *name)
{
    return strlen(name) == BUS_ID_LEN && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

char **pci_devices_path(const char *bus_id)
{
    AUTO(free) char *link = sysroot_path("/sys/bus/pci/devices/%s", bus_id);
    AUTO(free) char *path = realpath(link, NULL);
    char **ids = NULL, *save = NULL;
    for (char *name = path ? strtok_r(path, "/", &save) : NULL; name;
         name = strtok_r(NULL, "/", &save))
        if (is_bus_id(name))
            strv_push(&ids, xstrdup(name));
    return ids;
}

bool pci_devices_in_virtual_machine(void)
{
    AUTO(free) char *text = sysroot_read("/proc/cpuinfo");
    const char *flags = text ? strstr(text, "\nflags") : NULL;
    const char *end = flags ? strchr(flags + 1, '\n') : NULL;
    const char *found = flags ? strstr(flags, " hypervisor") : NULL;
    return found && (!end || found < end);
}

bool pci_devices_hidden_by_container(void)
{
    static const char *const variables[] = {"KUBERNETES_SERVICE_HOST", "NVIDIA_VISIBLE_DEVICES",
                                            "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"};
    static const char *const files[] = {"/.dockerenv", "/run/.containerenv"};
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (getenv(variables[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (sysroot_exists("%s", files[i]))
            return true;
    return false;
}
