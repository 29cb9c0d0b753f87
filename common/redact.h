/* secret - which names have values that are never shown, logged or written down. */
#ifndef DROVER_REDACT_H
#define DROVER_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* True for the name of a variable or an option (`len` bytes) whose value is a secret: TOKEN, KEY,
 * SECRET, PASSWORD, PASSWD or CREDENTIAL anywhere in it, or one of these in lower case as a word
 * of its own (--api-key is one, --tokenizer and --max-tokens are none). */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends a command line, apart by spaces, as it may be shown: the values of NAME=VALUE,
 * --name=VALUE and --name VALUE are "***" where the name is a secret's. `argv` is NULL-terminated;
 * may be NULL.
 */
void redact_command(struct strbuf *b, char *const *argv);

#endif
