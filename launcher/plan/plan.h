/* plan - placement: computes from a job's spec and the topology of its nodes where each rank runs
 * (node, local rank, GPU, CPUs, NUMA nodes) and with which environment. Pure: the same spec and
 * topologies give the same plan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/err.h"
#include "common/host_port.h"
#include "common/mem.h"

struct hosts;
struct topo;

/* The engine that starts ranks through this process's guardian. The names of the other engines are
 * the words of the remote launchers (remote/remote_launcher.h), which start one agent per node. */
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

/* The ranks of this node in a job in which each node has its own launcher: torchrun with
 * --node-rank, or with a rendezvous (--rdzv-endpoint). drover does not serve PMIx in such a job. */
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

/* A further program of the job (mpirun's `:`). It has `ranks` ranks, whose numbers follow those of
 * the previous program. */
struct launch_app {
    int ranks;
    char *const *argv;
    char *const *env; /* additional variables in the form of launch_spec.env; NULL: none */
    const char *wdir; /* working directory of its ranks; NULL: launch_spec.wdir */
    const struct hosts
        *hosts; /* where its ranks run: some of launch_spec.hosts; NULL: all of these */
};

/* The host and the CPUs of one rank, as a rank file has them. */
struct launch_location {
    const char *host;
    const char *slots; /* cpu_units.h; NULL: the rank is not bound */
    bool here;         /* the host is this machine */
};

/* The part of a spec that the agents of other nodes need, too. It travels to them as JSON
 * (node_spec.c). */
struct launch_node_settings {
    bool reports;      /* the ranks get a report channel (DROVER_REPORT_FD) */
    bool no_pty;       /* stdout of the ranks is a pipe, as stderr always is, and not a pty */
    bool no_pmix;      /* the program needs no PMIx: no server is started */
    bool no_hold_port; /* MASTER_PORT is chosen but not held */
    int master_port;   /* 0: a free port */
    struct host_port_range ports; /* where this port, and those of drover itself, lie */
    int tree_radix; /* children per agent, and of the launcher (tree/tree.h); 0: TREE_RADIX */
    int stdin_rank; /* the rank that reads stdin; < 0: none */
    const char *ft_config; /* settings of nvidia-resiliency-ext as JSON: the ranks get a socket for
                              their RankMonitorClient (engine/ft_bridge.h); NULL: they do not */
};

/* What the user wants to run: a job. A plain value; if zero-initialised, it has all defaults. With
 * the local engine, all pointers are borrowed until the plan is made; launch_start() makes the plan
 * and copies what it needs. With another engine, they are borrowed until the job ends. */
struct launch_spec {
    int ranks;         /* 0: one per GPU, or one per core without GPUs */
    char *const *argv; /* the program and its arguments, NULL-terminated */
    const char *wdir;  /* NULL: the current directory */
    char *const *env; /* "NAME=value" sets a variable for every rank, "NAME" passes it on; overrides
                         inherited variables */
    struct launch_node_settings node;
    enum plan_map map_by;
    enum plan_bind bind_to;
    char *const *bind_slots; /* the CPUs (cpu_units.h) of the first ranks of a node, instead of
                                bind_to; further ranks are not bound. NULL: not set */
    const struct launch_location
        *locations; /* by rank, instead of map_by and bind_to; NULL: not set */
    int location_count;
    enum plan_map rank_by; /* order in which ranks are numbered: SLOT, NODE, …; DEFAULT: as mpirun,
                              by node if ranks are mapped by node, else by slot */
    int ppr;               /* with PLAN_MAP_PPR: ranks per object */
    enum plan_map ppr_of;  /* the object: NODE, PACKAGE, NUMA, L3, L2, L1, CORE, HWTHREAD */
    int per_node;          /* -N: ranks per node; 0: decided by slots */
    const struct hosts *hosts;     /* NULL: this machine */
    const struct hosts *own_hosts; /* where the ranks of `argv` run, if `apps` run elsewhere: some
                                      of `hosts`; NULL: all of these */
    const char *engine; /* a word in static memory. NULL: "local" if every host is this machine,
                           "slurm" inside a Slurm allocation, else remote_engine */
    const char *remote_engine; /* a word in static memory; NULL: "openmpi" */
    char *const *engine_args;  /* the user's arguments for mpirun or ssh, unchanged (--mca …) */
    int start_timeout_ms;      /* deadline for all agents to connect; 0: 60,000 */
    int lost_after_ms;         /* a node that is silent for this long is lost; 0: 15,000 */
    int cpus_per_rank;         /* 0: an even share */
    const char *cpus; /* CPUs that the job may use ("0-3,8"); NULL: all that this process may use */
    const char *gpus; /* GPUs that the job may use ("0,2", "": none); NULL: all visible ones */
    /* One entry per host, instead of `cpus` and `gpus`; NULL: not given. If given, every host must
     * have ranks, and the engine must not be the local one. */
    const struct launch_node_resources *node_resources;
    const char *cgroup;  /* directory of the cgroup (version 2) of the ranks on this machine; NULL:
                            cgroup of this process. Local engine only */
    bool needs_gpus;     /* a node without a GPU is an error */
    bool oversubscribe;  /* more ranks than slots, cores or GPUs are allowed */
    bool keeps_going;    /* the job continues if a rank exits with a status other than 0 */
    bool port_held;      /* the caller holds master_port until the job ends */
    int grace_ms;        /* SIGTERM to SIGKILL; 0: 30,000 */
    bool preflight;      /* the nodes are checked before their ranks start (doctor/preflight.h) */
    bool sample_gpus;    /* agents on other machines sample the GPUs of their ranks */
    int nccl_ras_port;   /* of NCCL_RAS_ADDR, unless the user has set it; 0: it is not set */
    bool no_traces;      /* no caller asks which collective a rank is in */
    int restart_count;   /* restarts so far */
    bool restart_always; /* also after failures that a restart does not cure */
    int max_restarts;    /* limit of restarts; ranks see both numbers */
    int stdin_fd;        /* that rank node.stdin_rank reads; < 0, or with stdin_null: /dev/null */
    bool stdin_null;
    bool stdin_all; /* every rank reads stdin_fd; local engine only */
    int shown_rank; /* highest rank whose output the user requested by number; 0: none */
    struct launch_external_part external_part;
    const struct launch_app *apps; /* programs other than argv, for the last ranks */
    int app_count;
    const char *job_id;     /* NULL: launch_start() generates one; plan_make() alone uses "job" */
    const char *output_dir; /* directory of rank.N/stdout and rank.N/stderr; NULL: no files */
    const char *output_files[2]; /* files of stdout and stderr instead, which are not shown: %r is
                                    the rank, %h its host, %p its node, %g 0; NULL: none */
};

