#include "launcher/remote/remote_job_state.h"

#define ROW(s, ev, to) [REMOTE_JOB_##s][REMOTE_JOB_EV_##ev] = REMOTE_JOB_##to + 1 /* 0: no row */

static const unsigned char table[REMOTE_JOB_STATES][REMOTE_JOB_EVENTS] = {
    ROW(NEW, RESOLVE, RESOLVING),                /* names must be resolved */
    ROW(NEW, MEET, MEETING),                     /* no name must be resolved */
    ROW(RESOLVING, RESOLVED, MEETING),           /* the remote launcher is started */
    ROW(RESOLVING, START_FAILED, START_FAILING), /* no route, or no answer in time */
    ROW(RESOLVING, KILL_TREE, ABORTING),         /* no agent is started yet */
    ROW(MEETING, START_FAILED, START_FAILING),   /* a failure, or the time limit */
    ROW(MEETING, ALL_READY, RUNNING),            /* `start` goes to every agent */
    ROW(MEETING, KILL_TREE, ABORTING),           /* agents are connecting */
    ROW(START_FAILING, NEXT_TURN, START_FAILED), /* the ranks are reported as not started */
    ROW(START_FAILING, KILL_TREE, ABORTING),     /* before that report */
    ROW(ABORTING, NEXT_TURN, REAPING),           /* agents are killing already */
    ROW(START_FAILED, KILL_TREE, REAPING),       /* agents kill what they started */
    ROW(RUNNING, KILL_TREE, REAPING),            /* the ranks have ended, or must end now */
    ROW(REAPING, REAPED, RELEASING),             /* agents and launcher may exit */
    ROW(REAPING, REAPED_ALL, DONE),              /* the launcher has exited before */
    ROW(RELEASING, LAUNCHER_REAPED, DONE),       /* the launcher has exited */
};

int remote_job_next(enum remote_job_state s, enum remote_job_event ev)
{
    return table[s][ev] - 1;
}

bool remote_job_is_starting(enum remote_job_state s)
{
    return s == REMOTE_JOB_RESOLVING || s == REMOTE_JOB_MEETING;
}

const char *remote_job_state_name(enum remote_job_state s)
{
    static const char *const names[REMOTE_JOB_STATES] = {
        [REMOTE_JOB_NEW] = "new",
        [REMOTE_JOB_RESOLVING] = "resolving",
        [REMOTE_JOB_MEETING] = "meeting",
        [REMOTE_JOB_START_FAILING] = "start failing",
        [REMOTE_JOB_ABORTING] = "aborting",
        [REMOTE_JOB_START_FAILED] = "start failed",
        [REMOTE_JOB_RUNNING] = "running",
        [REMOTE_JOB_REAPING] = "reaping",
        [REMOTE_JOB_RELEASING] = "releasing",
        [REMOTE_JOB_DONE] = "done",
    };
    return names[s];
}

const char *remote_job_event_name(enum remote_job_event ev)
{
    static const char *const names[REMOTE_JOB_EVENTS] = {
        [REMOTE_JOB_EV_RESOLVE] = "resolve",
        [REMOTE_JOB_EV_MEET] = "meet",
        [REMOTE_JOB_EV_RESOLVED] = "resolved",
        [REMOTE_JOB_EV_START_FAILED] = "start failed",
        [REMOTE_JOB_EV_ALL_READY] = "all ready",
        [REMOTE_JOB_EV_NEXT_TURN] = "next turn",
        [REMOTE_JOB_EV_KILL_TREE] = "kill_tree",
        [REMOTE_JOB_EV_REAPED] = "reaped",
        [REMOTE_JOB_EV_REAPED_ALL] = "reaped all",
        [REMOTE_JOB_EV_LAUNCHER_REAPED] = "launcher reaped",
    };
    return names[ev];
}
