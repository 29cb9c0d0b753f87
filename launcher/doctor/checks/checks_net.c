#include <errno.h>
#include <gnu/libc-version.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "common/listen.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/checks/nccl_library.h"
#include "launcher/doctor/core/sysroot.h"
#include "launcher/node/netif.h"

AUTO_DEFINE(addrinfo, struct addrinfo *, freeaddrinfo)
AUTO_DEFINE(ifaddrs, struct ifaddrs *, freeifaddrs)

/* ---- net.name ------------------------------------------------------------------------------- */

static void advise_hosts_line(struct check_result *r, const char *name)
{
    AUTO(strv) char **addresses = NULL;
    netif_addresses(&addresses);
    if (addresses)
        check_advise(r,
                     "add '%s %s' to /etc/hosts, and remove the line with 127.0.1.1; drover "
                     "itself uses addresses",
                     addresses[0], name);
}

static void check_name(struct check_result *r, struct check_env *env)
{
    static const char source[] = "getaddrinfo(own name)";
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    AUTO(addrinfo) struct addrinfo *found = NULL;
    struct utsname u;
    char text[NI_MAXHOST] = "";
    if (!env->has_other_nodes || uname(&u) < 0)
        return check_skip(r, "there is only this node");
    int rc = getaddrinfo(u.nodename, NULL, &hints, &found);
    if (rc != 0) {
        check_bad(r, CHECK_FAIL, "an address that other nodes reach", source, "%s: %s", u.nodename,
                  gai_strerror(rc));
        advise_hosts_line(r, u.nodename);
        return;
    }
    struct addrinfo *reached = found;
    while (reached && listen_is_loopback(reached->ai_addr))
        reached = reached->ai_next;
    const struct addrinfo *shown = reached ? reached : found;
    (void)getnameinfo(shown->ai_addr, shown->ai_addrlen, text, sizeof text, NULL, 0,
                      NI_NUMERICHOST); /* on failure the text stays empty */
    if (reached)
        return check_ok(r, source, "%s is %s", u.nodename, text);
    check_bad(r, CHECK_FAIL, "an address that other nodes reach", source, "%s is %s", u.nodename,
              text);
    advise_hosts_line(r, u.nodename);
}

/* ---- the launcher's address ----------------------------------------------------------------- */

/* Splits "10.0.0.1:4711" or "[fe80::1]:4711", and resolves it. Returns NULL if it is malformed. */
static struct addrinfo *launcher_address(const char *launcher)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *colon = launcher ? strrchr(launcher, ':') : NULL;
    bool bracket = launcher && launcher[0] == '[';
    if (!colon || colon - launcher < 2 * bracket)
        return NULL;
    AUTO(free)
    char *host = xstrndup(launcher + bracket, (size_t)(colon - launcher) - 2 * (size_t)bracket);
    return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

/* Connects a UDP socket, which sends nothing: the kernel chooses the route. */
static int route_socket(const struct addrinfo *to)
{
    AUTO(fd) int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? fd_take(&fd) : -1;
}

/* Returns the name of the interface of the route to the launcher; without a launcher the first one
 * that leads to other machines; NULL: none. The caller frees it. */
static char *outward(const struct addrinfo *launcher)
{
    AUTO(fd) int fd = launcher ? route_socket(launcher) : -1;
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    char address[NI_MAXHOST];
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
        getnameinfo((struct sockaddr *)&own, len, address, sizeof address, NULL, 0,
                    NI_NUMERICHOST) == 0)
        return netif_by_address(address, NULL);
    AUTO(strv) char **addresses = NULL;
    if (!launcher)
        netif_addresses(&addresses);
    return addresses ? netif_by_address(addresses[0], NULL) : NULL;
}

/* ---- net.if --------------------------------------------------------------------------------- */

/* Returns true if an entry of the list means the interface: as its whole name, or as a prefix. */
static bool list_has(const char *list, bool whole, const char *name)
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

