/* messages - checks of sends, receives, groups, uneven parts and invalid calls. */
#pragma once

#include "tests/conform/fixture.h"

void messages_ring(struct fixture *k);
void messages_shuffled(struct fixture *k);
void messages_long(struct fixture *k);
void messages_group(struct fixture *k);
void messages_uneven(struct fixture *k);
void messages_order(struct fixture *k);
void messages_largest_means(struct fixture *k);
void messages_refusals(struct fixture *k);
