#include <arpa/inet.h>
#include <netinet/in.h>

#include <string.h>

#include "common/strbuf.h"
#include "launcher/control/control.h"

enum { BACKLOG = 4096 };

int control_listen(uv_tcp_t *listener, uv_loop_t *loop, uv_connection_cb connected, struct err *e)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    uv_tcp_init(loop, listener);
    int rc = uv_tcp_bind(listener, (struct sockaddr *)&six, 0);
    if (rc < 0) /* this machine or container has no IPv6 */
        rc = uv_tcp_bind(listener, (struct sockaddr *)&four, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)listener, BACKLOG, connected);
    return rc < 0 ? err_set(e, rc, "listen for agents: %s", uv_strerror(rc)) : 0;
}

int control_listener_port(const uv_tcp_t *listener)
{
    struct sockaddr_storage a = {0};
    int len = sizeof a;
    /* Cannot fail, since it listens */
    (void)uv_tcp_getsockname(listener, (struct sockaddr *)&a, &len);
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

char *control_address_list(char *const *addresses, int port)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; addresses && addresses[i]; i++)
        strbuf_printf(&b, strchr(addresses[i], ':') ? "%s[%s]:%d" : "%s%s:%d", b.len ? "," : "",
                      addresses[i], port);
    if (b.len == 0)
        strbuf_printf(&b, "127.0.0.1:%d", port);
    return strbuf_take(&b);
}
