/* wire - what coordinator and workers say to each other: one JSON object a message.
 *
 *     {"v":6,"kind":"report","conn":3,"lease":12,"seq":4,"data":{"step":3,"loss":0.41}}
 *
 * A worker counts its connections. Its hello opens connection `conn`; all that either side says
 * carries that number, and what carries another one is of a connection that broke: it is dropped.
 * So nothing that waited in a queue meanwhile comes out of order: after a hello the worker says
 * again all that was not acknowledged, in order. Reports and the end of a lease are numbered
 * (`seq`, from 1); an ack says that all up to `seq` are in the store. */
#ifndef DROVER_WIRE_H
#define DROVER_WIRE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"

enum {
    WIRE_VERSION = 6,
    WIRE_MAX_BYTES = 1 << 20, /* of a message */
    WIRE_SLOTS_MAX = 65536,   /* of a worker; so many leases it may hold */
    WIRE_PING_MAX_MS = 5000,  /* the longest that a worker says nothing */
    WIRE_WORKER_MAX = 64      /* bytes of a worker's id, which is its socket's routing id */
};

enum wire_kind {
    /* worker: */
    WIRE_HELLO,    /* data {"node","slots","cpus","gpus","ping_ms","running":[lease,…]}: how many
                      trials it runs at once (0 where it has not heard what they need), the node's
                      CPUs and GPUs, how often it pings; leases whose end was not acknowledged count
                      as running */
    WIRE_SLOTS,    /* data {"slots","why"?}: how many trials it runs at once from now on, and for
                       people what the number comes from */
    WIRE_REPORT,   /* lease, seq, data {"step"?,name:value,…} */
    WIRE_DONE,     /* lease, seq, data {"status","signal","oom","seconds","error"?,"preempted"?,
                      "stopped"?,"not_started"?} */
    WIRE_RESERVED, /* lease, data {"cpus"?,"gpus"?}: the place that is reserved for it, its part of
                  the node; again after each hello until the trial's launcher has invited it */
    WIRE_REVOKE,   /* lease: it needs the place back, so the trial has to end */
    WIRE_JOIN_TICKET, /* lease, data {"address","token"}: the trial's launcher listens there
                    (starter.h). The coordinator hands it on to those that hold places, with "rank"
                  */
    WIRE_PING,
    WIRE_LEAVING, /* no more trials, please: this worker is about to end */
    WIRE_BYE,     /* it holds no lease any more and ends now */
    /* coordinator: */
    WIRE_REQUIREMENTS, /* data: what each trial needs, as resources_json() has it; after each hello
                        */
    WIRE_RUN,          /* lease, data: see wire.c's table */
    WIRE_RESERVE,      /* lease: a place is to be reserved for a trial that another worker runs */
    WIRE_STOP,         /* lease; of a place that is held: it is free */
    WIRE_KILL,         /* lease: the same, without grace */
    WIRE_DRAIN,        /* stop what runs, say how it ended, then go */
    WIRE_PONG,
    WIRE_ACK,       /* lease, seq */
    WIRE_RECONNECT, /* the worker was taken for lost, or never said hello: it opens a new connection
                     */
    WIRE_KINDS
};

struct wire_msg {
    enum wire_kind kind;
    int64_t conn;  /* >= 1 */
    int64_t lease; /* >= 1 where the kind has one, else 0 */
    int64_t seq;   /* likewise */
    json_t *data;  /* owned; NULL where the kind has none */
};

/* Gives up the data. */
void wire_msg_clear(struct wire_msg *m);
static inline void auto_wire_msg(struct wire_msg *m)
{
    wire_msg_clear(m);
}

const char *wire_kind_name(enum wire_kind kind);

/* Appends the message to `out`.
 *   -EMSGSIZE  it is longer than WIRE_MAX_BYTES
 *   -EPROTO    it is not what wire_decode() would take
 *   -EINVAL    a string in it is no UTF-8 */
int wire_encode(struct strbuf *out, const struct wire_msg *m, struct err *e);

/* Reads one message; strict: an unknown key, a missing one, a wrong type or range is an error.
 *   -EMSGSIZE  longer than WIRE_MAX_BYTES
 *   -EPROTONOSUPPORT  a message of another version of the protocol
 *   -EPROTO    not a message of this protocol */
int wire_decode(struct wire_msg *out, const void *bytes, size_t len, struct err *e);

#endif
