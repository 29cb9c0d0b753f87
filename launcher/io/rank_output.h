/* rank_output - one output stream of a rank: reads it from its pipe or pty, writes it to a file,
 * and splits it into lines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    RANK_OUTPUT_READ_BYTES = 64 << 10, /* size of a read */
    RANK_OUTPUT_LINE_MAX = 1 << 20,    /* a longer line is delivered in pieces */
    RANK_OUTPUT_SILENCE_MS = 100,      /* silence after which the beginning of a line is shown */
    RANK_OUTPUT_TURN_MS = 1000         /* silence that ends a stream's turn in its group */
};

struct rank_output;

/* A group of streams whose lines are mixed. While one stream delivers a line in pieces, it has the
 * turn. Each other stream then holds up to RANK_OUTPUT_LINE_MAX bytes, and is not read further. The
 * turn ends with the line, or after RANK_OUTPUT_TURN_MS of silence, since the rank may wait for
 * another rank. A group is zero-initialised and must outlive its streams. */
struct rank_output_group {
    struct rank_output *turn; /* NULL: no line is delivered in pieces */
    struct rank_output *first;
    uint64_t delivered_ms; /* time of the loop at which a stream got bytes */
};

struct rank_output_events {
    /* A line without its terminator, which is text[len]. The terminator is '\n', or '\r' as a
     * progress bar writes it. It is '\0' for a piece of a long line, and for a last line without a
     * terminator. If the callee returns false, the stream pauses as with rank_output_pause(): no
     * event follows until rank_output_resume(). */
    bool (*line)(void *arg, const char *text, size_t len);
    /* If not NULL, this is called instead of `line`, with the bytes as they were read. */
    bool (*bytes)(void *arg, const char *bytes, size_t len);
    /* The beginning of an incomplete line, after which nothing followed for RANK_OUTPUT_SILENCE_MS,
     * such as a prompt. While other streams of the group write, it is delivered up to
     * RANK_OUTPUT_TURN_MS later: their lines would tear it. `line` delivers the whole line when it
     * is complete. May be NULL. */
    void (*partial_line)(void *arg, const char *text, size_t len);
    /* Called when bytes were read, before they are delivered. The callee may now deliver bytes of
     * another stream that must precede these. May be NULL. */
    void (*before)(void *arg);
    /* All bytes that rank_output_feed() held because of another stream's turn are delivered now.
     * May be NULL. */
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
    bool pty;         /* `fd` is a pty; a read returns few bytes, so several reads are made */
    struct rank_output_group *group; /* borrowed; NULL: none */
};

/* Opens a stream. Events come from the loop. */
int rank_output_open(struct rank_output **out, uv_loop_t *loop,
                     const struct rank_output_source *from, const struct rank_output_events *ev,
                     void *arg, struct err *e);
/* Closes a stream. No event follows; its handles close in the loop's next iteration. */
void rank_output_close(struct rank_output *s);
AUTO_DEFINE(rank_output, struct rank_output *, rank_output_close)

/* Adds bytes to a stream without a pipe. The bytes are held while the stream is paused. Returns
 * false if they are held because of another stream's turn; the event `turn` then follows. */
bool rank_output_feed(struct rank_output *s, const char *bytes, size_t len);
/* Ends a stream without a pipe. */
void rank_output_feed_end(struct rank_output *s);

/* Reads and delivers the bytes that are in the pty now, without waiting for the loop. */
void rank_output_poll(struct rank_output *s);
void rank_output_pause(struct rank_output *s);
void rank_output_resume(struct rank_output *s);
/* Ends a stream whose pipe other processes keep open: delivers what the pipe contains and ends
 * without waiting for end of file. If the stream is paused, that happens after
 * rank_output_resume(). */
void rank_output_finish(struct rank_output *s);
