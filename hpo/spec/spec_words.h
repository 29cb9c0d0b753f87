/* spec_words - hints for unknown words of which a table of rows has all known ones. */
#ifndef DROVER_SPEC_WORDS_H
#define DROVER_SPEC_WORDS_H

#include <stddef.h>

#include "common/err.h"
#include "hpo/space/config_node.h"

/* Adds the hint "KEY: WORD" to an error about `word`, the value of `key` at the node: the nearest
 * of the n known names, or a list of all if none is near. Without a document the hint is JSON.
 * `word` may be NULL. Returns -EINVAL. */
int spec_words_hint(struct err *e, const struct config_node *at, const char *key, const char *word,
                    const char *const *names, size_t n);

#endif
