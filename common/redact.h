/* redact - secrets, which are never shown, logged or stored. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns true if the value of a variable or an option with this name (`len` bytes) is a secret.
 * The name contains TOKEN, KEY, SECRET, PASSW, PASSPHRASE, BEARER or CREDENTIAL, or one of these in
 * lower case as a separate word: --api-key is a secret, --tokenizer and --max-tokens are not. PASS,
 * PWD and AUTH in either case count as separate words only. The variable PWD is not a secret. */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends a text, for example the value of a variable, in which secrets are "***": the password in
 * scheme://user:PASSWORD@host, what follows "Bearer" or a header such as "Authorization:" or
 * "X-Api-Key:", and the tokens of well-known services, which their first letters tell ("hf_…"). */
void redact_text(struct strbuf *b, const char *text);

/* Returns a copy of a command line in which secrets are hidden: the values of NAME=VALUE,
 * --name=VALUE and --name VALUE if the name is a secret's, what redact_text() hides, and the words
 * after "Authorization:" and "Bearer". The caller frees it (strv_free). `argv` may be NULL. */
char **redact_argv(char *const *argv);

/* Returns the value without secrets (new reference): members with the name of a secret are "***",
 * and so is the whole value if `name` is such a name; strings are passed through redact_text().
 * Takes over `value`. `name` may be NULL. */
json_t *redact_json(const char *name, json_t *value);

/* Appends redact_argv(), separated by spaces. */
void redact_command(struct strbuf *b, char *const *argv);
