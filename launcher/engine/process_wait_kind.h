/* process_wait_kind - what it means that a process waits in a call, and the same as text. Pure. */
#pragma once

#include "common/strbuf.h"
#include "launcher/engine/process_wait.h"

enum process_wait_kind {
    PROCESS_WAIT_UNKNOWN,
    PROCESS_WAIT_RUNS,
    PROCESS_WAIT_EVENTS, /* poll, epoll, a pipe or socket between processes: for any of them */
    PROCESS_WAIT_FUTEX,  /* a lock, a condition or a thread */
    /* The rank waits for something that no other rank is known to provide */
    PROCESS_WAIT_SLEEP, /* for time, or for a signal */
    PROCESS_WAIT_CHILD,
    PROCESS_WAIT_REMOTE,  /* data of a TCP connection */
    PROCESS_WAIT_CONNECT, /* a TCP connection that is not made yet */
    PROCESS_WAIT_INPUT,   /* a FIFO, stdin, a terminal or a file */
    PROCESS_WAIT_OUTPUT,  /* the reader of a pipe or a terminal */
    PROCESS_WAIT_DISK,    /* uninterruptible */
    PROCESS_WAIT_FILE_LOCK,
    PROCESS_WAIT_STOPPED
};

enum process_wait_kind process_wait_kind(const struct process_wait *w);

/* Appends what a process waits in: "stopped", "in read of FIFO /x", "running"; with the function of
 * the kernel only if the wait is uninterruptible: "in stat (request_wait_answer)". */
void process_wait_describe(struct strbuf *b, const struct process_wait *w);
