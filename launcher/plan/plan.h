/* plan - placement: computes from a job's spec and the topology of its nodes where each rank runs
 * (node, local rank, GPU, CPUs, NUMA nodes) and with which environment. Pure: the same spec and
 * topologies give the same plan. */
#ifndef DROVER_PLAN_H
#define DROVER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"

struct hosts;
struct topo;

/* The engine whose ranks this process's guardian starts. The others are the words of the remote
 * launchers (remote/remote_launcher.h), which start an agent per rank. */
#define PLAN_ENGINE_LOCAL "local"

enum plan_map {
    PLAN_MAP_DEFAULT,
    PLAN_MAP_SLOT,
    PLAN_MAP_CORE,
    PLAN_MAP_HWTHREAD,
    PLAN_MAP_L3,
    PLAN_MAP_L2,
    PLAN_MAP_L1,
    PLAN_MAP_NUMA,
    PLAN_MAP_PACKAGE,
    PLAN_MAP_NODE,
    PLAN_MAP_PPR /* spec.ppr ranks per spec.ppr_of object */
};
enum plan_bind {
    PLAN_BIND_DEFAULT,
    PLAN_BIND_NONE,
    PLAN_BIND_CORE,
    PLAN_BIND_HWTHREAD,
    PLAN_BIND_L3,
    PLAN_BIND_L2,
    PLAN_BIND_L1,
    PLAN_BIND_NUMA,
    PLAN_BIND_PACKAGE
};

/* The ranks of this node in a job whose other ranks are started elsewhere, as a torchrun on each
 * node does (--node-rank), or by a rendezvous (--rdzv-endpoint). drover does not serve PMIx in
 * such a job. */
struct launch_external_part {
    int nodes;               /* 0: not set, this is the whole job */
    int node;                /* index of this node */
    const char *master_addr; /* address on which rank 0 listens */
    int first_rank;          /* number of ranks on the nodes before this one */
    int world_size;          /* ranks of the whole job; 0: every node has as many ranks as this
                                one */
};

/* The CPUs and GPUs of one node that a job may use, if they differ between nodes. */
struct launch_node_resources {
    const char *cpus, *gpus; /* in the form of launch_spec.cpus and .gpus */
};

/* A further program of the job (mpirun's `:`), run by `ranks` ranks that follow those of the
 * previous program. */
struct launch_app {
    int ranks;
    char *const *argv;
    char *const *env; /* additional variables in the form of launch_spec.env; NULL: none */
    const char *wdir; /* working directory of its ranks; NULL: launch_spec.wdir */
    const struct hosts
        *hosts; /* where its ranks run, part of launch_spec.hosts; NULL: all of them */
};

/* The host and the CPUs of one rank, as a rank file has them. */
struct launch_location {
    const char *host;
    const char *slots; /* cpu_slots.h; NULL: the rank is not bound */
    bool here;         /* the host is this machine */
};

/* What the user wants to run: a job. A plain value; a zero-initialised one has all defaults. All
 * pointers are borrowed until the plan is made (launch_start() makes it and copies what it needs),
 * or until the job ends if its engine is not the local one. */
struct launch_spec {
    int ranks;         /* 0: one per GPU, or one per core without GPUs */
    char *const *argv; /* the program and its arguments, NULL-terminated */
    const char *wdir;  /* NULL: the current directory */
    char *const *env; /* "NAME=value" sets a variable for every rank, "NAME" passes it on; overrides
                         inherited variables */
    enum plan_map map_by;
    enum plan_bind bind_to;
    char *const *bind_slots; /* the CPUs (cpu_slots.h) of the first ranks of a node, instead of
                                bind_to; further ranks are not bound. NULL: not set */
    const struct launch_location
        *locations; /* by rank, instead of map_by and bind_to; NULL: not set */
    int location_count;
    enum plan_map rank_by;         /* SLOT, NODE, …: order in which ranks are numbered; DEFAULT:
                                      mpirun's, by slot, or by node if ranks were mapped by node */
    int ppr;                       /* with PLAN_MAP_PPR: ranks per object */
    enum plan_map ppr_of;          /* the object: NODE, PACKAGE, NUMA, L3, L2, L1, CORE, HWTHREAD */
    int per_node;                  /* -N: ranks per node; 0: decided by slots */
    const struct hosts *hosts;     /* NULL: this machine */
    const struct hosts *own_hosts; /* where the ranks of `argv` run, part of `hosts`, if `apps` run
                                      elsewhere; NULL: all of them */
    const char *engine; /* a word in static memory. NULL: "local" if every host is this machine,
                           "slurm" inside a Slurm allocation, else "openmpi" */
    char *const *engine_args; /* arguments passed to mpirun or srun unchanged (--mca …) */
    int start_timeout_ms;     /* deadline for all agents to connect; 0: 60,000 */
    int lost_after_ms;        /* a node that is silent for this long is lost; 0: 15,000 */
    int cpus_per_rank;        /* 0: an even share */
    const char *cpus; /* CPUs that the job may use ("0-3,8"); NULL: all that this process may */
    const char *gpus; /* GPUs that the job may use ("0,2", "": none); NULL: all visible ones */
    const struct launch_node_resources *node_resources; /* one per host, instead of `cpus` and
                                                           `gpus`; NULL: none. Then every host
                                                           has ranks, and the engine is not the
                                                           local one */
    const char *cgroup; /* directory of the cgroup (version 2) of the ranks on this machine;
                           NULL: this process's. Local engine only */
    bool needs_gpus;    /* a node without a GPU is an error */
    bool oversubscribe; /* more ranks than slots, cores or GPUs are allowed */
    bool no_hold_port;  /* MASTER_PORT is chosen but not held */
    bool port_held;     /* the caller holds master_port until the job ends */
    int master_port;    /* 0: a free port */
    int grace_ms;       /* SIGTERM to SIGKILL; 0: 30,000 */
    bool reports;       /* the ranks get a report channel (DROVER_REPORT_FD) */
    bool no_pmix;       /* the program needs no PMIx: no server is started */
    bool no_pty;        /* stdout of the ranks is a pipe, as stderr always is, and not a pty */
    int restart_count;  /* restarts so far */
    int max_restarts;   /* limit of restarts; ranks see both numbers */
    int stdin_fd;       /* descriptor that rank stdin_rank reads; < 0, or 0 with stdin_null:
                           /dev/null */
    bool stdin_null;
    bool stdin_all; /* every rank reads stdin_fd; local engine only */
    int stdin_rank; /* the rank that reads stdin_fd */
    int shown_rank; /* the last rank whose output was requested by number; 0: none */
    struct launch_external_part external_part;
    const struct launch_app *apps; /* programs other than argv, for the last ranks */
    int app_count;
    const char *job_id;     /* NULL: launch_start() generates one; plan_make() alone uses "job" */
    const char *output_dir; /* directory of rank.N/stdout and rank.N/stderr; NULL: no files */
};

