/* plan - from what was asked for and the machine to who runs where: rank -> node, local rank, GPU,
 * CPUs, memory nodes, variables. Pure: the same spec and machines give the same plan. */
#ifndef DROVER_PLAN_H
#define DROVER_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct hosts;
struct topo;

/* Who starts the ranks. */
enum plan_engine {
    PLAN_ENGINE_AUTO,     /* local where every host is this machine; slurm inside an allocation of
                             Slurm; else openmpi */
    PLAN_ENGINE_LOCAL,    /* this process's guardian */
    PLAN_ENGINE_MPIRUN,   /* mpirun starts a `drover rank` for each */
    PLAN_ENGINE_SRUN,     /* srun does */
    PLAN_ENGINE_EXTERNAL, /* who starts the job has it done, by what launch_join_ticket() says */
    PLAN_ENGINE_LOCAL_AGENTS /* this process does, all on this machine: for tests */
};

enum plan_map {
    PLAN_MAP_DEFAULT,
    PLAN_MAP_SLOT,
    PLAN_MAP_CORE,
    PLAN_MAP_HWTHREAD,
    PLAN_MAP_L3,
    PLAN_MAP_NUMA,
    PLAN_MAP_PACKAGE,
    PLAN_MAP_NODE,
    PLAN_MAP_PPR /* spec.ppr ranks to each spec.ppr_of */
};
enum plan_bind {
    PLAN_BIND_DEFAULT,
    PLAN_BIND_NONE,
    PLAN_BIND_CORE,
    PLAN_BIND_HWTHREAD,
    PLAN_BIND_L3,
    PLAN_BIND_NUMA,
    PLAN_BIND_PACKAGE
};

/* One node's ranks of a job whose other nodes' ranks others start, as a torchrun on each node does
 * (--node-rank), or as they agreed to where they met (--rdzv-endpoint). Nobody serves PMIx. */
struct launch_external_part {
    int nodes;               /* 0: no share, the whole job */
    int node;                /* which of them */
    const char *master_addr; /* where rank 0 listens */
    int first_rank;          /* how many ranks stand before this node's */
    int world_size;          /* 0: every node has as many ranks as this one */
};

/* The job's part of a node, where that is not the same on all. */
struct launch_node_resources {
    const char *cpus, *gpus; /* as launch_spec's */
};

/* mpirun's `:`: a program of its own for `ranks` ranks, which stand behind those of the one before.
 */
struct launch_app {
    int ranks;
    char *const *argv;
    char *const *env; /* as launch_spec.env, for these ranks; NULL: nothing */
};

/* What the user asked for: a job. A plain value; all pointers are borrowed until the plan is made
 * (launch_start() makes it, and copies what it needs), or until the job is over where its engine is
 * not the local one. Zero-initialised is "as usual". */
struct launch_spec {
    int ranks;         /* > 0; 0: one a GPU, or one a core where there is no GPU */
    char *const *argv; /* the program and its arguments, NULL-terminated */
    const char *wdir;  /* NULL: this directory */
    char *const
        *env; /* "NAME=value" set for every rank, "NAME" passed on; over what is inherited */
    enum plan_map map_by;
    enum plan_bind bind_to;
    enum plan_map rank_by; /* SLOT, NODE, …: in which turn ranks are numbered; DEFAULT: as mpirun,
                              by slot, or as they were mapped where that is by node */
    int ppr;               /* with PLAN_MAP_PPR: so many to each … */
    enum plan_map ppr_of;  /* … of these (NODE, NUMA, PACKAGE, L3, CORE, HWTHREAD) */
    int per_node;          /* -N: so many a node; 0: as the slots say */
    const struct hosts *hosts; /* where; NULL: this machine */
    enum plan_engine engine;
    char *const *engine_args; /* words for mpirun or srun (--mca …), passed on as they are */
    int start_timeout_ms;     /* until every rank's `drover rank` has come; 0: 60,000 */
    int lost_after_ms;        /* a node that is silent for so long is lost; 0: 15,000 */
    int cpus_per_rank;        /* 0: an even share */
    const char
        *cpus; /* the job's part of the node ("0-3,8"); NULL: all that this process may use */
    const char
        *gpus; /* the job's part of the node's GPUs ("0,2", "" for none); NULL: all visible */
    const struct launch_node_resources *node_resources; /* one for each of `hosts`, in place of cpus
                                        and gpus; NULL: none. Every host has ranks, then, and the
                                        engine is not the local one */
    const char *cgroup; /* directory of the control group (version 2) that the ranks are in; NULL:
                           this process's. Of this machine: the local engine's alone */
    bool oversubscribe; /* more ranks than cores are fine */
    bool no_hold_port;  /* MASTER_PORT is chosen, not held */
    bool port_held;     /* master_port is held by the caller, until the job is over */
    int master_port;    /* 0: a free one */
    int grace_ms;       /* SIGTERM to SIGKILL; 0: 30,000 */
    bool reports;       /* the ranks get a report channel (DROVER_REPORT_FD) */
    bool no_pmix;       /* the program needs no PMIx: nothing is served */
    int restart_count;  /* how often the job was started before */
    int max_restarts;   /* how often it may be started again; the ranks are told both */
    int stdin_fd;       /* read by rank stdin_rank; < 0 or 0 with stdin_null: /dev/null */
    bool stdin_null;
    int stdin_rank; /* which rank reads stdin_fd */
    struct launch_external_part external_part;
    const struct launch_app *apps; /* other programs than argv, for the last ranks */
    int app_count;
    const char *job_id; /* NULL: launch_start() makes one; plan_make() by itself says "job" */
    const char
        *output_dir; /* rank.N/stdout and rank.N/stderr are written below it; NULL: no files */
};

