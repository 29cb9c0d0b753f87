/* rendezvous_in - the server's state, between the loop (rendezvous.c) and what PMIx's thread calls
 * (rendezvous_module.c). */
#ifndef DROVER_PMIX_SERVER_INTERNAL_H
#define DROVER_PMIX_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "launcher/node/session_dir.h"
#include "launcher/pmi/interpose/pmix_listener.h"
#include "launcher/pmi/interpose/pmix_loader.h"
#include "launcher/pmi/interpose/tcp_quickack.h"
#include "launcher/pmi/pmix_publish.h"
#include "launcher/pmi/pmix_server.h"
#include "launcher/pmi/pmix_wait.h"

/* What a rank has done, on its way from PMIx's thread to the loop. */
struct news {
    struct news *next;
    enum { JOINED, ABORTED, WAITS, SPAWNS } what;
    pmix_proc_t from;
    int code;         /* of ABORTED */
    int64_t until_ms; /* of WAITS, which is for a name */
};

struct rendezvous {
    struct workdir *dir;
    char *host;
    struct lobby lobby;
    bool serves;              /* the server runs */
    pmix_topology_t topology; /* libpmix keeps a pointer to it */
    uv_async_t wake;
    uv_timer_t expiry; /* of who waits for a name */
    struct quickack acks;
    int open_handles;
    struct names *names;  /* PMIx's thread only: what answers ranks may not be called elsewhere */
    pthread_mutex_t lock; /* of `news` and `deaf` */
    struct news *news, **news_end;
    bool deaf;                   /* closed, while libpmix goes on */
    bool doubtful;               /* libpmix may have freed twice, and hang or crash when it ends */
    struct rendezvous_job *jobs; /* the loop's thread only */
    struct requests pending;     /* nobody waits for them before the end */
};

struct rendezvous_job {
    struct rendezvous_job *next;
    struct rendezvous *owner;
    pmix_nspace_t name;
    int ranks;
    char *node, *segments; /* where it runs; where its shared memory is */
    bool told;             /* the server of it */
    atomic_bool met;       /* a rank has come */
    atomic_int inside;     /* ranks that have come and not called PMIx_Finalize */
    char **env;            /* of every rank, but for its number */
    struct requests joining;
    struct rendezvous_events ev;
    void *arg;
};

/* From any thread: the loop is told of it. */
void rendezvous_send(struct rendezvous *r, const struct news *news);

/* What libpmix calls, for this server, on its own thread; libpmix keeps it. There is one server in
 * a process, libpmix's too, and its calls for names bring nothing of ours with them. NULL: it has
 * ended. */
pmix_server_module_t *rendezvous_module(struct rendezvous *r);

#endif
