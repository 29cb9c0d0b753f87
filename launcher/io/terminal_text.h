/* terminal_text - the width of text on a terminal. */
#pragma once

#include "common/strbuf.h"

/* Appends the beginning of `text` that fits `cells` cells, with control characters escaped
 * (utf8_add_line()). A character that some terminals show in two cells counts as two: a line is
 * never wider than its count. Returns the number of cells. */
int terminal_text_add(struct strbuf *out, const char *text, int cells);

/* Returns the number of cells of the whole text. */
int terminal_text_cells(const char *text);