/* The interfaces that NCCL_SOCKET_IFNAME means. */
struct named {
    struct strbuf up, down;
    char *exact; /* one that is named in full; borrowed from the list of interfaces */
    int up_count;
};

static void find_named(struct named *n, struct ifaddrs *all, const char *value)
{
    bool negated = *value == '^', exact = value[negated] == '=';
    const char *list = value + negated + exact;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (list_has(list, exact, i->ifa_name) == negated)
            continue;
        bool up = i->ifa_flags & IFF_UP, address = family == AF_INET || family == AF_INET6;
        struct strbuf *names = up && address ? &n->up : !up ? &n->down : NULL;
        if (!names || list_has(strbuf_str(names), true, i->ifa_name))
            continue;
        strbuf_printf(names, "%s%s", names->len ? "," : "", i->ifa_name);
        n->up_count += names == &n->up;
        if (!negated && list_has(list, true, i->ifa_name))
            n->exact = i->ifa_name;
    }
}

static void judge_named(struct check_result *r, const char *value, const struct named *n,
                        const char *out)
{
    static const char source[] = "NCCL_SOCKET_IFNAME, getifaddrs()";
    if (n->up_count == 0) {
        check_bad(r, CHECK_FAIL, "an interface that is up", source,
                  n->down.len ? "NCCL_SOCKET_IFNAME=%s: %s is down"
                              : "NCCL_SOCKET_IFNAME=%s: no interface of this name%s has an address",
                  value, n->down.len ? strbuf_str(&n->down) : "");
        if (out)
            check_advise(r, "export NCCL_SOCKET_IFNAME==%s", out);
    } else if (n->exact && n->up_count > 1 && !strchr(value, ',') && !strchr("^=", *value)) {
        check_bad(r, CHECK_WARN, "one interface", source,
                  "NCCL_SOCKET_IFNAME=%s is a prefix and also means %s", value, strbuf_str(&n->up));
        check_advise(r, "export NCCL_SOCKET_IFNAME==%s", n->exact);
    } else {
        check_ok(r, source, "%s", strbuf_str(&n->up));
    }
}

/* Two interfaces with a route to one network: answers may leave through the other one, and then
 * many switches and kernels drop them. Returns the names, which the caller frees, or NULL. */
static char *double_route(void)
{
    enum { ROUTES_MAX = 256, UP = 1 };
    struct route {
        char name[IFNAMSIZ];
        unsigned to, flags, mask;
        int metric;
    } all[ROUTES_MAX], *last = all;
    AUTO(free) char *text = sysroot_read("/proc/self/net/route");
    const char *line = text ? strchr(text, '\n') : NULL;
    for (; line && last < all + ROUTES_MAX; line = strchr(line + 1, '\n')) {
        if (sscanf(line, " %15s %x %*s %x %*d %*d %d %x", last->name, &last->to, &last->flags,
                   &last->metric, &last->mask) != 5 ||
            !(last->flags & UP) || last->mask == 0 || netif_is_internal(last->name))
            continue;
        for (struct route *o = all; o < last; o++)
            if (o->to == last->to && o->mask == last->mask && o->metric == last->metric &&
                strcmp(o->name, last->name) != 0)
                return xasprintf("%s and %s", o->name, last->name);
        last++;
    }
    return NULL;
}

static void judge_route(struct check_result *r, const struct check_env *env, const char *out)
{
    AUTO(free) char *twice = env->has_other_nodes ? double_route() : NULL;
    if (twice) {
        check_bad(r, CHECK_WARN, "one interface per network", "/proc/net/route",
                  "%s lead to the same network", twice);
        check_advise(r, "choose one: export NCCL_SOCKET_IFNAME==NAME; or give each interface a "
                        "network of its own");
    } else if (out && netif_is_internal(out)) {
        check_bad(r, CHECK_FAIL, "an interface that leads to other machines", "the route",
                  "the route to %s uses %s", env->launcher, out);
        check_advise(r, "export NCCL_SOCKET_IFNAME==NAME with an interface that other nodes reach");
    } else if (!out && env->has_other_nodes) {
        check_bad(r, CHECK_FAIL, "an interface that is up", "getifaddrs()",
                  env->launcher ? "no route to %s" : "no interface leads to other machines%s",
                  env->launcher ? env->launcher : "");
        check_advise(r, "ip link set NAME up");
    } else if (!out) {
        check_skip(r, "no interface leads to other machines, and there is only this node");
    } else {
        check_ok(r, "getifaddrs(), the routes", "%s", out);
    }
}

