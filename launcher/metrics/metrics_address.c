#include "launcher/metrics/metrics_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/mem.h"

enum { PORT_MAX = 65535 };

static int fail(const char *text, struct err *e)
{
    err_set(e, -EINVAL, "'%s' is not an address", text);
    return err_hint(e, "9400 on loopback, 10.0.0.1:9400, [::1]:9400, or :9400 on all addresses");
}

/* Reads the host, which has no brackets any more. */
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
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t len = strlen(digits);
    if (len == 0 || len > 5 || strspn(digits, "0123456789") != len || atoi(digits) > PORT_MAX)
        return fail(text, e);
    AUTO(free) char *host = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup("localhost");
    size_t host_len = strlen(host);
    bool brackets = host[0] == '[' && host[host_len - 1] == ']';
    if (brackets)
        host[host_len - 1] = '\0';
    const char *given = host_len == 0 ? "0.0.0.0" : host + brackets;
    if ((!brackets && strchr(host, ':')) || parse_host(&a, given) < 0)
        return fail(text, e);
    in_port_t port = htons((in_port_t)atoi(digits));
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
