#include "common/host_port.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"

enum { PORT_MAX = 65535 };
static const char digits[] = "0123456789";

static int malformed(const char *text, const char *why, struct err *e)
{
    int rc = err_set(e, -EINVAL, "'%s' is not an address: %s", text, why);
    err_hint(e, "HOST:PORT, [IPV6]:PORT, HOST, :PORT or PORT");
    return rc;
}

/* Returns the length of the host with its brackets, or -1. "[]" is not a host. */
static int host_length(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");
    if (!end || (text[0] == '[' && (end == text + 1 || (*++end && *end != ':'))))
        return -1;
    return (int)(end - text);
}

int host_port_parse(struct host_port *out, const char *text, struct err *e)
{
    struct host_port a = {.port = -1};
    a.only_port = *text && !text[strspn(text, digits)];
    int len = a.only_port ? 0 : host_length(text), brackets = text[0] == '[';
    if (!*text || len < 0 || len >= HOST_PORT_NAME_SIZE || text[strcspn(text, "/ \t\r\n")])
        return malformed(
            text, *text ? "a blank, a slash, or one bracket without the other" : "it is empty", e);
    const char *port = a.only_port ? text : text[len] ? text + len + 1 : "";
    if (strchr(port, ':'))
        return malformed(text, "an IPv6 address needs brackets", e);
    if (port[strspn(port, digits)] || (*port && opt_int(&a.port, "", port, 0, PORT_MAX, NULL) < 0))
        return malformed(text, "the port is not a number from 0 to 65535", e);
    memcpy(a.host, text + brackets, (size_t)(len - 2 * brackets));
    *out = a;
    return 0;
}

int host_port_read_range(struct host_port_range *out, const char *text, struct err *e)
{
    struct host_port_range r = {0};
    const char *dash = strchr(text, '-');
    AUTO(free) char *first = xstrndup(text, strcspn(text, "-"));
    if (opt_int(&r.first, "", first, 1, PORT_MAX, NULL) < 0 ||
        opt_int(&r.last, "", dash ? dash + 1 : text, 1, PORT_MAX, NULL) < 0) {
        int rc = err_set(e, -EINVAL, "'%s' is not a range of ports from 1 to 65535", text);
        err_hint(e, "29500-29599");
        return rc;
    }
    if (r.first > r.last)
        return err_set(e, -EINVAL, "%s: minimum exceeds maximum", text);
    *out = r;
    return 0;
}

char *host_port_text(const char *host, int port)
{
    return xasprintf(strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}