static void check_if(struct check_result *r, struct check_env *env)
{
    const char *value = getenv("NCCL_SOCKET_IFNAME");
    AUTO(addrinfo) struct addrinfo *launcher = launcher_address(env->launcher);
    AUTO(free) char *out = outward(launcher);
    AUTO(ifaddrs) struct ifaddrs *all = NULL;
    if (!value || !*value) {
        judge_route(r, env, out);
    } else if (getifaddrs(&all) < 0) {
        check_skip(r, "getifaddrs: %s", strerror(errno));
    } else {
        struct named n = {0};
        find_named(&n, all, value);
        judge_named(r, value, &n, out);
        strbuf_free(&n.up);
        strbuf_free(&n.down);
    }
}

/* ---- net.back ------------------------------------------------------------------------------- */

enum { CONNECT_MS = 250 };

/* Returns 0 if the connection can be made, or an errno. */
static int try_connect(const struct addrinfo *to)
{
    AUTO(fd) int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof error;
    if (poll(&p, 1, CONNECT_MS) <= 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
}

static void check_back(struct check_result *r, struct check_env *env)
{
    if (!env->launcher)
        return check_skip(r, "no launcher to connect to");
    AUTO(addrinfo) struct addrinfo *to = launcher_address(env->launcher);
    int error = to ? try_connect(to) : EADDRNOTAVAIL;
    const char *port = strrchr(env->launcher, ':');
    if (error == 0)
        return check_ok(r, "connect()", "%s", env->launcher);
    if (error == ETIMEDOUT)
        check_bad(r, CHECK_FAIL, "a connection", "connect()",
                  "%s: no answer within %d ms: a firewall drops the packets", env->launcher,
                  CONNECT_MS);
    else
        check_bad(r, CHECK_FAIL, "a connection", "connect()", "%s: %s", env->launcher,
                  strerror(error));
    if (error == ETIMEDOUT || error == ECONNREFUSED || error == EPERM)
        check_advise(r,
                     "let nodes connect to TCP port %s of the launcher's node: nft add rule "
                     "inet filter input tcp dport %s accept",
                     port ? port + 1 : "N", port ? port + 1 : "N");
    else
        check_advise(r, "see 'ip route get' with this address on this node");
}

/* ---- net.mtu -------------------------------------------------------------------------------- */

/* Returns the largest packet that the kernel sends to this address without fragments; 0:
 * unknown. */
static int path_mtu(const struct addrinfo *to)
{
    bool v6 = to->ai_family == AF_INET6;
    int probe = v6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO, mtu = 0;
    socklen_t len = sizeof mtu;
    AUTO(fd) int fd = route_socket(to);
    if (fd < 0)
        return 0;
    (void)setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                     &probe, sizeof probe); /* without it the value is that of the route */
    if (getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &len) < 0)
        return 0;
    return mtu;
}

enum { IP_PACKET_MAX = 65535 }; /* the loopback interface has a larger MTU */

