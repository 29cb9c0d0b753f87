/* exchange - what the PMIx servers of a job's nodes tell each other, along the tree of agents:
 * fences with and without data, direct modex, published names, groups. Pure.
 *
 * The launcher and each agent have one instance, and a job with one node has only one. An instance
 * combines what its children and its own PMIx server contribute to a fence, and sends one message
 * up; the launcher sends the result down. A request for a rank's data goes to the rank's node and
 * back. Published names are at the launcher.
 *
 * A fence is identified by its participants, in ascending order, its kind, and its name if it has
 * one. A node may come to the next fence of the same participants before another node was told of
 * the end of the last: messages of one child about the same fence count in order. Fences of other
 * participants, of another kind or name may be open at the same time, in any order.
 *
 * A fence ends at the lowest instance that all its participants are below: one within a node stays
 * there.
 *
 * If a node is lost, all instances learn it. Open fences with participants on lost nodes end with
 * EXCHANGE_FAILED, and so do later ones, as soon as a participant comes to them. Requests to ranks
 * of lost nodes get the answer EXCHANGE_FAILED, too.
 *
 * Cost of a fence with data: each node gets the data of all, so n nodes receive n² contributions in
 * total, with every radix. A tree only spreads the sending. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/tree/tree.h"

/* ---- messages ------------------------------------------------------------------------------- */

enum exchange_type {
    EXCHANGE_FENCE,      /* kind, ranks, keys[0] (the fence's name, if it has one), status, data: a
                            contribution (up) */
    EXCHANGE_FENCE_DONE, /* kind, ranks, keys[0], status, id, data: the result (down). The data are
                            those of all contributions, one after the other in any order */
    EXCHANGE_GET,        /* rank, node, id: node asks for the data of `rank` */
    EXCHANGE_GOT,        /* node, id, status, data: the answer to `node` */
    EXCHANGE_PUBLISH,    /* kind, rank, node, id, keys[0], once, data */
    EXCHANGE_UNPUBLISH,  /* kind, rank, node, id, keys (none: all names of the rank) */
    EXCHANGE_LOOKUP,     /* kind, rank, node, id, wait_ms, keys */
    EXCHANGE_FOUND,      /* kind, node, id, status, data: the answer to a publish, an unpublish or a
                            lookup. The data of a lookup are those of the names, one after the other */
    EXCHANGE_LOST, /* node: it and all nodes below it are lost. Up and down, to all instances */
    EXCHANGE_TYPES
};

/* What a fence or a name is for. Fences of different kinds never meet, nor do names. */
enum exchange_kind {
    EXCHANGE_MODEX,
    EXCHANGE_CONNECT,
    EXCHANGE_DISCONNECT,
    EXCHANGE_GROUP,
    EXCHANGE_UNGROUP,
    EXCHANGE_PMI1,
    EXCHANGE_KINDS
};

enum { EXCHANGE_RANKS_MAX = 1 << 22 }; /* participants that a message lists */

enum {
    EXCHANGE_OK = 0,
    EXCHANGE_NOT_FOUND = 1,
    EXCHANGE_DUPLICATE = 2,
    EXCHANGE_TIMEOUT = 3,
    EXCHANGE_FAILED = 4 /* a participant's node is lost, or its server answers with an error */
};

struct exchange_message {
    enum exchange_type type;
    enum exchange_kind kind;
    int node;        /* that asks; its instance sets it */
    int rank;        /* the rank that asks or is asked for, in the whole job */
    uint64_t id;     /* of the request, chosen by the node that asks. FENCE_DONE: a number that no
                        other fence of the job has, > 0 (the context id of a group) */
    int status;      /* EXCHANGE_OK, … */
    bool once;       /* the name disappears when it was read */
    int64_t wait_ms; /* LOOKUP: how long to wait for all keys; 0: not; < 0: without limit */
    const int32_t *ranks; /* participants, ascending; rank_count 0: all ranks of the job. A list of
                             all is the same fence, and its result has rank_count 0 */
    size_t rank_count;
    const char *const *keys;
    size_t key_count;
    const char *data; /* opaque */
    size_t len;
};

/* Appends the message as bytes. */
void exchange_message_encode(struct strbuf *to, const struct exchange_message *m);
/* Returns true if two messages are about fences of the same kind, participants and name, which
 * count in order. */
bool exchange_message_same_fence(const struct exchange_message *a,
                                 const struct exchange_message *b);
/* A decoded message: `m` points into `storage` and into the decoded bytes. */
struct exchange_decoded {
    struct exchange_message m;
    void *storage; /* free() */
};
/*   -EBADMSG  not a whole message */
int exchange_message_decode(struct exchange_decoded *out, const char *bytes, size_t len,
                            struct err *e);

/* ---- an instance ---------------------------------------------------------------------------- */

struct exchange;

/* Every function of an instance but exchange_new() and exchange_free() may call these. Bytes are
 * borrowed during the call. `deliver` may call exchange_submit(); nothing else may be called. */
struct exchange_events {
    /* An encoded message for a neighbour in the tree: a child, or the parent (`to` is tree_parent()
     * of this node). */
    void (*send)(void *arg, int to, const char *bytes, size_t len);
    /* A message for this node's PMIx server: FENCE_DONE, GET, GOT, FOUND. Never at the launcher.
     * Each contribution gets one FENCE_DONE, each GET one GOT, each PUBLISH, UNPUBLISH and LOOKUP
     * one FOUND. */
    void (*deliver)(void *arg, const struct exchange_message *m);
};

/* Creates the instance of a node, or of the launcher (TREE_LAUNCHER). `rank_nodes` has the node of
 * each of the `ranks` ranks; it must outlive the instance. Without a tree (NULL), the job has only
 * the node 0: its instance keeps the published names and sends nothing, and `deliver` must not call
 * exchange_submit(). */
struct exchange *exchange_new(const struct tree *t, int at, const int *rank_nodes, int ranks,
                              const struct exchange_events *ev, void *arg);
void exchange_free(struct exchange *x);
AUTO_DEFINE(exchange, struct exchange *, exchange_free)

/* A message of this node's own PMIx server: FENCE (of its local participants, once they have all
 * arrived), GET, GOT (the answer to a GET that was delivered), PUBLISH, UNPUBLISH, LOOKUP. `node`
 * is set here, except for GOT. A fence without a participant here, or with a rank that the job does
 * not have, fails at once. In a job with one node, a lookup may wait until exchange_expire().
 *   -EBADMSG  in a job with one node: a request about a name is refused, and nothing follows */
int exchange_submit(struct exchange *x, const struct exchange_message *m, int64_t now_ms,
                    struct err *e);
/* Bytes from a neighbour: a child, or the parent. Bytes from a lost child are ignored.
 *   -EBADMSG  malformed, or not allowed from there. Nothing has changed
 *   -ENOMEM   a list of ranks needs too much memory */
int exchange_receive(struct exchange *x, int from, const char *bytes, size_t len, int64_t now_ms,
                     struct err *e);
/* A child is lost, with everything below it. All instances are told. */
void exchange_lose(struct exchange *x, int child);
/* Answers lookups whose wait has ended. Returns when the next one ends, or INT64_MAX. */
int64_t exchange_expire(struct exchange *x, int64_t now_ms);
