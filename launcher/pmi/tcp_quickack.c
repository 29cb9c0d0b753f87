#include "launcher/pmi/tcp_quickack.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Sends a pending acknowledgement. Returns false if the descriptor is not a TCP connection. If
 * another thread has closed the descriptor, its number may mean another file now, to which the call
 * does no harm. */
static bool acknowledge(int fd)
{
    const int yes = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes) == 0;
}

static void find_connections(struct tcp_quickack *q)
{
    DIR *d = opendir("/proc/self/fd");
    q->count = 0;
    for (struct dirent *it; d && (it = readdir(d));) {
        char *end;
        int fd = (int)strtol(it->d_name, &end, 10);
        if (*end || !acknowledge(fd))
            continue;
        q->fds = xrealloc(q->fds, q->count + 1, sizeof *q->fds);
        q->fds[q->count++] = fd;
    }
    if (d)
        closedir(d);
}

static void on_timer(uv_timer_t *t)
{
    struct tcp_quickack *q = (struct tcp_quickack *)t; /* its first member */
    if (q->stale)
        find_connections(q);
    q->stale = false;
    for (size_t i = 0; i < q->count; i++)
        (void)acknowledge(q->fds[i]);
    if (--q->left == 0)
        uv_timer_stop(t);
}

void tcp_quickack_init(struct tcp_quickack *q, uv_loop_t *loop)
{
    *q = (struct tcp_quickack){0};
    uv_timer_init(loop, &q->timer);
}

void tcp_quickack_rearm(struct tcp_quickack *q)
{
    q->stale = true;
    q->left = TCP_QUICKACK_TIMES;
    if (uv_is_active((uv_handle_t *)&q->timer))
        return;
    uv_timer_start(&q->timer, on_timer, TCP_QUICKACK_EVERY_MS, TCP_QUICKACK_EVERY_MS);
    uv_unref((uv_handle_t *)&q->timer);
}

void tcp_quickack_free(struct tcp_quickack *q)
{
    free(q->fds);
}
