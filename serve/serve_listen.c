#include "serve/serve_listen.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/host_port.h"
#include "common/listen.h"

enum { BACKLOG = 1024, NAME_SIZE = 256 };

/* Sets `*at` to the address of the socket. */
static int bind_address(struct serve_listen *l, struct listen_address *at, const char *address,
                        int port, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(address, service, &hints, &found);
    if (rc != 0)
        return err_set(e, -EINVAL, "--listen: '%s': %s", address, gai_strerror(rc));
    *at = listen_address_of(found->ai_addr);
    freeaddrinfo(found);
    l->fd = rc = listen_open(at, LISTEN_REUSE, BACKLOG);
    return rc < 0 ? err_set(e, rc, "--listen: %s:%d: %s", address, port, strerror(-rc)) : 0;
}

/* Adds the addresses of this machine's interfaces. */
static void add_addresses(struct serve_listen *l)
{
    struct ifaddrs *all = NULL;
    (void)getifaddrs(&all); /* without it, only the machine's names are accepted */
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char number[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        socklen_t len =
            family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        if ((family != AF_INET && family != AF_INET6) ||
            getnameinfo(i->ifa_addr, len, number, sizeof number, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        strv_push(&l->hosts, family == AF_INET6 ? xasprintf("[%s]", number) : xstrdup(number));
    }
    freeifaddrs(all);
}

/* Sets the names by which the address `at` is reached. `address` is as the user wrote it. */
static void set_names(struct serve_listen *l, const struct listen_address *at, const char *address,
                      char *const *names)
{
    char name[NAME_SIZE] = "localhost", number[INET6_ADDRSTRLEN] = "";
    (void)gethostname(name, sizeof name - 1); /* on failure it stays "localhost" */
    (void)getnameinfo(&at->at.any, at->size, number, sizeof number, NULL, 0, NI_NUMERICHOST);
    bool any = listen_is_everywhere(&at->at.any), v6 = at->at.any.sa_family == AF_INET6;
    l->port = listen_port(&at->at.any);
    l->loopback = listen_is_loopback(&at->at.any);
    l->host_name = xstrdup(name);
    l->url_host = any ? xstrdup(name) : v6 ? xasprintf("[%s]", number) : xstrdup(number);
    strv_push(&l->hosts, xstrdup(l->url_host));
    if (l->loopback || any)
        for (size_t i = 0; i < 3; i++)
            strv_push(&l->hosts, xstrdup((const char *[]){"localhost", "127.0.0.1", "[::1]"}[i]));
    if (any)
        add_addresses(l);
    if (!l->loopback) {
        strv_push(&l->hosts, xstrdup(name));
        strv_push(&l->hosts, xstrdup(address));
    }
    strv_add(&l->hosts, names);
}

int serve_listen_open(struct serve_listen *out, const char *text, char *const *names, struct err *e)
{
    struct host_port given = {.port = -1};
    if (text && host_port_parse(&given, text, e) < 0)
        return err_wrap(e, "--listen");
    const char *address = *given.host ? given.host : "127.0.0.1";
    *out = (struct serve_listen){.fd = -1};
    struct listen_address at;
    int rc = bind_address(out, &at, address, given.port >= 0 ? given.port : SERVE_LISTEN_PORT, e);
    if (rc == -EADDRINUSE && given.port < 0)
        rc = bind_address(out, &at, address, 0, e);
    if (rc < 0)
        return rc;
    set_names(out, &at, address, names);
    return 0;
}

void serve_listen_close(struct serve_listen *l)
{
    if (l->fd >= 0)
        close(l->fd);
    strv_free(l->hosts);
    free(l->url_host);
    free(l->host_name);
    *l = (struct serve_listen){.fd = -1};
}
