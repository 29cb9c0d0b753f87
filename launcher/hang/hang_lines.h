/* hang_lines - what the last lines of a rank say about why it may hang. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum hang_traceback { HANG_TRACEBACK_NONE, HANG_TRACEBACK_FRAMES, HANG_TRACEBACK_ENDED };

struct hang_lines {
    enum hang_traceback traceback; /* its last lines are a Python traceback … */
    char error[120];               /* … which ends so: "ValueError: bad" */
    bool disk_full;                /* its last lines say that no space is left */
};

/* Adds a line, without its newline. */
void hang_lines_add(struct hang_lines *l, const char *line, size_t len);