struct plan_rank {
    int rank; /* index in plan.ranks; the number in the whole job is rank + plan.first_rank */
    int node; /* index into plan.nodes */
    int local_rank;
    int gpu;        /* index on the node; -1: no GPU */
    char *gpu_uuid; /* NULL: unknown */
    char *cpus;     /* hwloc list of OS indexes ("0-3"); NULL: not bound */
    char *mems;     /* NUMA nodes to which its memory is bound; NULL: not bound */
    int cores;  /* cores of the rank: those in `cpus`, or in its share of the node if not bound; the
                   value of OMP_NUM_THREADS */
    char **env; /* variables in addition to plan.env: RANK=…, CUDA_VISIBLE_DEVICES=…, … */
    char **argv; /* its program, if it differs from plan.argv; else NULL */
    char *wdir;  /* its working directory, if it differs from plan.wdir; else NULL */
};

struct plan_node {
    char *name;     /* as the user wrote it; this machine's host name if `here` */
    int local_size; /* > 0: hosts without ranks are not nodes of the plan */
    int *ranks;     /* its ranks, ascending: indexes in plan.ranks */
    int port;       /* port of its ssh server; 0: not given */
    bool here;      /* this machine */
    char *hardware; /* plan_hardware_node() */
};

struct plan {
    const char *engine; /* never NULL */
    struct plan_rank *ranks;
    int world_size;
    int first_rank; /* number of ranks before ranks[0] in the whole job; 0 unless this is an
                       external part */
    struct plan_node *nodes;
    int node_count;
    char *job_id;
    char *master_addr; /* NULL if there are several nodes: it is known only when their agents have
                          connected, and `env` does not contain it */
    int master_port;   /* as the user set it; 0: chosen when the job starts */
    char *wdir;        /* NULL: the current directory */
    char **argv;
    char **env; /* "NAME=value" for every rank, including the user's -x, without MASTER_PORT. A
                   rank's environment is env_merge(base_env, plan.env, plan_rank.env) */
};

/* Makes the plan of `s`. Every node is planned as if it had this machine's topology `t`. For a node
 * with another topology, plan_set_node() corrects the plan later. `base_env` is the environment
 * that the ranks inherit. Variables that the user has set there are kept (OMP_NUM_THREADS,
 * CUDA_VISIBLE_DEVICES, NCCL_*). SLURM_* variables decide if srun is the default engine.
 *   -EINVAL  the spec contradicts itself (more ranks than slots, GPUs or cores without
 *            oversubscribe, …) */
int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e);

/* Recomputes GPU, CPUs, NUMA nodes, cores and variables of the ranks of `node` from its topology
 * `t`. The mapping does not change. `s` is the spec of plan_make(); `base_env` is the environment
 * that the ranks of that node inherit.
 *   -EINVAL  the node lacks requested resources (GPUs, cores, …), which the text names; `p` is
 *            unchanged */
int plan_set_node(struct plan *p, int node, const struct launch_spec *s, const struct topo *t,
                  char *const *base_env, struct err *e);

/* Returns the number of ranks of the whole job; p->world_size unless this is an external part. */
int plan_world_size(const struct plan *p, const struct launch_spec *s);

/* Returns true if the plan of `s` will be local. */
bool plan_spec_is_local(const struct launch_spec *s);

/* Returns true if this process's guardian starts the ranks. */
static inline bool plan_is_local(const struct plan *p)
{
    return strcmp(p->engine, PLAN_ENGINE_LOCAL) == 0;
}

static inline char *const *plan_rank_argv(const struct plan *p, const struct plan_rank *r)
{
    return r->argv ? r->argv : p->argv;
}

/* Returns the working directory of a rank; NULL means the current directory. */
static inline const char *plan_rank_wdir(const struct plan *p, const struct plan_rank *r)
{
    return r->wdir ? r->wdir : p->wdir;
}

void plan_free(struct plan *p);
AUTO_DEFINE(plan, struct plan *, plan_free)
