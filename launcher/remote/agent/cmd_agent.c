/* cmd_agent - `drover agent`: the parent of an agent. Programs start it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "launcher/guardian/guardian.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/jobs/commands.h"
#include "launcher/remote/agent/agent.h"
#include "launcher/remote/agent_spawn.h"
#include "launcher/remote/remote_launcher.h"

enum {
    ROUND_MS = 10,
    GUARDIAN_ROUNDS = 600, /* 6 s: a guardian gives up after 5 s (END_LIMIT_MS) */
    ROUNDS_MAX = GUARDIAN_ROUNDS + 300
};

/* Kills what a killed agent has left: its processes have become our children. Its guardian gets
 * time to kill its descendants by itself. If it were killed here, and this process after it, no
 * process would be left to do that. */
static void kill_orphans(void)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0) /* ECHILD */
            return;
        AUTO(free) pid_t *pids = NULL;
        int n = process_tree_children(&pids);
        for (int i = 0; i < n; i++)
            if (round >= GUARDIAN_ROUNDS || !guardian_is(pids[i]))
                kill(pids[i], SIGKILL);
        poll(NULL, 0, ROUND_MS);
    }
}

static bool has_exited(pid_t agent)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        if (pid == agent)
            return true;
    return pid < 0 && errno == ECHILD;
}

/* Waits until the agent has exited. If our parent (orted, slurmstepd) dies, closes the lifeline, by
 * which the agent notices: srun would inform no process. PR_SET_PDEATHSIG would depend on the
 * thread that has forked this process. */
static void wait_for(pid_t agent, pid_t parent, int lifeline)
{
    const struct timespec interval = {.tv_sec = 1};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    while (!has_exited(agent)) {
        if (lifeline >= 0 && getppid() != parent)
            close(fd_take(&lifeline));
        sigtimedwait(&child, NULL, &interval);
    }
}

/* Reads the variables that a launcher passes through stdin, if it says so. */
static int read_env(int argc, char **argv, struct err *e)
{
    bool from_stdin = argc == 2 && strcmp(argv[1], REMOTE_AGENT_ENV_OPTION) == 0;
    int rc = from_stdin ? agent_spawn_read_env(STDIN_FILENO, e) : 0;
    if (rc < 0)
        return rc;
    if ((argc == 1 || from_stdin) && getenv(REMOTE_ENV_CONTROL) && getenv(REMOTE_ENV_TOKEN))
        return 0;
    err_set(e, -EINVAL, "not a command for users: `drover run` starts it on each node");
    return err_hint(e, "drover run -H host1,host2 ./program");
}

int cmd_agent(int argc, char **argv)
{
    static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,   SIGPIPE,
                                  SIGTSTP, SIGALRM, SIGXCPU, SIGXFSZ, SIGPROF, SIGVTALRM, SIGPWR};
    struct err e = {0};
    pid_t parent = getppid();
    if (read_env(argc, argv, &e) < 0) {
        err_print(&e, "drover agent");
        return 2;
    }
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        signal(ignored[i], SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* without it kill_orphans() finds less */
    int ends[2] = {-1, -1}; /* the lifeline; it also closes when this process dies */
    pid_t agent = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (agent == 0) {
        close(ends[1]);
        _exit(agent_main(ends[0]));
    }
    if (agent < 0) {
        log_error("fork: %s", strerror(errno));
        return 1;
    }
    close(ends[0]);
    wait_for(agent, parent, ends[1]);
    kill_orphans();
    return 0;
}
