#include "launcher/elastic/elastic_state.h"

#define ROW(...) STATES_ROW(ELASTIC, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(WAITING, ASSIGNED, RUNNING),
    ROW(WAITING, STOP, WAITING), /* a late confirmation: no action */
    ROW(WAITING, STOP_LAST, WAITING),
    /* Joins the next attempt; the previous one has ended on this node */
    ROW(WAITING, JOIN, WAITING),
    ROW(WAITING, LOST, LOST),

    ROW(RUNNING, STOP, STOPPING),
    ROW(RUNNING, STOP_LAST, STOPPING),
    ROW(RUNNING, LOST, LOST),
    ROW(RUNNING, RANKS_SUCCEEDED, SUCCEEDED),
    ROW(RUNNING, RANKS_FAILED, FAILED),
    ROW(RUNNING, RANKS_FAILED_LAST, FAILED_LEAVING),

    ROW(SUCCEEDED, STOP, WAITING),
    ROW(SUCCEEDED, STOP_LAST, SUCCEEDED), /* this node does not take part again */
    ROW(SUCCEEDED, JOB_DONE, LOST),
    ROW(SUCCEEDED, LOST, LOST),

    ROW(FAILED, STOP, WAITING), /* confirms the failure; any stop counts as confirmation */
    ROW(FAILED, STOP_LAST, WAITING),
    ROW(FAILED, JOIN, WAITING), /* the pause ended before the server confirmed */
    ROW(FAILED, LOST, LOST),

    ROW(FAILED_LEAVING, STOP, WAITING),
    ROW(FAILED_LEAVING, STOP_LAST, WAITING),
    ROW(FAILED_LEAVING, LOST, LOST),

    ROW(STOPPING, STOP, STOPPING), /* only the reason changes */
    ROW(STOPPING, STOP_LAST, STOPPING),
    ROW(STOPPING, LOST, LOST),
    ROW(STOPPING, RANKS_SUCCEEDED, WAITING), /* it does not matter how they ended */
    ROW(STOPPING, RANKS_FAILED, WAITING),
    ROW(STOPPING, RANKS_FAILED_LAST, WAITING),

    ROW(LOST, RANKS_SUCCEEDED, LOST),
    ROW(LOST, RANKS_FAILED, LOST),
    ROW(LOST, RANKS_FAILED_LAST, LOST),
};

const struct states elastic_states = STATES_TABLE(rows);
