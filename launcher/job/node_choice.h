/* node_choice - decides which nodes take part in the next attempt of a job that has more nodes than
 * it needs. Pure. */
#pragma once

#include <stdbool.h>

/* What is known of a node, in the order of the host list. */
struct node_choice {
    bool out;    /* it cannot take part: it does not answer, a check would break the job, … */
    int faults;  /* failed checks and failed attempts; a node with fewer is preferred */
    bool chosen; /* the result */
};

/* Chooses up to `max` nodes: those with the fewest faults, and of equal ones the first. Returns the
 * number of chosen nodes. If it is less than `min`, no node is chosen, and the result is the number
 * of nodes that could take part. */
int node_choice_make(struct node_choice *nodes, int count, int min, int max);
