/* metrics_request - a request to the server of --metrics, which any stranger may send.
 *
 * Pure. Only the first line is read. Of the other header lines only the end is found, since each
 * request gets the same page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { METRICS_REQUEST_BYTES_MAX = 8 << 10 /* of the first line and the header lines */ };

struct metrics_request {
    int status;                /* of HTTP: 200, 400, 404, 405 or 431; 0: more bytes are needed */
    const char *reason, *text; /* of the status: for HTTP, and for a person (NULL: 200) */
    bool head;                 /* the answer has no body */
};

/* Reads the first `len` bytes of a connection. With METRICS_REQUEST_BYTES_MAX bytes the status is
 * never 0. */
struct metrics_request metrics_request_read(const char *bytes, size_t len);
