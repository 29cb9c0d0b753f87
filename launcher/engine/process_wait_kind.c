#include "launcher/engine/process_wait_kind.h"

#include <stdbool.h>
#include <string.h>

#include "common/mem.h"

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum process_wait_kind kind_of_read(const char *target)
{
    if (starts(target, "TCP "))
        return PROCESS_WAIT_REMOTE;
    if (target[0] == '/' || starts(target, "FIFO ") || strcmp(target, "stdin") == 0 ||
        strcmp(target, "terminal") == 0)
        return PROCESS_WAIT_INPUT;
    return PROCESS_WAIT_EVENTS;
}

static enum process_wait_kind kind_of_write(const char *target)
{
    return starts(target, "TCP ") ? PROCESS_WAIT_REMOTE : PROCESS_WAIT_OUTPUT;
}

enum process_wait_kind process_wait_kind(const struct process_wait *w)
{
    static const char *const reads[] = {"read", "readv", "pread64", "recvfrom", "recvmsg", NULL};
    static const char *const writes[] = {"write", "writev", "pwrite64", "sendto", "sendmsg", NULL};
    static const char *const sleeps[] = {"nanosleep", "pause", "sigwait", "sigsuspend", NULL};
    static const char *const opens[] = {"open", "openat", NULL};
    static const char *const polls[] = {"poll", "ppoll", "select", "epoll_wait", "accept", NULL};
    static const char *const children[] = {"wait4", "waitid", NULL};
    if (w->state == 'T')
        return PROCESS_WAIT_STOPPED;
    if (strcmp(w->call, "flock") == 0 || strcmp(w->call, "fcntl") == 0 ||
        starts(w->wchan, "locks_lock_inode") || starts(w->wchan, "fcntl_setlk"))
        return PROCESS_WAIT_FILE_LOCK;
    if (w->state == 'D')
        return PROCESS_WAIT_DISK;
    if (w->state == 'R' || w->pid == 0)
        return w->pid == 0 ? PROCESS_WAIT_UNKNOWN : PROCESS_WAIT_RUNS;
    if (strcmp(w->call, "connect") == 0 || strstr(w->target, ", connecting"))
        return PROCESS_WAIT_CONNECT;
    if (strv_has(reads, w->call))
        return kind_of_read(w->target);
    if (strv_has(writes, w->call))
        return kind_of_write(w->target);
    if (strv_has(opens, w->call))
        return PROCESS_WAIT_INPUT;
    if (strv_has(sleeps, w->call) || strcmp(w->target, "nothing") == 0)
        return PROCESS_WAIT_SLEEP;
    if (strv_has(children, w->call) || starts(w->wchan, "do_wait"))
        return PROCESS_WAIT_CHILD;
    if (strcmp(w->call, "futex") == 0 || starts(w->wchan, "futex_"))
        return PROCESS_WAIT_FUTEX;
    if (strv_has(polls, w->call))
        return starts(w->target, "TCP ") ? PROCESS_WAIT_REMOTE : PROCESS_WAIT_EVENTS;
    return PROCESS_WAIT_UNKNOWN;
}

void process_wait_describe(struct strbuf *b, const struct process_wait *w)
{
    if (w->pid == 0)
        strbuf_puts(b, "not visible");
    else if (w->state == 'T')
        strbuf_puts(b, "stopped");
    else if (w->state == 't')
        strbuf_puts(b, "held by a debugger");
    else if (w->state == 'Z')
        strbuf_puts(b, "exited");
    else if (w->state == 'R' || (!w->call[0] && !w->wchan[0]))
        strbuf_puts(b, w->state == 'R' ? "running" : "asleep");
    else if (!w->call[0] || !w->wchan[0] || w->state != 'D')
        strbuf_printf(b, "in %s", w->call[0] ? w->call : w->wchan);
    else
        strbuf_printf(b, "in %s (%s)", w->call, w->wchan);
    if (w->target[0] && w->state != 'T' && w->state != 'R')
        strbuf_printf(b, " of %s", w->target);
}
