#include "launcher/remote/remote_state.h"

#define JOB(...) STATES_ROW(REMOTE_JOB, __VA_ARGS__)
static const struct states_row job_rows[] = {
    JOB(NEW, RESOLVE, RESOLVING),                /* names must be resolved */
    JOB(NEW, MEET, MEETING),                     /* no name must be resolved */
    JOB(RESOLVING, RESOLVED, MEETING),           /* the remote launcher is started */
    JOB(RESOLVING, START_FAILED, START_FAILING), /* no route, or no answer in time */
    JOB(RESOLVING, KILL_TREE, ABORTING),         /* no agent is started yet */
    JOB(MEETING, START_FAILED, START_FAILING),   /* a failure, or the time limit */
    JOB(MEETING, ALL_READY, RUNNING),            /* `start` goes to every agent */
    JOB(MEETING, KILL_TREE, ABORTING),           /* agents are connecting */
    JOB(START_FAILING, NEXT_TURN, START_FAILED), /* the ranks are reported as not started */
    JOB(START_FAILING, KILL_TREE, ABORTING),     /* before that report */
    JOB(ABORTING, NEXT_TURN, REAPING),           /* agents are killing already */
    JOB(START_FAILED, KILL_TREE, REAPING),       /* agents kill what they started */
    JOB(RUNNING, KILL_TREE, REAPING),            /* the ranks have ended, or must end now */
    JOB(REAPING, REAPED, RELEASING),             /* agents and launcher may exit */
    JOB(REAPING, REAPED_ALL, DONE),              /* the launcher has exited before */
    JOB(RELEASING, LAUNCHER_REAPED, DONE),       /* the launcher has exited */
};

const struct states remote_job_states = STATES_TABLE(job_rows);

bool remote_job_is_starting(enum remote_job_state s)
{
    return s == REMOTE_JOB_RESOLVING || s == REMOTE_JOB_MEETING;
}

/* A connection that ends before the start also fails the start of the whole job. REAPED answers
 * `kill_tree`, which may come in every state of a connected agent. */
#define NODE(...) STATES_ROW(REMOTE_NODE, __VA_ARGS__)
static const struct states_row node_rows[] = {
    NODE(EXPECTED, HELLO, CONNECTED),       /* the topology is requested */
    NODE(EXPECTED, GONE, GONE),             /* the job ends before the agent has connected */
    NODE(CONNECTED, CONFIGURE, CONFIGURED), /* the topology is known */
    NODE(CONNECTED, REAPED, REAPED),        /* the start failed */
    NODE(CONNECTED, GONE, GONE),            /* the start fails */
    NODE(CONFIGURED, READY, READY),         /* the agent can start its ranks */
    NODE(CONFIGURED, REAPED, REAPED),       /* the start failed */
    NODE(CONFIGURED, GONE, GONE),           /* the start fails */
    NODE(READY, START, STARTED),            /* `start` is sent to the agent */
    NODE(READY, REAPED, REAPED),            /* the start failed */
    NODE(READY, GONE, GONE),                /* the start fails */
    NODE(STARTED, REAPED, REAPED),          /* the usual end */
    NODE(STARTED, GONE, GONE),              /* the ranks are lost */
    NODE(REAPED, GONE, GONE),               /* the agent has exited */
};

const struct states remote_node_states = STATES_TABLE(node_rows);

bool remote_node_is_reaped(enum remote_node_state s)
{
    return s == REMOTE_NODE_REAPED || s == REMOTE_NODE_GONE;
}

bool remote_node_has_agent(enum remote_node_state s)
{
    return s != REMOTE_NODE_EXPECTED && s != REMOTE_NODE_GONE;
}

/* A connection that ends before the start does not change the state of its node's ranks. Instead,
 * the start of the whole job fails, and every rank then gets NOT_STARTED. */
#define RANK(...) STATES_ROW(REMOTE_RANK, __VA_ARGS__)
static const struct states_row rank_rows[] = {
    RANK(WAITING, START, STARTED),    /* `start` is sent to the agent */
    RANK(WAITING, NOT_STARTED, DONE), /* the start failed */
    RANK(STARTED, NOT_STARTED, DONE), /* its program could not be executed */
    RANK(STARTED, EXITED, DONE),      /* the usual end */
    RANK(STARTED, LOST, DONE),        /* its node is lost, or its processes do not end */
};

const struct states remote_rank_states = STATES_TABLE(rank_rows);
