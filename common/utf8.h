/* utf8 - text from users, which may contain any bytes: as UTF-8, as one line of a terminal, and as
 * a word of a shell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Returns the length of the character at `s` in bytes; 0 if it is not UTF-8. `s` ends with a NUL,
 * which has the length 1. */
size_t utf8_length(const char *s);

/* Returns true if the whole text is UTF-8. */
bool utf8_valid(const char *text);

/* Appends the text; each byte that is not a part of a character becomes '?'. */
void utf8_add(struct strbuf *b, const char *text);

/* Appends the text as a part of one line that a terminal shows: a control character is escaped, as
 * "\n" or "\x1b", and so is each byte that is not a part of a character. */
void utf8_add_line(struct strbuf *b, const char *text);

/* Appends the text as one word of a shell, in quotes if it has special characters. Control
 * characters are escaped as bash's $'…' takes them. */
void utf8_add_shell_word(struct strbuf *b, const char *text);
