/* spec_words - hints for an unknown word if all known words are in a table. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "hpo/space/config_node.h"

/* Adds a hint to an error about `word`, the unknown value of `key`. The hint is "KEY: NAME" with
 * the nearest of the n known names, or with all names if none is near. If the node `at` has no
 * document, the hint is written as JSON. `word` may be NULL. Returns -EINVAL. */
int spec_words_hint(struct err *e, const struct config_node *at, const char *key, const char *word,
                    const char *const *names, size_t n);
