/* io - one output stream of a rank: read from its pipe, kept in a file, cut into lines. */
#ifndef DROVER_RANK_OUTPUT_H
#define DROVER_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    RANK_OUTPUT_READ_BYTES = 64 << 10, /* read at once */
    RANK_OUTPUT_LINE_MAX = 64 << 10,   /* a line that is longer may come in pieces */
    RANK_OUTPUT_SILENCE_MS = 100       /* after which a line that has begun is worth showing */
};

struct rank_output;

struct rank_output_events {
    /* A line without what ended it, which is text[len]: '\n', or '\r' (a progress bar's), or '\0'
     * where nothing did: a piece of a long line, or the stream's last. Returns false to ask for a
     * pause, as rank_output_pause() does: nothing comes until rank_output_resume(). */
    bool (*line)(void *arg, const char *text, size_t len);
    /* In place of lines, where not NULL: what was read, as it came. */
    bool (*bytes)(void *arg, const char *bytes, size_t len);
    /* The line that has begun, all of it so far: nothing came for RANK_OUTPUT_SILENCE_MS, as after
     * a prompt. `line` brings it again once it is whole. NULL: nobody wants to know. */
    void (*begun)(void *arg, const char *text, size_t len);
    /* Everything has been delivered. The last event; rank_output_close() may be called from it. */
    void (*ended)(void *arg);
};

struct rank_output_source {
    int fd;      /* the pipe's read end; taken over, also on failure; -1: the bytes come by
                    rank_output_feed() */
    int file_fd; /* gets the bytes as they come; -1: none; taken over likewise */
    char *
        scratch; /* RANK_OUTPUT_READ_BYTES bytes, which may serve all streams of a loop; borrowed */
    const char *who; /* in warnings: "rank 3's stdout"; copied */
};

/* Events come from the loop. */
int rank_output_open(struct rank_output **out, uv_loop_t *loop,
                     const struct rank_output_source *from, const struct rank_output_events *ev,
                     void *arg, struct err *e);
/* Its handle closes on the loop's next turn. No event comes any more. */
void rank_output_close(struct rank_output *s);
AUTO_DEFINE(rank_output, struct rank_output *, rank_output_close)

/* Bytes of a stream that is read elsewhere. While it is paused they are held. */
void rank_output_feed(struct rank_output *s, const char *bytes, size_t len);
/* That was all. */
void rank_output_feed_end(struct rank_output *s);

void rank_output_pause(struct rank_output *s);
void rank_output_resume(struct rank_output *s);
/* Others hold the pipe open: deliver what is in it, then end without waiting for its end. Where
 * the stream is paused, that comes after rank_output_resume(). */
void rank_output_finish(struct rank_output *s);

#endif
