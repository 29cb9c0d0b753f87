#include "launcher/netif.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

static bool is_inner(const char *name)
{
    static const char *const prefixes[] = {"docker", "br-",     "virbr", "lxcbr", "lxdbr",
                                           "podman", "flannel", "cni",   "cali",  "veth"};
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

char *netif_inner(void)
{
    struct ifaddrs *all = NULL;
    struct strbuf names = {0};
    if (getifaddrs(&all) < 0)
        return NULL;
    for (struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP &&
            is_inner(i->ifa_name))
            strbuf_printf(&names, "%s%s", names.len ? "," : "", i->ifa_name);
    freeifaddrs(all);
    return names.len ? strbuf_take(&names) : NULL;
}
