#include <string.h>

#include "common/listen.h"
#include "common/strbuf.h"
#include "launcher/remote/control/control.h"

enum { BACKLOG = 4096 };

int control_listen(uv_tcp_t *listener, uv_loop_t *loop, uv_connection_cb connected, struct err *e)
{
    struct listen_address everywhere = listen_everywhere(0);
    AUTO(fd) int fd = listen_bind(&everywhere, LISTEN_REUSE);
    uv_tcp_init(loop, listener);
    int rc = fd < 0 ? fd : uv_tcp_open(listener, fd);
    if (rc == 0)
        (void)fd_take(&fd); /* the handle has it */
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)listener, BACKLOG, connected);
    return rc < 0 ? err_set(e, rc, "listen for agents: %s", uv_strerror(rc)) : 0;
}

int control_listener_port(const uv_tcp_t *listener)
{
    struct listen_address a = {0};
    int size = sizeof a.at;
    (void)uv_tcp_getsockname(listener, &a.at.any, &size); /* cannot fail, since it listens */
    return listen_port(&a.at.any);
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
