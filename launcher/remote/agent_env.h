/* agent_env - passes variables to an agent through its stdin, for a launcher whose command line
 * other users can see and which passes no environment, such as ssh.
 *
 * The text is one line per variable, "NAME=value", and an empty line. */
#pragma once

#include "common/err.h"

/* The argument by which an agent reads its variables from stdin. */
#define AGENT_ENV_OPTION "--environment-from-stdin"

/* Returns the text with the address and the token of the launcher (REMOTE_ENV_CONTROL,
 * REMOTE_ENV_TOKEN). The caller frees it. */
char *agent_env_text(const char *control, const char *token);

/* Reads such a text from `fd`, up to the empty line, and sets its variables in this process. Only
 * variables of agent_env_text() are set. Blocks until the text is complete. `fd` is then /dev/null.
 *   -EBADMSG  `fd` ends before the text does, or contains something else */
int agent_env_read(int fd, struct err *e);
