/* redact - secrets, which are never shown, logged or stored. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns true if the value of a variable or an option with this name (`len` bytes) is a secret.
 * The name contains TOKEN, KEY, SECRET, PASSW or CREDENTIAL, or one of these in lower case as a
 * separate word: --api-key is a secret, --tokenizer and --max-tokens are not. PASS, PWD and AUTH in
 * either case count as separate words only. The variable PWD is not a secret. */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends a text, for example the value of a variable, in which secrets are "***": the password in
 * scheme://user:PASSWORD@host, and what follows "Authorization:" or "Bearer". */
void redact_text(struct strbuf *b, const char *text);

/* Returns a copy of a command line in which secrets are hidden: the values of NAME=VALUE,
 * --name=VALUE and --name VALUE if the name is that of a secret, and those of redact_text(). The
 * caller frees it (strv_free). `argv` may be NULL. */
char **redact_argv(char *const *argv);

/* Appends redact_argv(), separated by spaces. */
void redact_command(struct strbuf *b, char *const *argv);
