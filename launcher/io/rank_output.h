/* rank_output - one output stream of a rank: read from its pipe or pty, written to a file, split
 * into lines. */
#ifndef DROVER_RANK_OUTPUT_H
#define DROVER_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    RANK_OUTPUT_READ_BYTES = 64 << 10, /* size of a read */
    RANK_OUTPUT_LINE_MAX = 1 << 20,    /* a longer line is delivered in pieces */
    RANK_OUTPUT_SILENCE_MS = 100,      /* then the beginning of a line is shown */
    RANK_OUTPUT_TURN_MS = 1000         /* silence that ends a stream's turn in its group */
};

struct rank_output;

/* Streams whose lines are mixed. While one of them delivers a line in pieces, it is its turn: the
 * others hold at most RANK_OUTPUT_LINE_MAX bytes, and are then not read. The turn ends with the
 * line, or after RANK_OUTPUT_TURN_MS of silence, since its rank may wait for another one. Begins
 * zero-initialised, and must outlive its streams. */
struct rank_output_group {
    struct rank_output *turn; /* NULL: no line is delivered in pieces */
    struct rank_output *first;
};

struct rank_output_events {
    /* A line without its terminator, which is text[len]: '\n', or '\r' (of a progress bar), or
     * '\0' if there was none: a piece of a long line, or the stream's last line. Returning false
     * pauses, as rank_output_pause() does: no event follows until rank_output_resume(). */
    bool (*line)(void *arg, const char *text, size_t len);
    /* If not NULL, replaces `line`: the bytes as they were read. */
    bool (*bytes)(void *arg, const char *bytes, size_t len);
    /* The beginning of an incomplete line: nothing followed for RANK_OUTPUT_SILENCE_MS, as after a
     * prompt. `line` delivers it again when it is complete. NULL: not needed. */
    void (*begun)(void *arg, const char *text, size_t len);
    /* Called when bytes were read and before they are delivered: bytes of another stream that must
     * come first can be delivered now. May be NULL. */
    void (*before)(void *arg);
    /* The bytes that rank_output_feed() held for another stream's turn are delivered. May be NULL.
     */
    void (*turn)(void *arg);
    /* All output has been delivered. The last event; rank_output_close() may be called in it. */
    void (*ended)(void *arg);
};

struct rank_output_source {
    int fd;           /* read end of the pipe, or the pty's master; owned, also on failure; -1:
                         bytes come from rank_output_feed() */
    int file_fd;      /* file to which the bytes are written; owned, also on failure; -1: none */
    char *scratch;    /* RANK_OUTPUT_READ_BYTES bytes, shared by all streams of a loop; borrowed */
    const char *name; /* name in warnings: "rank 3's stdout"; copied */
    bool pty;         /* a read returns few bytes, so several are made at once */
    struct rank_output_group *group; /* borrowed; NULL: none */
};

/* Opens a stream. Events come from the loop. */
int rank_output_open(struct rank_output **out, uv_loop_t *loop,
                     const struct rank_output_source *from, const struct rank_output_events *ev,
                     void *arg, struct err *e);
/* Closes a stream. No event follows; its handles close in the loop's next iteration. */
void rank_output_close(struct rank_output *s);
AUTO_DEFINE(rank_output, struct rank_output *, rank_output_close)

/* Adds bytes of a stream that is read elsewhere. They are held while the stream is paused. Returns
 * false if they are held for another stream's turn: `turn` follows. */
bool rank_output_feed(struct rank_output *s, const char *bytes, size_t len);
/* Ends a stream that is read elsewhere. */
void rank_output_feed_end(struct rank_output *s);

/* Reads and delivers what was written to the pty before, without the loop. */
void rank_output_poll(struct rank_output *s);
void rank_output_pause(struct rank_output *s);
void rank_output_resume(struct rank_output *s);
/* Ends a stream whose pipe other processes keep open: delivers what the pipe contains and ends
 * without waiting for end of file. If the stream is paused, that happens after
 * rank_output_resume(). */
void rank_output_finish(struct rank_output *s);

#endif
