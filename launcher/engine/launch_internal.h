/* launch - the state of a job, shared by launch.c, launch_aborts.c and launch_observers.c. */
#pragma once

#include "launcher/engine/engine.h"
#include "launcher/engine/launch.h"
#include "launcher/io/last_lines.h"
#include "launcher/job/mpi_ranks.h"

/* Called in the order of subscription. */
struct launch_observer {
    struct launch_events ev;
    void *arg;
};

struct launch_observers {
    struct launch_observer at[LAUNCH_OBSERVERS_MAX];
    int count;
};

/* Calls the function `event` of every observer that has one. */
#define LAUNCH_OBSERVERS_EMIT(list, event, ...)                    \
    do {                                                           \
        for (int emit_i = 0; emit_i < (list)->count; emit_i++) {   \
            const struct launch_observer *o = &(list)->at[emit_i]; \
            if (o->ev.event)                                       \
                o->ev.event(o->arg, __VA_ARGS__);                  \
        }                                                          \
    } while (0)

struct launch_rank {
    pid_t pid; /* 0: not running */
    struct last_lines *out, *err;
    uint64_t drain_until_ms;   /* when drover closes its output; 0: the rank has not exited, or its
                                  output has ended */
    int abort_code;            /* code of the rank's MPI_Abort() … */
    bool abort_pending;        /* … which counts after a moment (launch_aborts.c) */
    struct rank_end *held_end; /* its exit, which counts after its abort; NULL: it is not held */
    bool end_emitted;          /* rank_ended was emitted */
    char **said;               /* its lines when the ranks were told to stop, a strv */
    char *error;               /* the text of its TORCHELASTIC_ERROR_FILE; NULL: none */
    struct rank_status remote_status; /* last received status of a rank on another node */
};

struct launch {
    struct launch_context *launcher;
    struct plan *plan;
    struct job_map *map; /* of a local job, else NULL */
    struct job *job;
    struct engine_job *run;
    struct pmix_server_job *pmix; /* NULL: drover does not serve PMIx to this job */
    struct mpi_ranks *mpi;        /* a rank that does not use PMIx or PMI-1 stays NEW in it */
    struct launch_rank *ranks;
    int port_fd; /* holds MASTER_PORT; -1: not held */
    int grace_ms, request_ms, stop_signal;
    uint64_t started_ns;
    struct launch_spec spec; /* plan.h says how long its pointers are valid */
    char *broken;            /* why the engine cannot continue; NULL: it can continue */
    struct launch_observers observers;
    struct job_witness *witnesses; /* by rank, after a failure; NULL: none so far */
    bool told_to_stop;             /* the ranks were told to stop after a failure */
    uint64_t failed_ms;            /* when JOB_LISTENING began */
    uv_timer_t
        escalation_timer;    /* limit of the job's state: listening, stop request, grace period */
    uv_timer_t drain_timer;  /* until the next rank's drain_until_ms */
    uv_timer_t abort_timer;  /* until pending aborts count … */
    int first_aborted;       /* … and the rank of the first of them */
    uv_timer_t absent_timer; /* until absent ranks count as failed */
    int open_handles;
};

/* ---- launch_observers.c */

/* Copies `ev`. Aborts if the list is full. */
void launch_observers_add(struct launch_observers *l, const struct launch_events *ev, void *arg);
/* Emits a line to all observers. Returns false if any of them requests a pause. */
bool launch_observers_line(const struct launch_observers *l, int rank, enum launch_stream from,
                           const char *text, size_t len);
/* Returns true if an observer has the function `listen`. */
bool launch_observers_can_listen(const struct launch_observers *l);
int launch_observers_listen(const struct launch_observers *l, const struct job_end *end);
/* Emits `ended`, and empties the list, since no event may follow. The last observer may free the
 * job that contains the list. */
void launch_observers_ended(struct launch_observers *l, const struct job_end *end);
/* Emits a packet of a rank's report channel, as `report` or as `progress`. */
void launch_observers_report(const struct launch_observers *l, int rank, const char *json,
                             size_t len);
/* Events of the engine before the ranks start; `arg` is the job. */
int launch_observers_node_checked(void *arg, int node, const char *text, size_t len, struct err *e);
int launch_observers_nodes_ready(void *arg, int *node, struct err *e);

/* ---- launch_witnesses.c */

/* Describes the end of the job as far as it is known. */
void launch_witnesses_end(struct launch *j, struct job_end *out);
/* The ranks are told to stop: what they print from now on tells nothing about the failure. */
void launch_witnesses_mark(struct launch *j);
/* Returns for how many milliseconds the job listens from now on; 0: the ranks are told to stop. */
int launch_witnesses_listen_ms(struct launch *j);
void launch_witnesses_free(struct launch *j);

/* ---- launch.c */

/* Completes the handling of a rank's event. If the job has a new state, performs its actions. Then
 * emits `rank_ended` if the rank has ended. */
void launch_after_event(struct launch *j, int rank, bool job_changed);
/* The rank has exited; its output may still arrive until the drain timer fires. */
void launch_rank_ended(struct launch *j, const struct rank_end *r);

/* ---- launch_aborts.c */

/* Handles RANK_ABORTED. */
void launch_aborts_on_aborted(struct launch *j, int rank, int code);
/* Call this when a rank has exited, before anything else is done about it. Returns true if the exit
 * counts later: launch_rank_ended() is then called again. */
bool launch_aborts_hold_end(struct launch *j, const struct rank_end *r);

static inline uv_loop_t *launch_loop(const struct launch *j)
{
    return engine_loop(j->launcher->engine);
}
