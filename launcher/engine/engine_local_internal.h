/* engine_local_internal - the state of the local engine and its jobs, shared by engine_local.c and
 * engine_local_output.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "launcher/engine/engine.h"
#include "launcher/io/rank_output.h"

enum { ENGINE_LOCAL_STREAMS = 2 };

struct engine {
    uv_loop_t *loop;
    struct guardian *guardian;
    struct local_job *jobs;
    uint32_t last_number;
    int oom; /* counter of OOM kills in this process's cgroup, or NOT_OPENED; -1: none */
    bool guardian_ended, pty_warned;
    char *error_files;       /* beginning of the paths of all error files; NULL: no job has one */
    uv_timer_t reaped_timer; /* emits `reaped` in the next iteration */
    char *scratch;           /* RANK_OUTPUT_READ_BYTES */
    int dev_null;            /* stdin of most ranks */
};

struct stream {
    struct local_job *job;
    int rank;
    enum launch_stream from;
    int file;               /* output file, until `io` owns it; -1: none */
    struct rank_output *io; /* NULL after the end of the stream */
};

struct engine_rank {
    struct stream streams[ENGINE_LOCAL_STREAMS];
    struct report_channel *channel;
    bool done;   /* exited or not started */
    bool paused; /* its output, after the event `bytes` */
};

struct local_job {
    struct engine_job job;
    struct local_job *next;
    struct engine *engine;
    const struct plan *plan;
    const struct job_map *map; /* NULL: drover does not serve PMIx */
    uint32_t number;
    struct engine_rank *ranks;
    int count, started;
    char **common_env; /* the environment that all ranks share */
    struct rank_output_group groups[ENGINE_LOCAL_STREAMS];
    struct pmi1_server *pmi1;
    struct ft_bridge *ft;              /* for spec.node.ft_config; NULL: none */
    struct stdin_broadcast *broadcast; /* spec.stdin_all; NULL: one rank has stdin */
    struct trace_buffer *traces;       /* traces of the ranks' collectives; NULL: none */
    bool paused, kill_requested;
    bool has_error_files; /* the ranks have a TORCHELASTIC_ERROR_FILE that drover made */
    bool reaped;          /* no process of the job is left */
    int resume_from;      /* the rank that is resumed first, so that all ranks take turns */
    char *cgroup;         /* the ranks' cgroup; NULL: the cgroup of this process */
    int oom;              /* counter of OOM kills in `cgroup`; -1: the engine's counter is used */
    long oom_kills_count; /* count of OOM kills before the job started */
    struct engine_events ev;
    void *arg;
};

/* ---- output (engine_local_output.c) --------------------------------------------------------- */

/* Initializes the streams of all ranks and opens their output files. This is done before any rank
 * starts, since it may fail. */
int engine_local_open_files(struct local_job *j, const struct launch_spec *spec,
                            const struct plan *p, struct err *e);
/* Opens one stream of a rank. *write_end is the descriptor that the rank gets; the caller closes
 * it. `with_pty` is true if the rank's stdout is a pty. */
int engine_local_open_stream(struct stream *s, bool with_pty, int *write_end, struct err *e);
/* Implement engine_ops.resume and engine_ops.finish_output. */
void engine_local_resume(struct engine_job *job);
void engine_local_finish_output(struct engine_job *job, int rank);