static int interface_mtu(const char *name)
{
    struct ifreq request = {0};
    AUTO(fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

static void check_mtu(struct check_result *r, struct check_env *env)
{
    AUTO(addrinfo) struct addrinfo *launcher = launcher_address(env->launcher);
    AUTO(free) char *name = outward(launcher);
    int mtu = name ? interface_mtu(name) : 0, path = launcher && mtu ? path_mtu(launcher) : mtu;
    AUTO(free) char *source = xasprintf("MTU of %s", name ? name : "?");
    if (mtu == 0) {
        check_skip(r, "no interface leads to other machines");
    } else if (path > 0 && path < mtu && path < IP_PACKET_MAX) {
        AUTO(free) char *want = xasprintf("%d, as %s", mtu, name);
        check_bad(r, CHECK_FAIL, want, "getsockopt(IP_MTU)", "%d on the path to %s", path,
                  env->launcher);
        check_advise(r, "ip link set %s mtu %d, or raise the MTU of the switches", name, path);
    } else {
        check_ok(r, source, "%d", mtu);
    }
}

/* ---- net.skew ------------------------------------------------------------------------------- */

/* Returns the local time zone: "UTC", "Europe/Berlin". */
static char *time_zone(void)
{
    static const char folder[] = "/zoneinfo/";
    const char *tz = getenv("TZ");
    char link[256] = "";
    AUTO(free) char *path = sysroot_path("/etc/localtime");
    if (tz && *tz)
        return xstrdup(tz);
    if (readlink(path, link, sizeof link - 1) < 0)
        return sysroot_read("/etc/timezone");
    const char *name = strstr(link, folder);
    return xstrdup(name ? name + strlen(folder) : link);
}

static void add_version(struct strbuf *b, const char *what, const char *version)
{
    if (version && *version)
        strbuf_printf(b, "%s%s %s", b->len ? ", " : "", what, version);
}

static void check_skew(struct check_result *r, struct check_env *env)
{
    struct utsname u = {0};
    struct nccl_library l;
    nccl_library_find(&l, env->command);
    const char *used = nccl_library_used(&l);
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(free) char *nccl = used ? nccl_library_version(used) : NULL;
    AUTO(free) char *driver = sysroot_read("/sys/module/nvidia/version");
    AUTO(free) char *zone = time_zone();
    add_version(&b, "drover", DROVER_VERSION);
    add_version(&b, "NCCL", nccl);
    add_version(&b, "driver", driver);
    add_version(&b, "kernel", uname(&u) == 0 ? u.release : NULL);
    add_version(&b, "libc", gnu_get_libc_version());
    add_version(&b, "time zone", zone);
    check_ok(r, "uname(), ncclGetVersion(), /sys/module/nvidia/version, /etc/localtime", "%s",
             strbuf_str(&b));
    nccl_library_clear(&l);
}

const struct check checks_net[] = {
    {"net.name", "own name", CHECK_QUICK, check_name,
     .why = "Gloo and PyTorch resolve the own name and give that address to other nodes. 127.0.1.1 "
            "leads the other nodes to themselves.",
     .advice = "add this node's address and name to /etc/hosts"},
    {"net.if", "interface to other nodes", CHECK_REPORT, check_if,
     .why = "NCCL hangs or fails if its interface is down, or if it cannot be reached from other "
            "nodes. NCCL_SOCKET_IFNAME is a prefix: eth1 also means eth10.",
     .advice = "export NCCL_SOCKET_IFNAME==NAME"},
    {"net.back", "way back to the launcher", CHECK_QUICK, check_back,
     .why = "The ranks of this node connect to the launcher. A firewall often lets ssh through, "
            "and no other port.",
     .advice = "open the launcher's port range in the firewall"},
    {"net.mtu", "MTU", CHECK_LONG, check_mtu, .compared = true,
     .why = "With different MTUs, small messages arrive and large ones vanish: a job starts and "
            "then hangs.",
     .advice = "give the interfaces of all nodes one MTU: ip link set NAME mtu N"},
    {"net.skew", "versions", CHECK_LONG, check_skew, .compared = true, .must_match = "drover|NCCL",
     .why = "All nodes need the same drover and the same NCCL. Other differences make faults that "
            "only some nodes have.",
     .advice = "install the same versions on all nodes"},
    {0},
};
