/* serve_sweep_file - a sweep's file as other people may see it: without its secrets. Pure. */
#pragma once

/* Returns the text of a sweep file in which secrets are "***": what stands under the name of one
 * (redact_is_secret_name()), the words of the command that redact_argv() hides, and those of
 * redact_text(). If the file writes a secret in another way than it is read (escapes, several
 * lines), returns a comment that says so instead. The caller frees the text. */
char *serve_sweep_file(const char *text);
