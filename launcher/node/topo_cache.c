#include "launcher/node/topo_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fnv_hash.h"
#include "common/log.h"
#include "common/mem.h"

enum {
    FILE_MAX = 16 << 20, /* a machine with 2,048 hardware threads needs 2 MB */
    FILES_PER_HOST = 16, /* several cpusets, and homes that many hosts share */
};

/* Against damage, not against an enemy (who cannot write here). */
static uint64_t checksum(const char *data, size_t len)
{
    return fnv_hash_bytes(FNV_HASH_INIT, data, len);
}

/* The first line of a file, or what stands behind `field` in it; NULL where there is none. */
static char *line_of(const char *path, const char *field)
{
    AUTO(file) FILE *f = fopen(path, "re");
    AUTO(free) char *line = NULL;
    size_t cap = 0, skip = field ? strlen(field) : 0;
    while (f && getline(&line, &cap, f) >= 0) {
        if (field && strncmp(line, field, skip) != 0)
            continue;
        char *value = line + skip + strspn(line + skip, " \t");
        value[strcspn(value, "\n")] = '\0';
        return xstrdup(value);
    }
    return NULL;
}

char *topo_cache_key(void)
{
    static const char *const elsewhere[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT",
                                            "HWLOC_COMPONENTS", "HWLOC_CPUID_PATH"};
    for (size_t i = 0; i < COUNT_OF(elsewhere); i++)
        if (getenv(elsewhere[i]))
            return NULL;
    AUTO(free) char *boot = line_of("/proc/sys/kernel/random/boot_id", NULL);
    AUTO(free) char *online = line_of("/sys/devices/system/cpu/online", NULL);
    AUTO(free) char *cpus = line_of("/proc/self/status", "Cpus_allowed_list:");
    AUTO(free) char *mems = line_of("/proc/self/status", "Mems_allowed_list:");
    if (!boot || !online || !cpus || !mems)
        return NULL;
    return xasprintf("1 hwloc=%x boot=%s online=%s cpus=%s mems=%s", hwloc_get_api_version(), boot,
                     online, cpus, mems);
}

/* Opens a directory that only this user can write, making it where it is missing; -1 where it
 * cannot be had. */
static int private_dir(const char *path)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    AUTO(fd) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return -1;
    return fd_take(&fd);
}

static int cache_dir(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    AUTO(free) char *base = NULL;
    if (xdg && xdg[0] == '/')
        base = xstrdup(xdg);
    else if (home && home[0] == '/')
        base = xasprintf("%s/.cache", home);
    if (base) {
        (void)mkdir(base, 0700); /* it exists, or the next step says that it cannot */
        AUTO(free) char *dir = xasprintf("%s/drover", base);
        int fd = private_dir(dir);
        if (fd >= 0)
            return fd;
    }
    AUTO(free) char *dir = xasprintf("/tmp/drover-%u", (unsigned)geteuid());
    return private_dir(dir);
}

/* A home may be shared by many hosts, and a host has several cpusets. */
static char *file_name(const char *key)
{
    char host[65] = "";
    (void)gethostname(host, sizeof host - 1); /* empty is a name too: the key is what counts */
    for (char *p = host; *p; p++)
        if (*p == '/')
            *p = '_';
    return xasprintf("topology-%s-%u.xml", host,
                     (unsigned)(checksum(key, strlen(key)) % FILES_PER_HOST));
}

static char *read_all(int fd, size_t *len)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022) || st.st_size <= 0 || st.st_size > FILE_MAX)
        return NULL;
    AUTO(free) char *data = try_calloc((size_t)st.st_size + 1, 1);
    size_t got = 0;
    while (data && got < (size_t)st.st_size) {
        ssize_t n = read(fd, data + got, (size_t)st.st_size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return NULL;
        got += (size_t)n;
    }
    *len = got;
    return TAKE(data);
}

/* The line that stands before the XML. */
static char *head_of(const char *key, const char *xml, size_t len)
{
    return xasprintf("drover-topology %s bytes=%zu sum=%016" PRIx64 "\n", key, len,
                     checksum(xml, len));
}

char *topo_cache_get(const char *key, size_t *len)
{
    AUTO(fd) int dir = cache_dir();
    if (dir < 0)
        return NULL;
    AUTO(free) char *name = file_name(key);
    AUTO(fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    size_t total = 0;
    AUTO(free) char *data = fd >= 0 ? read_all(fd, &total) : NULL;
    const char *newline = data ? memchr(data, '\n', total) : NULL;
    if (!newline)
        return NULL;
    const char *xml = newline + 1;
    size_t xml_len = total - (size_t)(xml - data);
    AUTO(free) char *head = head_of(key, xml, xml_len);
    if (strlen(head) != total - xml_len || memcmp(head, data, total - xml_len) != 0)
        return NULL;
    memmove(data, xml, xml_len + 1); /* with the NUL behind it */
    *len = xml_len;
    return TAKE(data);
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

void topo_cache_put(const char *key, const char *xml, size_t len)
{
    AUTO(fd) int dir = cache_dir();
    if (dir < 0)
        return;
    AUTO(free) char *name = file_name(key);
    AUTO(free) char *temporary = xasprintf("%s.%d", name, (int)getpid());
    (void)unlinkat(dir, temporary, 0); /* of an earlier process with this number, which died */
    AUTO(fd)
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    AUTO(free) char *head = head_of(key, xml, len);
    if (!write_all(fd, head, strlen(head)) || !write_all(fd, xml, len) ||
        renameat(dir, temporary, dir, name) < 0) {
        log_debug("topology cache not written: %s", strerror(errno));
        (void)unlinkat(dir, temporary, 0); /* nothing more can be done about it */
    }
}
