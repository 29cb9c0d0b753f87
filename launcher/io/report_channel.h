/* channel - the packets between one rank and us: JSON objects, its reports up and "stop" down.
 *
 * A SOCK_SEQPACKET pair: a packet is whole or not there. The rank finds its end in
 * DROVER_REPORT_FD. */
#ifndef DROVER_REPORT_CHANNEL_H
#define DROVER_REPORT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { REPORT_CHANNEL_PACKET_MAX = 64 << 10 };

struct report_channel;

struct report_channel_events {
    int rank;
    /* Gets, from the loop, what looks like an object and is not too long; the rest is dropped with
     * one warning for each channel. It may call report_channel_close(). */
    void (*packet)(void *arg, int rank, const char *json, size_t len);
    void *arg;
};

/* `*child_fd` is the rank's end, which is the caller's to pass on and close. */
int report_channel_open(struct report_channel **out, int *child_fd, uv_loop_t *loop,
                        const struct report_channel_events *reader, struct err *e);
/* Its handle closes on the loop's next turn. */
void report_channel_close(struct report_channel *c);
AUTO_DEFINE(report_channel, struct report_channel *, report_channel_close)

/* Delivers what has come and was not delivered yet. */
void report_channel_drain(struct report_channel *c);
/* Whether the rank has ever reported. */
bool report_channel_used(const struct report_channel *c);
/* Tells the rank to stop. A rank that does not read its channel does not hear it: no error. */
void report_channel_send_stop(struct report_channel *c);

#endif
