#include "collectives/backends/nccl/nccl_precheck.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum {
    SHM_BYTES_PER_RANK = 64 << 20
}; /* NCCL's buffers for its channels to the ranks of its node */

AUTO_DEFINE(interfaces, struct ifaddrs *, freeifaddrs)

void nccl_precheck_version(char out[NCCL_PRECHECK_VERSION_BYTES], int version)
{
    /* Since 2.9: 10,000 * major + 100 * minor + patch. */
    snprintf(out, NCCL_PRECHECK_VERSION_BYTES, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
}

void nccl_precheck_host(struct nccl_precheck_rank_info *mine)
{
    const char *host_id = getenv("NCCL_HOSTID");
    if (gethostname(mine->node, sizeof mine->node - 1) < 0)
        mine->node[0] = '\0';
    AUTO(free) char *boot = file_line("/proc/sys/kernel/random/boot_id");
    mine->host = FNV_HASH_INIT;
    if (host_id && *host_id)
        mine->host = fnv_hash_text(mine->host, host_id);
    else
        mine->host = fnv_hash_text(fnv_hash_text(mine->host, mine->node), boot ? boot : "");
}

/* Returns true if the list contains the interface. `list` begins after '^' and '='. */
static bool is_listed(const char *list, bool whole, const char *name)
{
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",:"); /* ":PORT" may follow a name */
        if (len > 0 && strncmp(p, name, len) == 0 && (!whole || name[len] == '\0'))
            return true;
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return false;
}

int nccl_precheck_interfaces(const char *ifname, struct err *e)
{
    AUTO(interfaces) struct ifaddrs *all = NULL;
    if (!ifname || !*ifname || getifaddrs(&all) < 0)
        return 0; /* NCCL chooses one itself */
    bool negated = *ifname == '^', exact = ifname[negated] == '=';
    AUTO(strbuf) struct strbuf up = {0}, down = {0};
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        bool matches = is_listed(ifname + negated + exact, exact, i->ifa_name) != negated;
        bool address = family == AF_INET || family == AF_INET6, runs = i->ifa_flags & IFF_UP;
        if (matches && address && runs)
            return 0;
        if (matches && !runs)
            strbuf_printf(&down, "%s%s", down.len ? ", " : "", i->ifa_name);
        if (address && runs && !is_listed(strbuf_str(&up), true, i->ifa_name))
            strbuf_printf(&up, "%s%s", up.len ? "," : "", i->ifa_name);
    }
    if (down.len)
        err_set(e, -EINVAL, "NCCL_SOCKET_IFNAME=%s: %s is down", ifname, strbuf_str(&down));
    else
        err_set(e, -EINVAL,
                "NCCL_SOCKET_IFNAME=%s matches no interface of this node with an address", ifname);
    return err_hint(e, "%s", up.len ? strbuf_str(&up) : "bring up an interface");
}

static int check_gpus(const struct nccl_precheck_rank_info *ranks, int n, struct err *e)
{
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE"); /* NCCL 2.30 */
    if (shared && strcmp(shared, "1") == 0)
        return 0;
    for (int r = 1; r < n; r++)
        for (int k = 0; k < r; k++) {
            if (ranks[k].host != ranks[r].host || strcmp(ranks[k].bus, ranks[r].bus) != 0)
                continue;
            err_set(e, -EEXIST, "ranks %d and %d on node %s have the same GPU, %s", k, r,
                    ranks[r].node, ranks[r].bus);
            return err_hint(
                e, "use one GPU per rank (see LOCAL_RANK, CUDA_VISIBLE_DEVICES, and the number of "
                   "GPUs of the node)");
        }
    return 0;
}

int nccl_precheck_check(const struct nccl_precheck_rank_info *ranks, int n, struct err *e)
{
    for (int r = 0; r < n; r++)
        if (ranks[r].trouble[0]) {
            err_set(e, -EHOSTDOWN, "rank %d on node %s cannot participate: %s", r, ranks[r].node,
                    ranks[r].trouble);
            return err_hint(e, "see that rank's own error");
        }
    for (int r = 1; r < n; r++)
        if (ranks[r].version != ranks[0].version) {
            char first[NCCL_PRECHECK_VERSION_BYTES], other[NCCL_PRECHECK_VERSION_BYTES];
            nccl_precheck_version(first, ranks[0].version);
            nccl_precheck_version(other, ranks[r].version);
            err_set(e, -EPROTO, "rank 0 on node %s has %s, rank %d on node %s has %s",
                    ranks[0].node, first, r, ranks[r].node, other);
            return err_hint(e, "set DROVER_NCCL_LIB to the same library on all ranks");
        }
    return check_gpus(ranks, n, e);
}

unsigned nccl_precheck_caps(const struct nccl_precheck_rank_info *ranks, int n)
{
    unsigned caps = ~0U;
    for (int r = 0; r < n; r++)
        caps &= ranks[r].caps;
    return caps;
}

void nccl_precheck_shm(int local_ranks)
{
    struct statvfs fs;
    if (local_ranks < 2 || statvfs("/dev/shm", &fs) < 0)
        return;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes < (uint64_t)local_ranks * SHM_BYTES_PER_RANK)
        log_warn("/dev/shm has %" PRIu64
                 " MiB free, but the %d ranks of this node need %d MiB: NCCL may "
                 "fail; enlarge it (docker run --shm-size=1g, or mount -o remount,size=1g "
                 "/dev/shm), or set NCCL_SHM_DISABLE=1",
                 free_bytes >> 20, local_ranks, local_ranks * (SHM_BYTES_PER_RANK >> 20));
}
