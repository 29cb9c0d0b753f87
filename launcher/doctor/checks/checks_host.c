#include "launcher/doctor/checks/checks_host.h"

#include <ctype.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/core/sysroot.h"

int checks_host_ranks(const struct check_env *env)
{
    int gpus = env->topo ? topo_gpu_count(env->topo) : 0;
    if (env->ranks > 0)
        return env->ranks;
    return gpus > 0 ? gpus : 1;
}

bool checks_host_field(int64_t *out, const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        const char *number = line + len + strspn(line + len, ": \t");
        if (number > line + len && isdigit((unsigned char)*number)) {
            *out = strtoll(number, NULL, 10);
            return true;
        }
    }
    return false;
}

struct checks_host_size checks_host_size(uint64_t bytes)
{
    struct checks_host_size s;
    byte_size_format(s.text, sizeof s.text, bytes);
    return s;
}

/* ---- the biggest processes ------------------------------------------------------------------ */

enum { BIGGEST = 3 };

struct process {
    int64_t kib;
    char name[32];
    char pid[16];
};

/* Inserts `p` into the list, which is sorted by size; the smallest one drops out. */
static void insert(struct process list[BIGGEST], struct process p)
{
    for (int i = 0; i < BIGGEST; i++)
        if (p.kib > list[i].kib) {
            struct process smaller = list[i];
            list[i] = p;
            p = smaller;
        }
}

char *checks_host_biggest(const char *key)
{
    struct process list[BIGGEST] = {0};
    AUTO(strv) char **names = sysroot_list("/proc");
    for (char **pid = names; pid && *pid; pid++) {
        struct process p = {0};
        AUTO(free)
        char *status = isdigit((unsigned char)**pid) ? sysroot_read("/proc/%s/status", *pid) : NULL;
        if (!checks_host_field(&p.kib, status, key) ||
            sscanf(status, "Name:\t%31[^\n]", p.name) != 1)
            continue;
        snprintf(p.pid, sizeof p.pid, "%s", *pid);
        insert(list, p);
    }
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < BIGGEST && list[i].kib > 0; i++)
        strbuf_printf(&b, "%s%s (pid %s) %s", i ? ", " : "", list[i].name, list[i].pid,
                      checks_host_size((uint64_t)list[i].kib << 10).text);
    return b.len ? strbuf_take(&b) : NULL;
}
