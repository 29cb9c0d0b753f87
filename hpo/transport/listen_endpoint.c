#include "hpo/transport/listen_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/file.h"
#include "common/host_port.h"
#include "hpo/transport/curve_keys.h"

static const char any_address[] = "0.0.0.0";

struct listen_address {
    char host[HOST_PORT_NAME_SIZE]; /* without brackets */
    int port;                       /* 0: any free port; -1: not given */
    bool plain;
};

static int parse(struct listen_address *out, const char *text, struct err *e)
{
    struct host_port a;
    if (host_port_parse(&a, text, e) < 0)
        return err_wrap(e, "--listen");
    const char *host = !*a.host || strcmp(a.host, "*") == 0 ? any_address : a.host;
    *out = (struct listen_address){.port = a.port};
    snprintf(out->host, sizeof out->host, "%s", host);
    return 0;
}

static char *address_of(const struct listen_address *p)
{
    AUTO(free) char *text = host_port_text(p->host, p->port);
    return xasprintf("tcp://%s", text);
}

int listen_endpoint_check(const struct listen_endpoint_opts *opts, struct err *e)
{
    struct listen_address p = {0};
    if (!opts->address)
        return opts->plain ? err_set(e, -EINVAL, "--plain has no effect without --listen") : 0;
    int rc = parse(&p, opts->address, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *address = address_of(&p);
    if (opts->plain && !curve_keys_here(address)) {
        err_set(e, -EINVAL, "--plain: '%s' is not on loopback: every peer could join",
                opts->address);
        return err_hint(e, "omit --plain and copy the sweep's worker.key to the workers, or use "
                           "--listen 127.0.0.1 --plain");
    }
    return 0;
}

/* Reads the address at which the last coordinator listened. Returns false if it did not listen. */
static bool read_last(struct listen_address *out, const char *path)
{
    char word[160], plain[8] = "";
    if (file_scan(path, "tcp://%159s %7s", word, plain) < 1 || parse(out, word, NULL) < 0)
        return false;
    out->plain = strcmp(plain, "plain") == 0;
    return true;
}

static int write_last(const struct listen_address *p, const char *path, struct err *e)
{
    AUTO(free) char *address = address_of(p);
    AUTO(free) char *line = xasprintf("%s%s\n", address, p->plain ? " plain" : "");
    int rc = file_replace(path, line, strlen(line), 0600);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

/* Returns the endpoint that workers connect to: the bound address or, if the socket is bound to all
 * addresses, this node's name and the port. The caller frees it. */
static char *worker_endpoint(const struct listen_address *p, const char *bound)
{
    struct utsname u;
    bool any = strcmp(p->host, any_address) == 0 || strcmp(p->host, "::") == 0;
    return any && uname(&u) == 0 ? xasprintf("tcp://%s:%d", u.nodename, p->port) : xstrdup(bound);
}

/* Binds the server to the address `p`, and sets p->port to the port. `last` is the address of the
 * last coordinator; NULL: it did not listen. */
static int bind_address(char **bound, struct transport_server *s, struct listen_address *p,
                        const struct listen_address *last, const struct curve_keys *keys,
                        struct err *e)
{
    bool kept = p->port < 0 && last && strcmp(p->host, last->host) == 0;
    if (p->port < 0)
        p->port = kept ? last->port : 0;
    AUTO(free) char *address = address_of(p);
    int rc = transport_server_listen(s, address, keys, bound, e);
    AUTO(free) char *other = host_port_text(p->host, 0);
    if (rc == -EADDRINUSE && kept)
        err_hint(e, "workers expect the coordinator there; --listen %s uses another port", other);
    else if (rc == -ENODEV || rc == -EINVAL || rc == -EADDRNOTAVAIL)
        err_hint(e, "give an address or an interface of this machine, as in --listen 10.0.0.5:0");
    const char *port = rc < 0 ? NULL : strrchr(*bound, ':');
    if (port)
        p->port = atoi(port + 1);
    return rc;
}

int listen_endpoint_open(struct transport_server *s, const char *dir,
                         const struct listen_endpoint_opts *opts, char **endpoint, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/listen", dir), *bound = NULL;
    struct listen_address last = {0}, p = {0};
    bool has_last = read_last(&last, path);
    if (!opts->address && !has_last)
        return 0;
    if (!opts->address)
        p = last;
    else if (parse(&p, opts->address, e) < 0)
        return -EINVAL;
    p.plain = opts->address ? opts->plain : last.plain;
    if (!opts->address)
        p.port = -1; /* bind_address() uses the last port, and fails with a hint if it is in use */
    struct curve_keys server, worker;
    int rc = p.plain ? 0 : curve_keys_of_sweep(&server, &worker, dir, e);
    if (rc == 0)
        rc = bind_address(&bound, s, &p, has_last ? &last : NULL, p.plain ? NULL : &server, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *connect_to = worker_endpoint(&p, bound);
    rc = write_last(&p, path, e);
    if (rc == 0 && !p.plain)
        rc = curve_keys_give(&worker, dir, connect_to, e);
    if (rc < 0)
        return rc;
    *endpoint = TAKE(connect_to);
    return 0;
}
