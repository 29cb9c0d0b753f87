/* pairs_bisect - finds slow nodes and links among n nodes by asking if groups of them are slow.
 *
 * A group is slow if it has a slow node and another one, or both ends of a slow link. The groups of
 * a round are disjoint and are measured at the same time. First all nodes are a group. A slow group
 * is halved, and both halves are asked in one round. If neither is slow, a link between the halves
 * is: both are halved, and their quarters are asked in pairs, in at most two rounds. So there are
 * at most 2 log2 n + 2 rounds, however many faults there are. Of faults in several such places, a
 * link between a slow half and another one is not found. */
#pragma once

#include <stdbool.h>

#include "common/mem.h"

struct pairs_bisect;
struct pairs_bisect *pairs_bisect_new(int n);
void pairs_bisect_free(struct pairs_bisect *b);
AUTO_DEFINE(pairs_bisect, struct pairs_bisect *, pairs_bisect_free)

/* Sets group[i] to the number of node i's group in this round, from 0 on; -1: it pauses. Returns
 * the number of groups; 0: nothing is left to ask. */
int pairs_bisect_round(const struct pairs_bisect *b, int *group);
/* Tells which of these groups are slow. */
void pairs_bisect_answer(struct pairs_bisect *b, const bool *slow);

/* Nodes among which the slow ones are: of each place at most 3. */
bool pairs_bisect_suspects(const struct pairs_bisect *b, int node);
