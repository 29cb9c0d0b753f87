/* drover-rank - `drover rank`: the parent of an agent (agent.h).
 *
 * A program of its own, linked statically where the machine that builds it has its libraries so:
 * a node starts one for each rank, and half of what a start of `drover` costs is the dynamic
 * linker's, whose search path mpirun lengthens. It also runs whatever libraries the node has. */
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
#include "common/own_process.h"
#include "launcher/cmd/commands.h"
#include "launcher/guardian/guardian.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/remote_launcher.h"

enum {
    ROUND_MS = 10,
    GUARDIAN_ROUNDS = 600, /* a guardian gives up after 5 s (END_LIMIT_MS) */
    ROUNDS_MAX = GUARDIAN_ROUNDS + 300
};

/* What the agent left when it was killed came to us. Its guardian ends what descends from it by
 * itself, and has time to: were it killed here, and then we, nobody would be left to do that. */
static void end_orphans(void)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        pid_t ended;
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (ended < 0) /* ECHILD */
            return;
        AUTO(free) pid_t *pids = NULL;
        int n = process_tree_children(&pids);
        for (int i = 0; i < n; i++)
            if (round >= GUARDIAN_ROUNDS || !guardian_is(pids[i]))
                kill(pids[i], SIGKILL);
        poll(NULL, 0, ROUND_MS);
    }
}

static bool has_ended(pid_t agent)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        if (pid == agent)
            return true;
    return pid < 0 && errno == ECHILD;
}

/* Until the agent has ended. When who started us (orted, slurmstepd) has, the lifeline is closed,
 * which tells the agent: srun would not tell anybody. PR_SET_PDEATHSIG would ask for the end of the
 * thread that has forked us. */
static void wait_for(pid_t agent, pid_t parent, int lifeline)
{
    const struct timespec look_again = {.tv_sec = 1};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    while (!has_ended(agent)) {
        if (lifeline >= 0 && getppid() != parent)
            close(fd_take(&lifeline));
        sigtimedwait(&child, NULL, &look_again);
    }
}

int main(int argc, char **argv)
{
    static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGPIPE, SIGTSTP, SIGALRM, SIGXCPU};
    struct err e = {0};
    pid_t parent = getppid();
    own_process_ensure_std_fds();
    log_open("drover rank");
    if (!getenv(REMOTE_ENV_CONTROL) || !getenv(REMOTE_ENV_TOKEN)) {
        err_set(&e, -EINVAL, "this is started by `drover run`, through mpirun or srun");
        err_hint(&e, "drover run -H host1,host2 ./program");
        err_print(&e, "drover rank");
        return EXIT_STATUS_USAGE;
    }
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        signal(ignored[i], SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* without it only end_orphans() has less to do */
    int ends[2] = {-1, -1}; /* a lifeline: the agent sees it close when this process ends, too */
    pid_t agent = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (agent == 0) {
        close(ends[1]);
        _exit(agent_main(ends[0]));
    }
    if (agent < 0) {
        log_error("fork: %s", strerror(errno));
        return EXIT_STATUS_FAILED;
    }
    close(ends[0]);
    wait_for(agent, parent, ends[1]);
    end_orphans();
    return 0;
}
