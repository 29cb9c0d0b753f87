#include "launcher/hang/hang_lines.h"

#include <stdio.h>
#include <string.h>

static bool begins(const char *line, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

static bool contains(const char *line, size_t len, const char *word)
{
    return memmem(line, len, word, strlen(word)) != NULL;
}

/* Returns true for the lines around and between two tracebacks of one error. */
static bool is_of_traceback(const char *line, size_t len)
{
    return len == 0 || line[0] == ' ' || line[0] == '\r' ||
           begins(line, len, "Exception in thread") || begins(line, len, "During handling") ||
           begins(line, len, "The above exception");
}

void hang_lines_add(struct hang_lines *l, const char *line, size_t len)
{
    bool begin = contains(line, len, "Traceback (most recent call last)");
    bool full = contains(line, len, "No space left on device") ||
                contains(line, len, "Disk quota exceeded");
    /* A line with nothing of both is a sign of life after them, unless it belongs to a traceback */
    if (full || !is_of_traceback(line, len))
        l->disk_full = full;
    if (begin) {
        l->traceback = HANG_TRACEBACK_FRAMES;
    } else if (l->traceback != HANG_TRACEBACK_NONE && !is_of_traceback(line, len)) {
        bool ends = l->traceback == HANG_TRACEBACK_FRAMES;
        l->traceback = ends ? HANG_TRACEBACK_ENDED : HANG_TRACEBACK_NONE;
        if (ends)
            snprintf(l->error, sizeof l->error, "%.*s", (int)(len < 119 ? len : 119), line);
        l->error[strcspn(l->error, "\r")] = '\0';
    }
}
