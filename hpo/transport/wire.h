/* wire - the messages between a coordinator and its workers: one JSON object per message.
 *
 *     {"v":8,"kind":"report","conn":3,"instance":71,"lease":12,"seq":4,"data":{"loss":0.41}}
 *
 * A worker counts its connections. Its hello opens connection number `conn`, and all messages of
 * both ends have this number. A message with another number belongs to an earlier connection and is
 * dropped. After a hello, the worker resends all messages that are not acknowledged, in order. So
 * messages that waited in the queue of an earlier connection cannot arrive out of order. Reports
 * and the end of a lease are numbered (`seq`, from 1). An ack confirms that all messages of the
 * lease up to `seq` are in the store.
 *
 * Each sweep has a random number, its instance (sweep_dir.h). Numbers of leases begin anew with
 * each sweep, so a message about one says of which instance it is. A worker tells in its hello
 * which instance it has served. To one of another instance the coordinator answers WIRE_FOREIGN. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"

enum {
    WIRE_VERSION = 8,
    WIRE_MAX_BYTES = 1 << 20, /* limit on the length of a message */
    WIRE_SLOTS_MAX = 65536,   /* limit on a worker's slots and on its leases */
    WIRE_PING_MAX_MS = 5000,  /* limit on the interval between two pings of a worker */
    WIRE_WORKER_MAX = 64 /* limit on the bytes of a worker's id, which is its socket's routing id */
};

enum wire_kind {
    /* From a worker: */

    /* data {"node","slots","cpus","gpus","ping_ms","running":[lease,…]}: the node's name, the
     * number of trials that the worker can run at the same time (0: it does not know the
     * requirements yet), the node's CPUs and GPUs, the worker's ping interval, and its leases,
     * including those whose end is not acknowledged. */
    WIRE_HELLO,
    /* data {"slots","why"?}: the new number of trials that the worker can run at the same time,
     * and the reason as a text for users. */
    WIRE_SLOTS,
    /* lease, seq, data {"step"?,name:value,…} */
    WIRE_REPORT,
    /* lease, seq, data {"status","signal","oom","seconds","error"?,"preempted"?,"stopped"?,
     * "not_started"?,"node_fault"?}: "node_fault" is the node that could not run the trial: 0 is
     * the worker's, 1 … those of "peers". */
    WIRE_DONE,
    /* lease, data {"cpus"?,"gpus"?}: the slice of the node that is reserved for the lease. Resent
     * after each hello until the worker has received a join ticket. */
    WIRE_RESERVED,
    /* lease: the worker needs the reserved slot back, so the trial must end. */
    WIRE_REVOKE,
    /* lease, data {"address","token"}: the address at which the trial's launcher listens
     * (remote_launcher.h), and its token. The coordinator adds "node", the number of the
     * worker's node in the job, and forwards the ticket to the workers with reservations. */
    WIRE_JOIN_TICKET,
    /* data {"why"?}: the result of a self-test, and why it failed. */
    WIRE_TESTED,
    WIRE_PING,
    /* The worker will end soon, and accepts no more leases. */
    WIRE_LEAVING,
    /* The worker has no leases and ends now. */
    WIRE_BYE,

    /* From the coordinator: */

    /* instance, data as resources_json(): the requirements of each trial; and "sweep", its name.
     * Sent after each hello. */
    WIRE_REQUIREMENTS,
    /* lease, data (run_fields in wire.c): run a trial. */
    WIRE_RUN,
    /* lease: reserve a slot for a trial that another worker runs. */
    WIRE_RESERVE,
    /* lease: end the trial run, with a grace period; or end the reservation. */
    WIRE_STOP,
    /* lease: the same without a grace period. */
    WIRE_KILL,
    /* Run a self-test: WIRE_TESTED follows. */
    WIRE_TEST,
    /* End all leases, report the results, then end the worker. */
    WIRE_DRAIN,
    WIRE_PONG,
    /* lease, seq */
    WIRE_ACK,
    /* The worker counts as lost, or its hello was not received: it must open a new connection. */
    WIRE_RECONNECT,
    /* The worker has served another sweep: it drops its leases and what it could not deliver. */
    WIRE_FOREIGN,
    WIRE_KINDS
};

struct wire_msg {
    enum wire_kind kind;
    int64_t conn;     /* >= 1 */
    int64_t instance; /* >= 1 if the kind has one; in a hello 0: the worker has served none */
    int64_t lease;    /* >= 1 if the kind has a lease, else 0 */
    int64_t seq;      /* >= 1 if the kind has a number, else 0 */
    json_t *data;     /* owned; NULL if the kind has no data */
};

/* Releases the message's data. */
void wire_msg_clear(struct wire_msg *m);
static inline void auto_wire_msg(struct wire_msg *m)
{
    wire_msg_clear(m);
}

const char *wire_kind_name(enum wire_kind kind);

/* Appends the message to `out`.
 *   -EMSGSIZE  longer than WIRE_MAX_BYTES
 *   -EPROTO    wire_decode() would reject it
 *   -EINVAL    a string in it is not valid UTF-8 */
int wire_encode(struct strbuf *out, const struct wire_msg *m, struct err *e);

/* Decodes one message; the caller clears `out` with wire_msg_clear(). An unknown key, a missing key
 * and a value of a wrong type or range are errors.
 *   -EMSGSIZE  longer than WIRE_MAX_BYTES
 *   -EPROTONOSUPPORT  a message of another version of the protocol
 *   -EPROTO    not a message of this protocol */
int wire_decode(struct wire_msg *out, const void *bytes, size_t len, struct err *e);
