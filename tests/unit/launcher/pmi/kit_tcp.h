/* kit_tcp - TCP connections over the loopback device. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

/* Returns a listening socket; `*at` is its address. */
static inline int kit_tcp_listen(struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)at, len), 0);
    CHECK_INT(listen(fd, SOMAXCONN), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static inline int kit_tcp_connect(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    return fd;
}
