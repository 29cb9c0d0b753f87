/* redact - secrets: names whose values are never shown, logged or stored. */
#ifndef DROVER_REDACT_H
#define DROVER_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns true if the value of a variable or an option with this name (`len` bytes) is a secret:
 * the name contains TOKEN, KEY, SECRET, PASSWORD, PASSWD or CREDENTIAL, or one of these in lower
 * case as a separate word (--api-key has a secret value, --tokenizer and --max-tokens do not). */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends the words of a command line, separated by spaces. Secrets are hidden: in NAME=VALUE,
 * --name=VALUE and --name VALUE, the value becomes "***" if redact_is_secret_name() is true for the
 * name. `argv` is NULL-terminated and may be NULL. */
void redact_command(struct strbuf *b, char *const *argv);

#endif
