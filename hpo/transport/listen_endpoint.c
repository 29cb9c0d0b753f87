#include "hpo/transport/listen_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/opt.h"
#include "hpo/transport/curve_keys.h"

static const char everywhere[] = "0.0.0.0";

struct place {
    char host[128];
    int port; /* 0: a free one; -1: not said */
    bool plain;
};

/* "[ADDRESS][:PORT]"; an IPv6 address stands in brackets. */
static int parse(struct place *out, const char *text, struct err *e)
{
    struct place p = {.port = -1};
    const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = strchr(bracket ? bracket : text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    if (len >= sizeof p.host || strpbrk(text, "/ "))
        return err_set(e, -EINVAL, "--listen '%s': no address", text);
    snprintf(p.host, sizeof p.host, "%.*s", (int)len, text);
    if (len == 0 || strcmp(p.host, "*") == 0)
        snprintf(p.host, sizeof p.host, "%s", everywhere);
    if (colon && colon[1]) {
        int rc = opt_int(&p.port, "--listen: the port", colon + 1, 0, 65535, e);
        if (rc < 0)
            return rc;
    }
    *out = p;
    return 0;
}

static char *address_of(const struct place *p)
{
    return xasprintf("tcp://%s:%d", p->host, p->port);
}

int listen_endpoint_check(const struct listen_endpoint_opts *ask, struct err *e)
{
    struct place p;
    if (!ask->address)
        return ask->plain ? err_set(e, -EINVAL, "--plain says how to --listen, which is missing")
                          : 0;
    int rc = parse(&p, ask->address, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *address = address_of(&p);
    if (ask->plain && !curve_keys_here(address)) {
        err_set(e, -EINVAL, "--plain: '%s' is not on loopback, and without keys anybody may join",
                ask->address);
        return err_hint(e,
                        "leave --plain out, and give workers the sweep's worker.key; or --listen "
                        "127.0.0.1 --plain");
    }
    return 0;
}

/* Whether the coordinator before this one listened, and where. */
static bool last_time(struct place *out, const char *path)
{
    char word[160], plain[8] = "";
    AUTO(file) FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "tcp://%159s %7s", word, plain) < 1 || parse(out, word, NULL) < 0)
        return false;
    out->plain = strcmp(plain, "plain") == 0;
    return true;
}

static int remember(const struct place *p, const char *path, struct err *e)
{
    AUTO(free) char *beside = xasprintf("%s.tmp", path);
    AUTO(free) char *address = address_of(p);
    AUTO(file) FILE *f = fopen(beside, "we");
    if (!f || fprintf(f, "%s%s\n", address, p->plain ? " plain" : "") < 0 || fflush(f) != 0 ||
        rename(beside, path) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* What workers connect to: where it was bound, or this host's name where that is everywhere. */
static char *reached_at(const struct place *p, const char *bound)
{
    struct utsname u;
    bool any = strcmp(p->host, everywhere) == 0 || strcmp(p->host, "[::]") == 0;
    return any && uname(&u) == 0 ? xasprintf("tcp://%s:%d", u.nodename, p->port) : xstrdup(bound);
}

/* `last`: where it was the last time; NULL: nowhere. */
static int bind_it(char **bound, struct transport_server *h, struct place *p,
                   const struct place *last, const struct curve_keys *keys, struct err *e)
{
    bool kept = p->port < 0 && last && strcmp(p->host, last->host) == 0;
    if (p->port < 0)
        p->port = kept ? last->port : 0;
    AUTO(free) char *address = address_of(p);
    int rc = transport_server_listen(h, address, keys, bound, e);
    if (rc == -EADDRINUSE && kept)
        err_hint(e, "workers look for the coordinator there; --listen %s:0 takes another port",
                 p->host);
    else if (rc == -ENODEV || rc == -EINVAL || rc == -EADDRNOTAVAIL)
        err_hint(e, "an address or an interface of this machine, as in --listen 10.0.0.5:0");
    const char *port = rc < 0 ? NULL : strrchr(*bound, ':');
    if (port)
        p->port = atoi(port + 1);
    return rc;
}

int listen_endpoint_open(struct transport_server *h, const char *dir,
                         const struct listen_endpoint_opts *ask, char **endpoint, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/listen", dir), *bound = NULL;
    struct place last, p;
    bool again = last_time(&last, path);
    if (!ask->address && !again)
        return 0;
    if (!ask->address)
        p = last;
    else if (parse(&p, ask->address, e) < 0)
        return -EINVAL;
    p.plain = ask->address ? ask->plain : last.plain;
    if (!ask->address)
        p.port = -1; /* the last one, and said so where it is taken */
    struct curve_keys server, worker;
    int rc = p.plain ? 0 : curve_keys_of_sweep(&server, &worker, dir, e);
    if (rc == 0)
        rc = bind_it(&bound, h, &p, again ? &last : NULL, p.plain ? NULL : &server, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *reached = reached_at(&p, bound);
    rc = remember(&p, path, e);
    if (rc == 0 && !p.plain)
        rc = curve_keys_give(&worker, dir, reached, e);
    if (rc < 0)
        return rc;
    *endpoint = TAKE(reached);
    return 0;
}
