#include "launcher/remote/remote_job_state.h"

#define ROW(...) STATES_ROW(REMOTE_JOB, __VA_ARGS__)
static const struct states_row rows[] = {
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

const struct states remote_job_states = STATES_TABLE(rows);

bool remote_job_is_starting(enum remote_job_state s)
{
    return s == REMOTE_JOB_RESOLVING || s == REMOTE_JOB_MEETING;
}
