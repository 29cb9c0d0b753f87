/* The network of this machine, and recorded routes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include "tests/unit/launcher/doctor/kit_check.h"

/* Returns a socket that listens on 127.0.0.1, and its address. */
static int listener(char **address)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 1) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *address = xasprintf("127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

TEST(the_launcher_is_reached_or_the_connection_is_refused)
{
    AUTO(free) char *address = NULL;
    int fd = listener(&address);
    CHECK_FINDS("net.back", &(struct check_env){.launcher = address}, CHECK_OK, address, "");
    close(fd);
    CHECK_FINDS("net.back", &(struct check_env){.launcher = address}, CHECK_FAIL,
                "Connection refused", "tcp dport");
    CHECK_FINDS("net.back", &(struct check_env){.launcher = "no port"}, CHECK_FAIL, "no port", "");
    CHECK_FINDS("net.back", NULL, CHECK_SKIP, "no launcher", "");
}

static void finds_interface(const char *value, enum check_state s, const char *found,
                            const char *advice)
{
    CHECK_INT(setenv("NCCL_SOCKET_IFNAME", value, 1), 0);
    CHECK_FINDS("net.if", NULL, s, found, advice);
}

TEST(the_interface_that_nccl_is_told_to_use_must_be_up)
{
    finds_interface("lo", CHECK_OK, "lo", "");
    finds_interface("=lo", CHECK_OK, "lo", "");
    finds_interface("nosuch0,lo:40000", CHECK_OK, "lo", "");
    finds_interface("nosuch", CHECK_FAIL, "NCCL_SOCKET_IFNAME=nosuch: no interface", "");
    finds_interface("=l", CHECK_FAIL, "NCCL_SOCKET_IFNAME==l", "");
}

TEST(two_interfaces_in_one_network_warn_if_there_are_other_nodes)
{
    char *root = kit_check_root();
    AUTO(free) char *address = NULL;
    AUTO(fd) int fd = listener(&address);
    struct check_env env = {.has_other_nodes = true, .launcher = address};
    unsetenv("NCCL_SOCKET_IFNAME");
#define HEAD "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
#define ROUTE(name, to, metric, mask) \
    name "\t" to "\t00000000\t0001\t0\t0\t" metric "\t" mask "\t0\t0\t0\n"
    put(root, "proc/self/net/route",
        HEAD ROUTE("eth0", "00000000", "0", "00000000") ROUTE("eth0", "0000000A", "0", "0000FFFF")
            ROUTE("eth1", "0000010A", "0", "0000FFFF"));
    CHECK_FINDS("net.if", &env, CHECK_OK, "lo", "");
    put(root, "proc/self/net/route",
        HEAD ROUTE("eth0", "0000000A", "0", "0000FFFF") ROUTE("eth1", "0000000A", "0", "0000FFFF"));
    CHECK_FINDS("net.if", &env, CHECK_WARN, "eth0 and eth1", "NCCL_SOCKET_IFNAME==NAME");
    env.has_other_nodes = false;
    CHECK_FINDS("net.if", &env, CHECK_OK, "lo", "");
    env.has_other_nodes = true;
    put(root, "proc/self/net/route",
        HEAD ROUTE("eth0", "0000000A", "0", "0000FFFF")
            ROUTE("eth1", "0000000A", "100", "0000FFFF"));
    CHECK_FINDS("net.if", &env, CHECK_OK, "lo", "");
    remove_root(root);
}

TEST(a_name_that_leads_to_loopback_or_nowhere_fails_if_there_are_other_nodes)
{
    struct check_env env = {.has_other_nodes = true};
    CHECK_FINDS("net.name", NULL, CHECK_SKIP, "only this node", "");
    if (unshare(CLONE_NEWUTS) < 0)
        SKIP("no namespace for the host name");
    CHECK_INT(sethostname("localhost", strlen("localhost")), 0);
    CHECK_FINDS("net.name", &env, CHECK_FAIL, "localhost is ", "");
    CHECK_INT(sethostname("192.0.2.7", strlen("192.0.2.7")), 0);
    CHECK_FINDS("net.name", &env, CHECK_OK, "192.0.2.7", "");
    CHECK_INT(sethostname("not a name", strlen("not a name")), 0);
    CHECK_FINDS("net.name", &env, CHECK_FAIL, "not a name: ", "");
}

TEST(versions_are_listed_for_comparison)
{
    char *root = kit_check_root();
    CHECK_INT(setenv("TZ", "Europe/Berlin", 1), 0);
    put(root, "sys/module/nvidia/version", "550.54.15\n");
    CHECK_FINDS("net.skew", NULL, CHECK_OK, "drover " DROVER_VERSION, "");
    CHECK_HAS(kit_result.value, "driver 550.54.15");
    CHECK_HAS(kit_result.value, "time zone Europe/Berlin");
    CHECK(check_find("net.skew")->compared && check_find("net.mtu")->compared);
    remove_root(root);
}

TEST(the_mtu_is_that_of_the_interface_to_the_launcher)
{
    CHECK_FINDS("net.mtu", &(struct check_env){.launcher = "127.0.0.1:9"}, CHECK_OK, "65536", "");
    CHECK_STR(kit_result.source, "MTU of lo");
}
