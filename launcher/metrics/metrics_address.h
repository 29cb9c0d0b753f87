/* metrics_address - the address of --metrics: PORT, ADDRESS:PORT or :PORT. */
#ifndef DROVER_METRICS_ADDRESS_H
#define DROVER_METRICS_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/strbuf.h"

struct metrics_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t size;
};

/* Reads "9400" (loopback), "10.0.0.1:9400", "[::1]:9400", "localhost:9400", or ":9400" (all
 * addresses of this machine). Port 0 stands for a free port. Names of hosts are not resolved.
 *   -EINVAL  malformed */
int metrics_address_parse(struct metrics_address *out, const char *text, struct err *e);

/* Appends the URL that a scraper uses: "http://127.0.0.1:9400/metrics". */
void metrics_address_url(struct strbuf *b, const struct metrics_address *a);

#endif
