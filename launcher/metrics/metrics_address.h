/* metrics_address - the address of --metrics: PORT, ADDRESS:PORT or :PORT. */
#pragma once

#include "common/err.h"
#include "common/listen.h"
#include "common/strbuf.h"

/* Reads "9400" (loopback), "10.0.0.1:9400", "[::1]:9400", "localhost:9400", or ":9400" (all
 * addresses of this machine). Port 0 stands for a free port. Names of hosts are not resolved.
 *   -EINVAL  malformed */
int metrics_address_parse(struct listen_address *out, const char *text, struct err *e);

/* Appends the URL that a scraper uses: "http://127.0.0.1:9400/metrics". */
void metrics_address_url(struct strbuf *b, const struct listen_address *a);
