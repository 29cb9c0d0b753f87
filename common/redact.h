/* redact - secrets, which are never shown, logged or stored. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns true if the value of a variable or an option with this name (`len` bytes) is a secret.
 * The name contains PASSW, SECRET, CREDENTIAL or the like in any case; TOKEN, KEY or BEARER in
 * capitals; or one of token, key, auth, pass, pwd, cred as a word, which ends where a capital
 * begins: --api-key and accessToken are secrets, --tokenizer and --max-tokens are not. The variable
 * PWD is not a secret. Numbers and truth values are shown under any name (key_dim=64). */
bool redact_is_secret_name(const char *name, size_t len);

/* Appends the value of a variable or option with this name: "***", or what redact_text() shows. */
void redact_value(struct strbuf *b, const char *name, size_t len, const char *value);

/* Appends a text, for example an error, in which secrets are "***": the password in
 * scheme://user:PASSWORD@host and "-u user:PASSWORD", what follows "Bearer" or a header such as
 * "Authorization:" or "X-Api-Key:", the values of "--token VALUE", "?token=VALUE", "Password=VALUE"
 * and "'password': 'VALUE'", and the tokens of well-known services, which their first letters tell
 * ("hf_…"). */
void redact_text(struct strbuf *b, const char *text);

/* Returns a copy of a command line in which secrets are hidden: the values of NAME=VALUE,
 * --name=VALUE and --name VALUE if the name is a secret's, what redact_text() hides, and the words
 * after "Authorization:" and "Bearer". The caller frees it (strv_free). `argv` may be NULL. */
char **redact_argv(char *const *argv);

/* Returns the value without secrets (new reference): strings are "***" below a member with the name
 * of a secret, and everywhere if `name` is such a name; other strings are passed through
 * redact_text(). Takes over `value`. `name` may be NULL. */
json_t *redact_json(const char *name, json_t *value);

/* Appends redact_argv(), separated by spaces. */
void redact_command(struct strbuf *b, char *const *argv);