struct plan_rank {
    int rank; /* index in plan.ranks; the rank's number in the job is this + plan.first_rank */
    int node; /* index into plan.nodes */
    int local_rank;
    int gpu;        /* index on the node; -1: no GPU */
    char *gpu_uuid; /* NULL: unknown */
    char *cpus;     /* hwloc list of OS indexes ("0-3"); NULL: not bound */
    char *mems;     /* NUMA nodes to which its memory is bound; NULL: not bound */
    int cores;      /* cores in `cpus`, or in its share of the node if not bound; the value of
                       OMP_NUM_THREADS */
    char **env;     /* variables in addition to plan.env: RANK=…, CUDA_VISIBLE_DEVICES=…, … */
    char **argv;    /* its program, if it differs from plan.argv; else NULL */
    char *wdir;     /* its working directory, if it differs from plan.wdir; else NULL */
};

struct plan_node {
    char *name;     /* as the user wrote it; this machine's host name if `here` */
    int local_size; /* > 0: hosts without ranks are not nodes of the plan */
    int port;       /* of its ssh server; 0: not given */
    bool here;      /* this machine */
};

struct plan {
    const char *engine; /* never NULL */
    struct plan_rank *ranks;
    int world_size;
    int first_rank; /* for an external part: ranks before ranks[0] in the whole job; else 0 */
    struct plan_node *nodes;
    int node_count;
    char *job_id;
    char *master_addr; /* NULL for several nodes: known only when their agents have connected.
                          `env` does not contain it then */
    int master_port;   /* as the user set it; 0: chosen when the job starts */
    char *wdir;        /* NULL: the current directory */
    char **argv;
    char **env; /* "NAME=value" for every rank, including the user's -x (RANK and the like are
                   per rank). A rank's environment is env_merge(base_env, plan.env,
                   plan_rank.env). Does not contain MASTER_PORT */
};

/* Makes the plan of `s`. Every node is planned as if it had this machine's topology `t`: exact if
 * the nodes are alike, else corrected by plan_set_node(). `base_env` is the environment that the
 * ranks inherit: variables that the user has set are kept (OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES,
 * NCCL_*), and SLURM_* decide whether AUTO means srun.
 *   -EINVAL  the spec contradicts itself (more ranks than slots, GPUs or cores without
 *            oversubscribe, …) */
int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e);

/* Recomputes GPU, CPUs, NUMA nodes, cores and variables of the ranks of `node` when its topology
 * `t` is known. The mapping stays. `s` is the spec of plan_make(); `base_env` is what the ranks of
 * that node inherit.
 *   -EINVAL  the node lacks what was requested (GPUs, cores, …), which the text names; `p` is
 *            unchanged */
int plan_set_node(struct plan *p, int node, const struct launch_spec *s, const struct topo *t,
                  char *const *base_env, struct err *e);

/* Whether this process's guardian starts the ranks. */
static inline bool plan_is_local(const struct plan *p)
{
    return strcmp(p->engine, PLAN_ENGINE_LOCAL) == 0;
}

static inline char *const *plan_rank_argv(const struct plan *p, const struct plan_rank *r)
{
    return r->argv ? r->argv : p->argv;
}

/* NULL: the current directory. */
static inline const char *plan_rank_wdir(const struct plan *p, const struct plan_rank *r)
{
    return r->wdir ? r->wdir : p->wdir;
}

void plan_free(struct plan *p);
AUTO_DEFINE(plan, struct plan *, plan_free)

#endif
