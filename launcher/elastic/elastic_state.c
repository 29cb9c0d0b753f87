#include "launcher/elastic/elastic_state.h"

#define S(state) ELASTIC_##state
#define ROW(state, ev, to) [S(state)][ELASTIC_EV_##ev] = S(to) + 1 /* 0: no transition */

static const unsigned char table[ELASTIC_STATES][ELASTIC_EVENTS] = {
    ROW(WAITING, ASSIGNED, RUNNING),
    ROW(WAITING, STOP_FAILED, WAITING), /* a late confirmation: no action */
    ROW(WAITING, STOP_JOINED, WAITING),
    ROW(WAITING, STOP_JOINED_LAST, WAITING),
    /* Joins the next attempt; the previous one has ended on this node */
    ROW(WAITING, JOIN, WAITING),
    ROW(WAITING, LOST, LOST),

    ROW(RUNNING, STOP_FAILED, STOPPING),
    ROW(RUNNING, STOP_JOINED, STOPPING),
    ROW(RUNNING, STOP_JOINED_LAST, STOPPING),
    ROW(RUNNING, LOST, LOST),
    ROW(RUNNING, RANKS_SUCCEEDED, SUCCEEDED),
    ROW(RUNNING, RANKS_FAILED, FAILED),
    ROW(RUNNING, RANKS_FAILED_LAST, FAILED_LEAVING),

    ROW(SUCCEEDED, STOP_FAILED, WAITING),
    ROW(SUCCEEDED, STOP_JOINED, WAITING),
    ROW(SUCCEEDED, STOP_JOINED_LAST, SUCCEEDED), /* this node does not take part again */
    ROW(SUCCEEDED, JOB_DONE, LOST),
    ROW(SUCCEEDED, LOST, LOST),

    ROW(FAILED, STOP_FAILED, WAITING), /* confirms the failure; any stop counts as confirmation */
    ROW(FAILED, STOP_JOINED, WAITING),
    ROW(FAILED, STOP_JOINED_LAST, WAITING),
    ROW(FAILED, JOIN, WAITING), /* the pause ended before the server confirmed */
    ROW(FAILED, LOST, LOST),

    ROW(FAILED_LEAVING, STOP_FAILED, WAITING),
    ROW(FAILED_LEAVING, STOP_JOINED, WAITING),
    ROW(FAILED_LEAVING, STOP_JOINED_LAST, WAITING),
    ROW(FAILED_LEAVING, LOST, LOST),

    ROW(STOPPING, STOP_FAILED, STOPPING), /* only the reason changes */
    ROW(STOPPING, STOP_JOINED, STOPPING),
    ROW(STOPPING, STOP_JOINED_LAST, STOPPING),
    ROW(STOPPING, LOST, LOST),
    ROW(STOPPING, RANKS_SUCCEEDED, WAITING), /* it does not matter how they ended */
    ROW(STOPPING, RANKS_FAILED, WAITING),
    ROW(STOPPING, RANKS_FAILED_LAST, WAITING),

    ROW(LOST, RANKS_SUCCEEDED, LOST),
    ROW(LOST, RANKS_FAILED, LOST),
    ROW(LOST, RANKS_FAILED_LAST, LOST),
};

int elastic_next(enum elastic_state s, enum elastic_event ev)
{
    return table[s][ev] - 1;
}

const char *elastic_state_name(enum elastic_state s)
{
    static const char *const names[] = {
        [S(WAITING)] = "WAITING",
        [S(RUNNING)] = "RUNNING",
        [S(SUCCEEDED)] = "SUCCEEDED",
        [S(FAILED)] = "FAILED",
        [S(FAILED_LEAVING)] = "FAILED_LEAVING",
        [S(STOPPING)] = "STOPPING",
        [S(LOST)] = "LOST",
    };
    return names[s];
}
