#include "launcher/node/topo_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/private_dir.h"

enum {
    FILE_MAX = 16 << 20, /* a machine with 2,048 hardware threads needs 2 MB */
    FILES_PER_HOST = 16, /* a host may have several cpusets */
};

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
