/* stop_signals - the signals that ask this process to stop (INT, TERM, HUP, QUIT), and which of
 * them repeat an earlier request.
 *
 * timeout(1), batch systems and a terminal that closes signal a process and then its process group,
 * so that one request arrives twice within milliseconds. A second request ends what is saving its
 * state, so a signal counts as one only some time after the first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum {
    STOP_SIGNALS = 4,
    STOP_SIGNALS_REPEAT_MS = 1000, /* until then a signal repeats the request before it */
    STOP_SIGNALS_KEY_MS = 100      /* the same for a key: people press it twice in 150 to 500 ms */
};

/* Returns whether a signal is a request of its own. `since_ms` is the time since the request before
 * it; negative: it is the first. `foreground`: a key of the terminal may have sent it. Pure. */
bool stop_signals_count(int sig, int64_t since_ms, bool foreground);

struct stop_signals {
    uv_signal_t handles[STOP_SIGNALS];
    int64_t last_ms; /* when the last request arrived; -1: none has */
    void (*on_request)(void *arg, int sig, bool again);
    void *arg;
};

/* Calls `on_request` for each request; `again`: not the first. A signal that this process's parent
 * has set to be ignored (nohup, a shell's background job) stays ignored. */
void stop_signals_open(struct stop_signals *s, uv_loop_t *loop,
                       void (*on_request)(void *arg, int sig, bool again), void *arg);
/* The handles close in the loop's next iteration; `s` must exist until then. */
void stop_signals_close(struct stop_signals *s);

/* Returns whether the user can press Ctrl-C to stop this process, and sees its messages. */
bool stop_signals_from_keys(void);
