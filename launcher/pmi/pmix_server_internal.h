/* pmix_server - the state of the PMIx server, shared by the loop's side (pmix_server.c) and the
 * functions that libpmix calls on its own thread (pmix_callbacks.c). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "launcher/node/session_dir.h"
#include "launcher/pmi/pmix_listener.h"
#include "launcher/pmi/pmix_loader.h"
#include "launcher/pmi/pmix_request.h"
#include "launcher/pmi/pmix_server.h"
#include "launcher/pmi/pmix_wait.h"
#include "launcher/pmi/tcp_quickack.h"

/* What libpmix's thread passes to the loop: an event of a rank, or a message for the exchange. */
struct pmix_event {
    struct pmix_event *next;
    pmix_proc_t from;
    enum rank_event type;
    int code;                     /* of RANK_ABORTED */
    struct pmix_request *request; /* the message, owned; NULL: an event */
};

enum pmix_server_phase {
    PMIX_SERVER_NEW, /* libpmix does not run yet */
    PMIX_SERVER_RUNS,
    PMIX_SERVER_TAINTED,  /* runs; to finalize it might hang or crash */
    PMIX_SERVER_ABANDONED /* the owner has closed it; libpmix runs until this process ends */
};

enum pmix_job_phase {
    PMIX_JOB_NEW,
    PMIX_JOB_REGISTERED, /* with libpmix's server */
    PMIX_JOB_LEAVING     /* no event follows */
};

struct pmix_server {
    bool group_asked; /* a rank has asked for one since the last warning; libpmix's thread */
    struct session_dir *dir;
    char *host;
    struct pmix_listener listener; /* its port is 0 if interposition is disabled */
    struct pmix_accept *accept;    /* NULL: interposition is disabled */
    enum pmix_server_phase phase;  /* the loop changes it, with `lock` */
    pmix_topology_t topology;      /* libpmix keeps a pointer to it */
    uv_async_t wake;
    uv_timer_t expiry; /* until the next lookup's wait ends */
    struct tcp_quickack quickack;
    int open_handles;
    pthread_mutex_t lock; /* protects `events` and `phase` */
    struct pmix_event *events, **events_end;
    struct pmix_server_job *jobs; /* used only on the loop's thread */
    struct pmix_wait pending;     /* requests that are awaited only at the end */
};

struct pmix_server_job {
    struct pmix_server_job *next;
    struct pmix_server *owner;
    pmix_nspace_t name;
    struct job_map *map;
    struct exchange *exchange;     /* of a job with one node, else NULL */
    struct pmix_request *requests; /* that have no answer yet, the oldest first */
    struct pmix_request *early;    /* for data of ranks, from before the job was registered */
    uint64_t last_id;              /* of a request */
    char *shm_dir;                 /* directory in which its ranks keep their shared memory */
    enum pmix_job_phase phase;
    atomic_bool any_connected; /* some rank has ever connected */
    int connected;             /* ranks that have connected and not called PMIx_Finalize */
    char **env;                /* variables of every rank, without PMIX_RANK */
    struct pmix_wait registering;
    struct rank_events ev;
    void *arg;
};

/* Passes a copy of the event to the loop, and its request. Any thread may call this. */
void pmix_server_send(struct pmix_server *r, const struct pmix_event *event);

/* ---- pmix_server_exchange.c, on the loop */
/* Sends a rank's request to the exchange, or answers it. Takes the request. */
void pmix_server_submit(struct pmix_server_job *j, struct pmix_request *q);
/* Passes the requests of other nodes on to libpmix, after the job was registered. */
void pmix_server_serve_early(struct pmix_server_job *j);
/* Creates the exchange of a job with one node. */
void pmix_server_open_exchange(struct pmix_server_job *j);

/* Returns the functions that libpmix calls on its own thread, and makes them use the server `r`.
 * libpmix keeps the returned pointer. If `r` is NULL, the functions have no server any more. There
 * can be only one server per process, since libpmix has only one, and passes no pointer of drover
 * when it calls the functions for names. */
pmix_server_module_t *pmix_callbacks(struct pmix_server *r);
