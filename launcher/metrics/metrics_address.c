#include "launcher/metrics/metrics_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/utsname.h>

#include "common/host_port.h"
#include "common/mem.h"

static int fail(const char *text, struct err *e)
{
    err_set(e, -EINVAL, "'%s' is not an address", text);
    return err_hint(e, "9400 on loopback, 10.0.0.1:9400, [::1]:9400, or :9400 on all addresses");
}

int metrics_address_parse(struct listen_address *out, const char *text, struct err *e)
{
    struct host_port given;
    if (host_port_parse(&given, text, NULL) < 0 || given.port < 0)
        return fail(text, e);
    const char *all = given.only_port ? "localhost" : "0.0.0.0";
    if (listen_address_read(out, *given.host ? given.host : all, given.port) < 0)
        return fail(text, e);
    return 0;
}

void metrics_address_url(struct strbuf *b, const struct listen_address *a)
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct utsname u = {0};
    bool v4 = a->at.any.sa_family == AF_INET;
    (void)inet_ntop(a->at.any.sa_family,
                    v4 ? (const void *)&a->at.v4.sin_addr : &a->at.v6.sin6_addr, host, sizeof host);
    bool all = v4 && listen_is_everywhere(&a->at.any) && uname(&u) == 0;
    AUTO(free) char *text = host_port_text(all ? u.nodename : host, listen_port(&a->at.any));
    strbuf_printf(b, "http://%s/metrics", text);
}
