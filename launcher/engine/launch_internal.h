/* launch - the state of a job, shared by launch.c and launch_status.c. */
#ifndef DROVER_LAUNCH_INTERNAL_H
#define DROVER_LAUNCH_INTERNAL_H

#include "launcher/engine/engine.h"
#include "launcher/engine/launch.h"
#include "launcher/engine/launch_observers.h"
#include "launcher/io/last_lines.h"
#include "launcher/job/mpi_ranks.h"

struct launch_rank {
    pid_t pid; /* 0: not running */
    struct last_lines *out, *err;
    uint64_t drain_until_ms; /* when its output is closed by force; 0: not exited yet */
    int abort_code;          /* of its MPI_Abort() … */
    bool abort_pending;      /* … which counts once the earlier exit of another is known */
    bool end_emitted;        /* rank_ended was emitted */
    char *error;             /* the text of its TORCHELASTIC_ERROR_FILE; NULL: none */
    struct rank_status remote_status; /* on another node: as last received */
};

struct launch {
    struct launch_context *launcher;
    struct plan *plan;
    struct job *job;
    struct engine_job *run;
    struct pmix_server_job *pmix; /* NULL: drover does not serve PMIx to this job */
    struct mpi_ranks *mpi;        /* ranks without PMIx or PMI-1 stay NEW in it */
    struct launch_rank *ranks;
    int port_fd; /* holds MASTER_PORT; -1: does not */
    int grace_ms, request_ms, stop_signal;
    uint64_t started_ns;
    struct launch_spec spec; /* plan.h says how long its pointers are valid */
    char *broken;            /* why the engine cannot continue; NULL: it can */
    struct launch_observers observers;
    uv_timer_t escalation_timer; /* of the job's state: stop request, then grace period */
    uv_timer_t drain_timer;      /* of ranks that have exited */
    uv_timer_t abort_timer;      /* of aborts that are pending */
    uv_timer_t absent_timer;     /* of ranks that wait in MPI_Init for one that has exited */
    int open_handles;
};

static inline uv_loop_t *launch_loop(const struct launch *j)
{
    return engine_loop(launch_context_engine(j->launcher));
}

#endif