struct plan_rank {
    int rank; /* its index in plan.ranks; what it is called is this + plan.first_rank */
    int node; /* index into plan.nodes */
    int local_rank;
    int gpu;        /* its index on the node; -1: none */
    char *gpu_uuid; /* NULL where it is not known */
    char *cpus;     /* hwloc list of OS indexes ("0-3"); NULL: not bound */
    char *mems;     /* NUMA nodes its memory is bound to; NULL: not bound */
    int cores;      /* of `cpus` (or its share of the node where not bound); OMP_NUM_THREADS */
    char **env;  /* what this rank has beyond plan.env: RANK=…, CUDA_VISIBLE_DEVICES=…, … */
    char **argv; /* its program, where that is not plan.argv; NULL: it is */
};

struct plan_node {
    char *name;     /* as the user gave it; this machine's own where it is this one */
    int local_size; /* > 0: hosts without ranks are no nodes of the plan */
    bool here;      /* it is this machine */
};

struct plan {
    enum plan_engine engine; /* never AUTO */
    struct plan_rank *ranks;
    int world_size;
    int first_rank; /* of a share: how many ranks stand before ranks[0] in its world; else 0 */
    struct plan_node *nodes;
    int node_count;
    char *job_id;
    char *master_addr; /* NULL where there are several nodes: it is known when they have come. Not
                          in `env` then */
    char *wdir;        /* NULL: this directory */
    char **argv;
    char **env; /* "NAME=value" that the job sets for every rank (RANK and the like are per rank),
                   the user's -x included; a rank's environment is
                   env_merge(base_env, plan.env, plan_rank.env). MASTER_PORT is not in it */
};

/* Maps `s`. Every node is planned as if it were `t`, this machine: exact where they are alike, else
 * put right by plan_set_node(). `base_env` is the environment that the ranks inherit (to leave
 * alone what the user has set: OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES, NCCL_*); SLURM_* in it tell
 * whether AUTO means Slurm. -EINVAL  the spec contradicts itself (more ranks than slots, GPUs or
 * cores without oversubscribe, …) */
int plan_make(struct plan **out, const struct launch_spec *s, const struct topo *t,
              char *const *base_env, struct err *e);

/* Places the ranks of `node` anew, now that its topology `t` is known: GPU, CPUs, memory nodes,
 * cores, the ranks' variables. Who runs where stays. `s` is the one that the plan was made of,
 * `base_env` what the ranks of that node inherit.
 *   -EINVAL  the node lacks what was asked for (GPUs, cores, …), named in the text; `p` is as
 * before */
int plan_set_node(struct plan *p, int node, const struct launch_spec *s, const struct topo *t,
                  char *const *base_env, struct err *e);

void plan_free(struct plan *p);
AUTO_DEFINE(plan, struct plan *, plan_free)

#endif
