/* exchange_internal - the state of an instance of exchange, and what its files share: exchange.c
 * receives and routes, exchange_fence.c has the fences, exchange_names.c the published names. */
#pragma once

#include "launcher/tree/exchange.h"

/* Where the participants of a fence are, as one instance sees it. */
struct exchange_parts {
    unsigned char *child; /* per child: not 0 if participants are at it or below it */
    int children;         /* that have participants */
    bool own;             /* this node has participants */
    bool elsewhere;       /* there are participants that are neither here nor below */
    bool lost;            /* a participant's node is lost */
};

struct exchange_fence;
struct exchange_name;
struct exchange_lookup;

/* A request of this node for the data of a rank. */
struct exchange_get {
    uint64_t id;
    int rank;
};

struct exchange {
    struct tree tree;
    int at;
    bool alone; /* the job has one node, which is also the launcher */
    const int *rank_nodes;
    int ranks;
    struct exchange_events ev;
    void *arg;
    int first_child, children;
    struct exchange_parts all;     /* of a fence of all ranks */
    struct exchange_fence *fences; /* the oldest first */
    uint64_t fences_ended;         /* here */
    int *lost;                     /* nodes; what is below them is lost, too */
    size_t lost_count;
    struct exchange_get *gets; /* that have no answer yet */
    size_t get_count;
    struct exchange_name *names;     /* at the launcher, or if `alone` */
    struct exchange_lookup *lookups; /* that wait, the oldest first */
};

/* Returns true if the node is lost. */
bool exchange_is_lost(const struct exchange *x, int node);
/* Returns true if `to` is a child that is not lost. */
bool exchange_is_live_child(const struct exchange *x, int to);
/* Sends the message towards a node, or delivers it if this is the node. A message to a lost node
 * below this one is dropped. */
void exchange_route(struct exchange *x, int node, const struct exchange_message *m);

/* ---- exchange_fence.c */
/* Finds out where the ranks are; all of the job if `count` is 0. The caller frees parts->child.
 *   -EBADMSG  a rank that the job does not have, or not in ascending order */
int exchange_parts_find(struct exchange_parts *parts, const struct exchange *x,
                        const int32_t *ranks, size_t count);
/* A contribution of a child, or of this node's server if `from` is this node.
 *   -EBADMSG  malformed, or not allowed from there */
int exchange_fence_contribute(struct exchange *x, int from, const struct exchange_message *m,
                              struct err *e);
/* The result, from the parent. `bytes` is the encoded message. Errors as above. */
int exchange_fence_end(struct exchange *x, const struct exchange_message *m, const char *bytes,
                       size_t len, struct err *e);
/* x->lost has a new entry, which is `node`. */
void exchange_fence_lose(struct exchange *x, int node);
void exchange_fence_free_all(struct exchange *x);

/* ---- exchange_names.c, at the launcher */
void exchange_names_publish(struct exchange *x, const struct exchange_message *m);
/* Only the rank that has published a name may remove it. EXCHANGE_NOT_FOUND if there is no such
 * name. */
void exchange_names_unpublish(struct exchange *x, const struct exchange_message *m);
void exchange_names_lookup(struct exchange *x, const struct exchange_message *m, int64_t now_ms);
/* Drops the lookups of lost nodes. */
void exchange_names_lose(struct exchange *x);
void exchange_names_free_all(struct exchange *x);
