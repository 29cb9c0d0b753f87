/* redact - secrets: names whose values are never shown, logged or stored. */
#ifndef DROVER_REDACT_H
#define DROVER_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns true if the value of a variable or an option with this name (`len` bytes) is a secret:
 * the name contains TOKEN, KEY, SECRET, PASSWORD, PASSWD or CREDENTIAL, or one of these in lower
 * case as a separate word (--api-key is one, --tokenizer and --max-tokens are not). */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends a command line, separated by spaces, in which secrets are hidden: the values of
 * NAME=VALUE, --name=VALUE and --name VALUE are "***" if the name is that of a secret. `argv` is
 * NULL-terminated; may be NULL. */
void redact_command(struct strbuf *b, char *const *argv);

#endif
