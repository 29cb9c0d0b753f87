/* A process that gets an environment and calls PMIx with it. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/unit/test.h"

struct kit_rank {
    pid_t pid;
    int env_to;
};

/* Starts the process, which exits with the value of body(). To be called before there are
 * threads. */
static struct kit_rank kit_fork_rank(int (*body)(void))
{
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) {
        close(fds[0]);
        return (struct kit_rank){pid, fds[1]};
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fds[1]);
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fdopen(fds[0], "r");
    for (ssize_t n; f && (n = getline(&line, &cap, f)) > 1; line = NULL, cap = 0) {
        line[n - 1] = '\0';
        putenv(line);
    }
    _exit(body());
}

/* Sends the environment, which ends with PMIX_RANK. */
static void kit_send_env(struct kit_rank r, char *const *env, int number)
{
    for (size_t i = 0; env[i]; i++)
        dprintf(r.env_to, "%s\n", env[i]);
    dprintf(r.env_to, "PMIX_RANK=%d\n\n", number);
    close(r.env_to);
}
