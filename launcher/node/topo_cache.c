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
#include "common/private_dir.h"

enum {
    FILE_MAX = 16 << 20, /* a machine with 2,048 hardware threads needs 2 MB */
    FILES_PER_HOST = 16, /* a host may have several cpusets */
};

/* Returns a checksum that detects damage. It need not detect an attack, since other users cannot
 * write here. */
static uint64_t checksum(const char *data, size_t len)
{
    return fnv_hash_bytes(FNV_HASH_INIT, data, len);
}

/* Returns the first line of a file, or the text after `field` in the line that begins with it;
 * NULL: not found. */
static char *read_line(const char *path, const char *field)
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
    static const char *const overrides[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT",
                                            "HWLOC_COMPONENTS", "HWLOC_CPUID_PATH"};
    for (size_t i = 0; i < COUNT_OF(overrides); i++)
        if (getenv(overrides[i]))
            return NULL;
    AUTO(free) char *boot = read_line("/proc/sys/kernel/random/boot_id", NULL);
    AUTO(free) char *online = read_line("/sys/devices/system/cpu/online", NULL);
    AUTO(free) char *cpus = read_line("/proc/self/status", "Cpus_allowed_list:");
    AUTO(free) char *mems = read_line("/proc/self/status", "Mems_allowed_list:");
    if (!boot || !online || !cpus || !mems)
        return NULL;
    return xasprintf("1 hwloc=%x boot=%s online=%s cpus=%s mems=%s", hwloc_get_api_version(), boot,
                     online, cpus, mems);
}

/* Opens a directory that only this user can write, and creates it if it is missing; -1 on
 * failure. */
static int open_own(const char *path)
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
        (void)mkdir(base, 0700); /* it may exist; open_own() reports any failure */
        AUTO(free) char *dir = xasprintf("%s/drover", base);
        int fd = open_own(dir);
        if (fd >= 0)
            return fd;
    }
    AUTO(free) char *dir = NULL;
    return private_dir_in(&dir, "/tmp", NULL) < 0 ? -1 : open_own(dir);
}

/* Returns the name of the file for a key. It contains the host, since hosts may share a home
 * directory, and a hash of the key, since a host may have several cpusets. */
static char *file_name(const char *key)
{
    char host[65] = "";
    (void)gethostname(host, sizeof host - 1); /* an empty name also works, since the key decides */
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
    size_t read_bytes = 0;
    while (data && read_bytes < (size_t)st.st_size) {
        ssize_t n = read(fd, data + read_bytes, (size_t)st.st_size - read_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return NULL;
        read_bytes += (size_t)n;
    }
    *len = read_bytes;
    return TAKE(data);
}

/* Returns the line that precedes the XML. */
static char *format_header(const char *key, const char *xml, size_t len)
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
    AUTO(free) char *header = format_header(key, xml, xml_len);
    if (strlen(header) != total - xml_len || memcmp(header, data, total - xml_len) != 0)
        return NULL;
    memmove(data, xml, xml_len + 1); /* including the final NUL */
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
    (void)unlinkat(dir, temporary, 0); /* left by a killed process with this PID */
    AUTO(fd)
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    AUTO(free) char *header = format_header(key, xml, len);
    if (!write_all(fd, header, strlen(header)) || !write_all(fd, xml, len) ||
        renameat(dir, temporary, dir, name) < 0) {
        log_debug("topology cache not written: %s", strerror(errno));
        (void)unlinkat(dir, temporary, 0); /* no further action is possible */
    }
}
