/* ring_probe - what a TCP connection from one rank to another is worth: whether it can be made,
 * whether full packets arrive, and how fast they are.
 *
 * A server thread of each rank reads and counts what its neighbours send, and answers each message
 * with one byte. It accepts only peers that know the job's token. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum { RING_PROBE_ADDRESSES = 6, RING_PROBE_ADDRESS_BYTES = 64, RING_PROBE_TOKEN_BYTES = 16 };

/* Where a rank listens. A plain value that ranks send to each other. */
struct ring_probe_place {
    char addresses[RING_PROBE_ADDRESSES][RING_PROBE_ADDRESS_BYTES]; /* "": none */
    uint16_t port;
    char token[RING_PROBE_TOKEN_BYTES];
};

struct ring_probe;

/* Listens on a free port, and fills `place`. -errno */
int ring_probe_open(struct ring_probe **out, struct ring_probe_place *place, struct err *e);
/* Stops the thread. `p` may be NULL. */
void ring_probe_close(struct ring_probe *p);
AUTO_DEFINE(ring_probe, struct ring_probe *, ring_probe_close)

/* The result of one direction. A plain value. */
struct ring_probe_result {
    char address[RING_PROBE_ADDRESS_BYTES]; /* the address that was used */
    char error[160];                        /* why it does not work; "": it does */
    double latency_us;                      /* half a round trip of one byte */
    double gbps;                            /* GB/s of a large message; 0: unknown */
};

/* Tries the addresses of a place in their order. It connects within 300 ms and sends three
 * messages: one byte, 64 KiB within a second (whole packets), and 4 MiB within 5 s. */
void ring_probe_try(struct ring_probe_result *out, const struct ring_probe_place *to);
