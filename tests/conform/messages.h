/* messages - the conformance kit's part about sends, receives, groups and uneven parts. */
#ifndef DROVER_MESSAGES_H
#define DROVER_MESSAGES_H

#include "tests/conform/fixture.h"

void messages_ring(struct desk *k);
void messages_shuffled(struct desk *k);
void messages_long(struct desk *k);
void messages_group(struct desk *k);
void messages_uneven(struct desk *k);
void messages_order(struct desk *k);
void messages_refusals(struct desk *k);

#endif
