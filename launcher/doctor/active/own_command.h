/* own_command - runs a command of drover in a process of its own, and collects its output. */
#ifndef DROVER_OWN_COMMAND_H
#define DROVER_OWN_COMMAND_H

#include "common/err.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/hosts/hosts.h"

struct own_command {
    struct strbuf out;
    struct strbuf messages; /* stderr */
    int status;             /* exit status; 128 + N if a signal has ended it */
};
static inline void auto_own_command(struct own_command *c)
{
    strbuf_free(&c->out);
    strbuf_free(&c->messages);
}

/* Runs `drover ARGV...`, and waits for its end. `env` are variables that it gets in addition; NULL:
 * none. Returns 0, also if the command fails, or the error of its start. */
int own_command_run(struct own_command *c, char *const *argv, char *const *env, struct err *e);

/* Writes the hosts to a file without a name, for the option --hostfile=/proc/self/fd/N of a
 * command. Each host has one slot. Returns its descriptor, or a negative errno. */
int own_command_hosts(const struct hosts *hosts, struct err *e);

/* Returns drover's own message, without the program's name, or else the exit status. The caller
 * frees it. */
char *own_command_error(const struct own_command *c);

#endif
