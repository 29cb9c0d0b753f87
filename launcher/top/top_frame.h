/* top_frame - the text of `drover top`: a frame that fills a terminal, or a table for a pipe. */
#pragma once

#include "common/strbuf.h"
#include "launcher/top/top_model.h"

/* What the keys have set, and how the terminal shows it. */
struct top_state {
    bool colour;
    enum top_sort sort;
    int offset; /* rows of the body above the screen */
    bool help, quit;
    const char *message; /* the last warning; NULL: none */
};

/* Appends the lines of a screen, separated by newlines: a title, `rows` - 2 lines of the body from
 * state.offset on, which it limits to the last page, and a line with the keys. Each line has
 * exactly `columns` cells, so that nothing of an earlier frame stays. */
void top_frame(struct strbuf *out, const struct top_view *v, int columns, int rows,
               struct top_state *state);

/* Appends the body as lines of any length. */
void top_frame_table(struct strbuf *out, const struct top_view *v);

/* Applies the next key of `keys`, of which `len` bytes are left, on a terminal with `rows` rows.
 * Returns the number of its bytes: an arrow key has several. */
size_t top_frame_key(struct top_state *state, const char *keys, size_t len, int rows);
