/* report_channel - report channel: packets between one rank and the launcher. The rank sends
 * reports, the launcher sends "stop", both as JSON objects.
 *
 * The channel is a SOCK_SEQPACKET pair, so a packet arrives whole or not at all. DROVER_REPORT_FD
 * has the number of the rank's descriptor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { REPORT_CHANNEL_PACKET_MAX = 64 << 10 };

struct report_channel;

struct report_channel_events {
    int rank;
    /* A packet that looks like a JSON object and is not too long. Other packets are dropped, with
     * one warning per channel. The loop calls this. The callback may call
     * report_channel_close(). */
    void (*packet)(void *arg, int rank, const char *json, size_t len);
    void *arg;
};

/* Opens a channel. `*child_fd` is the rank's end; the caller passes it on and closes it. */
int report_channel_open(struct report_channel **out, int *child_fd, uv_loop_t *loop,
                        const struct report_channel_events *events, struct err *e);
/* Closes the channel. Its handle closes in the loop's next iteration. */
void report_channel_close(struct report_channel *c);
AUTO_DEFINE(report_channel, struct report_channel *, report_channel_close)

/* Delivers the packets that have arrived and were not delivered yet. */
void report_channel_drain(struct report_channel *c);
/* Returns true if the rank has ever reported. */
bool report_channel_used(const struct report_channel *c);
/* Sends "stop" to the rank. A rank that does not read its channel does not receive it; that is not
 * an error. */
void report_channel_send_stop(struct report_channel *c);
