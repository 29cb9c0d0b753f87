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

#include "common/fnv_hash.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum { SHM_A_RANK = 64 << 20 }; /* NCCL's buffers for its channels to the ranks of its node */

AUTO_DEFINE(interfaces, struct ifaddrs *, freeifaddrs)

void nccl_precheck_version(char out[NCCL_PRECHECK_VERSION_BYTES], int version)
{
    /* From 2.9 on 10,000 * major + 100 * minor + patch. */
    snprintf(out, NCCL_PRECHECK_VERSION_BYTES, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
}

void nccl_precheck_host(struct nccl_precheck_rank_info *mine)
{
    char boot[64] = "";
    const char *chosen = getenv("NCCL_HOSTID");
    if (gethostname(mine->node, sizeof mine->node - 1) < 0)
        mine->node[0] = '\0';
    AUTO(file) FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = '\0';
    mine->host = FNV_HASH_INIT;
    if (chosen && *chosen)
        mine->host = fnv_hash_text(mine->host, chosen);
    else
        mine->host = fnv_hash_text(fnv_hash_text(mine->host, mine->node), boot);
}

/* Whether the list, without '^' and '=', names the interface. */
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

int nccl_precheck_interfaces(const char *wanted, struct err *e)
{
    AUTO(interfaces) struct ifaddrs *all = NULL;
    if (!wanted || !*wanted || getifaddrs(&all) < 0)
        return 0; /* NCCL looks for itself */
    bool not = *wanted == '^', whole = wanted[not ] == '=';
    AUTO(strbuf) struct strbuf up = {0}, down = {0};
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        bool fits = is_listed(wanted + not +whole, whole, i->ifa_name) != not ;
        bool address = family == AF_INET || family == AF_INET6, runs = i->ifa_flags & IFF_UP;
        if (fits && address && runs)
            return 0;
        if (fits && !runs)
            strbuf_printf(&down, "%s%s", down.len ? ", " : "", i->ifa_name);
        if (address && runs && !is_listed(strbuf_str(&up), true, i->ifa_name))
            strbuf_printf(&up, "%s%s", up.len ? "," : "", i->ifa_name);
    }
    if (down.len)
        err_set(e, -EINVAL, "NCCL_SOCKET_IFNAME=%s: %s is down", wanted, strbuf_str(&down));
    else
        err_set(e, -EINVAL, "NCCL_SOCKET_IFNAME=%s names no interface of this node with an address",
                wanted);
    return err_hint(e, "this node has %s", up.len ? strbuf_str(&up) : "none that is up");
}

static int check_gpus(const struct nccl_precheck_rank_info *cards, int n, struct err *e)
{
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE"); /* NCCL 2.30 */
    if (shared && strcmp(shared, "1") == 0)
        return 0;
    for (int r = 1; r < n; r++)
        for (int k = 0; k < r; k++) {
            if (cards[k].host != cards[r].host || strcmp(cards[k].bus, cards[r].bus) != 0)
                continue;
            err_set(e, -EEXIST, "ranks %d and %d on node %s have the same GPU, %s", k, r,
                    cards[r].node, cards[r].bus);
            return err_hint(e, "a GPU for each rank: see LOCAL_RANK, CUDA_VISIBLE_DEVICES, and "
                               "whether the node has as many GPUs as ranks");
        }
    return 0;
}

int nccl_precheck_check(const struct nccl_precheck_rank_info *cards, int n, struct err *e)
{
    for (int r = 0; r < n; r++)
        if (cards[r].trouble[0]) {
            err_set(e, -EHOSTDOWN, "rank %d on node %s cannot take part: %s", r, cards[r].node,
                    cards[r].trouble);
            return err_hint(e, "see that rank's own message");
        }
    for (int r = 1; r < n; r++)
        if (cards[r].version != cards[0].version) {
            char first[NCCL_PRECHECK_VERSION_BYTES], other[NCCL_PRECHECK_VERSION_BYTES];
            nccl_precheck_version(first, cards[0].version);
            nccl_precheck_version(other, cards[r].version);
            err_set(e, -EPROTO, "rank 0 on node %s has %s, rank %d on node %s has %s",
                    cards[0].node, first, r, cards[r].node, other);
            return err_hint(e, "let all ranks load the same library, by DROVER_NCCL_LIB");
        }
    return check_gpus(cards, n, e);
}

void nccl_precheck_shm(int ranks_here)
{
    struct statvfs fs;
    if (ranks_here < 2 || statvfs("/dev/shm", &fs) < 0)
        return;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes < (uint64_t)ranks_here * SHM_A_RANK)
        log_warn("/dev/shm has %" PRIu64 " MiB free, and %d ranks of this node want %d MiB of it; "
                 "NCCL may fail: make it larger (docker run --shm-size=1g, or mount -o "
                 "remount,size=1g /dev/shm), or set NCCL_SHM_DISABLE=1",
                 free_bytes >> 20, ranks_here, ranks_here * (SHM_A_RANK >> 20));
}
