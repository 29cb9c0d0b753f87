#include "launcher/node/netif.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

bool netif_is_internal(const char *name)
{
    static const char *const prefixes[] = {"docker",  "br-", "virbr", "lxcbr", "lxdbr", "podman",
                                           "flannel", "cni", "cali",  "veth",  NULL};
    return strv_begins(prefixes, name);
}

static bool has_family(const struct ifaddrs *i, int family)
{
    return i->ifa_addr && i->ifa_addr->sa_family == family && i->ifa_flags & IFF_UP;
}

/* Formats the address of an interface. Returns false if it has no IP address. */
static bool format_address(char *out, const struct ifaddrs *i)
{
    if (has_family(i, AF_INET))
        return inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, out,
                         INET6_ADDRSTRLEN);
    return has_family(i, AF_INET6) &&
           inet_ntop(AF_INET6, &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, out,
                     INET6_ADDRSTRLEN);
}

char *netif_by_address(const char *address, char **internal)
{
    struct ifaddrs *all = NULL;
    struct strbuf names = {0};
    char address_text[INET6_ADDRSTRLEN], *name = NULL;
    if (internal)
        *internal = NULL;
    if (getifaddrs(&all) < 0)
        return NULL;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!name && format_address(address_text, i) && strcmp(address_text, address) == 0)
            name = xstrdup(i->ifa_name);
        if (internal && has_family(i, AF_INET) && netif_is_internal(i->ifa_name))
            strbuf_printf(&names, "%s%s", names.len ? "," : "", i->ifa_name);
    }
    freeifaddrs(all);
    if (names.len)
        *internal = strbuf_take(&names);
    return name;
}

void netif_addresses(char ***out)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    char address_text[INET6_ADDRSTRLEN];
    if (getifaddrs(&all) < 0)
        return;
    for (size_t f = 0; f < COUNT_OF(families); f++)
        for (struct ifaddrs *i = all; i; i = i->ifa_next)
            if (has_family(i, families[f]) && !(i->ifa_flags & IFF_LOOPBACK) &&
                !netif_is_internal(i->ifa_name) && format_address(address_text, i) &&
                strncmp(address_text, "fe80:", 5) != 0)
                strv_push(out, xstrdup(address_text));
    freeifaddrs(all);
}
