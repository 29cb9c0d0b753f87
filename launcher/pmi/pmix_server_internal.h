/* rendezvous_in - the server's state, between the loop (rendezvous.c) and what PMIx's thread calls
 * (pmix_callbacks.c). */
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
struct pmix_event {
    struct pmix_event *next;
    enum { JOINED, ABORTED, WAITS, SPAWNS } what;
    pmix_proc_t from;
    int code;         /* of ABORTED */
    int64_t until_ms; /* of WAITS, which is for a name */
};

struct pmix_server {
    struct session_dir *dir;
    char *host;
    struct pmix_listener lobby;
    bool serves;              /* the server runs */
    pmix_topology_t topology; /* libpmix keeps a pointer to it */
    uv_async_t wake;
    uv_timer_t expiry; /* of who waits for a name */
    struct tcp_quickack acks;
    int open_handles;
    struct pmix_publish
        *names;           /* PMIx's thread only: what answers ranks may not be called elsewhere */
    pthread_mutex_t lock; /* of `news` and `deaf` */
    struct pmix_event *news, **news_end;
    bool deaf;                    /* closed, while libpmix goes on */
    bool doubtful;                /* libpmix may have freed twice, and hang or crash when it ends */
    struct pmix_server_job *jobs; /* the loop's thread only */
    struct pmix_wait pending;     /* nobody waits for them before the end */
};

struct pmix_server_job {
    struct pmix_server_job *next;
    struct pmix_server *owner;
    pmix_nspace_t name;
    int ranks;
    char *node, *segments; /* where it runs; where its shared memory is */
    bool told;             /* the server of it */
    atomic_bool met;       /* a rank has come */
    atomic_int inside;     /* ranks that have come and not called PMIx_Finalize */
    char **env;            /* of every rank, but for its number */
    struct pmix_wait joining;
    struct pmix_server_events ev;
    void *arg;
};

/* From any thread: the loop is told of it. */
void pmix_server_send(struct pmix_server *r, const struct pmix_event *news);

/* What libpmix calls, for this server, on its own thread; libpmix keeps it. There is one server in
 * a process, libpmix's too, and its calls for names bring nothing of ours with them. NULL: it has
 * ended. */
pmix_server_module_t *pmix_callbacks(struct pmix_server *r);

#endif
