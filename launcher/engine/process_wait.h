/* process_wait - what a process waits in: its state and system call, and the file or the peer of
 * the call.
 *
 * All is that of its main thread, read from /proc. Fields that this process may not read stay
 * empty. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct process_wait {
    pid_t pid;      /* 0: no process */
    char state;     /* as in /proc/PID/stat: R S D T t Z */
    char name[32];  /* name of the program, as the kernel cuts it */
    char wchan[48]; /* kernel function in which it sleeps; "": none, or not readable */
    char call[24];  /* its system call ("futex"); "": none, or not readable */
    /* What the call waits for: "/data/x", "FIFO /x", "stdin", "stdout", "terminal", "pipe",
     * "socket", "TCP 10.0.0.1:80", "TCP 10.0.0.1:80, connecting", "nothing" (a poll of no
     * descriptor); "": unknown */
    char target[120];
};

/* Reads what a process in `state` waits in. */
void process_wait_read(struct process_wait *out, pid_t pid, char state);

/* Returns the process that holds the file lock for which a process waits, as /proc/locks has it; 0:
 * unknown, or the process waits for none. */
pid_t process_wait_lock_holder(pid_t pid);

/* Reads the beginning of /proc/PID/NAME as a string; empty if it cannot be read. */
void process_wait_proc(char *out, size_t size, pid_t pid, const char *name);
