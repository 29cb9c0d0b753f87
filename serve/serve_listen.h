/* serve_listen - the socket of the dashboard, and the names by which it is reached. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"

enum { SERVE_LISTEN_PORT = 8642 };

struct serve_listen {
    int fd, port;
    bool loopback;   /* only processes of this machine reach it */
    char **hosts;    /* strv: names that a request may use */
    char *url_host;  /* for the address that is printed */
    char *host_name; /* of this machine */
};

/* Opens the socket. `text`: "ADDR:PORT"; NULL: SERVE_LISTEN_PORT on loopback, or another port if it
 * is in use. `names`: further names, a strv.
 *   -EINVAL  the text is invalid, or the address unknown; others as bind() */
int serve_listen_open(struct serve_listen *out, const char *text, char *const *names,
                      struct err *e);
void serve_listen_close(struct serve_listen *l);
AUTO_DEFINE_STRUCT(serve_listen, struct serve_listen, serve_listen_close)
