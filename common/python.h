/* python - which words of a command are Python. */
#pragma once

#include <stdbool.h>

/* Returns true if the program is an interpreter: python, with a version ("python3.12"), the marks
 * of a build ("python3.13t") or "-dbg". It may be a path. */
bool python_is_interpreter(const char *program);

/* Returns true for NAME.py. */
bool python_is_script(const char *file);

/* Returns true for a file of this directory that is executable and begins with "#!", so that it
 * chooses its interpreter itself. */
bool python_is_executable(const char *script);
