#include "launcher/metrics/metrics_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/host_port.h"

static int fail(const char *text, struct err *e)
{
    err_set(e, -EINVAL, "'%s' is not an address", text);
    return err_hint(e, "9400 on loopback, 10.0.0.1:9400, [::1]:9400, or :9400 on all addresses");
}

/* Reads an IP address or "localhost". */
static int parse_host(struct metrics_address *a, const char *host)
{
    a->at.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    a->size = sizeof a->at.v4;
    if (inet_pton(AF_INET, host, &a->at.v4.sin_addr) == 1)
        return 0;
    if (strcmp(host, "localhost") == 0) {
        a->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return 0;
    }
    struct in6_addr v6;
    if (inet_pton(AF_INET6, host, &v6) != 1)
        return -EINVAL;
    a->at.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = v6};
    a->size = sizeof a->at.v6;
    return 0;
}

int metrics_address_parse(struct metrics_address *out, const char *text, struct err *e)
{
    struct metrics_address a = {0};
    struct host_port given;
    if (host_port_parse(&given, text, NULL) < 0 || given.port < 0)
        return fail(text, e);
    const char *all = given.only_port ? "localhost" : "0.0.0.0";
    if (parse_host(&a, *given.host ? given.host : all) < 0)
        return fail(text, e);
    in_port_t port = htons((in_port_t)given.port);
    if (a.at.any.sa_family == AF_INET)
        a.at.v4.sin_port = port;
    else
        a.at.v6.sin6_port = port;
    *out = a;
    return 0;
}

void metrics_address_url(struct strbuf *b, const struct metrics_address *a)
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct utsname u = {0};
    if (a->at.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &a->at.v6.sin6_addr, host, sizeof host);
        strbuf_printf(b, "http://[%s]:%d/metrics", host, ntohs(a->at.v6.sin6_port));
        return;
    }
    (void)inet_ntop(AF_INET, &a->at.v4.sin_addr, host, sizeof host);
    bool all = a->at.v4.sin_addr.s_addr == htonl(INADDR_ANY) && uname(&u) == 0;
    strbuf_printf(b, "http://%s:%d/metrics", all ? u.nodename : host, ntohs(a->at.v4.sin_port));
}
