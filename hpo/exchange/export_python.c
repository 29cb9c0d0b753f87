#include "hpo/exchange/export_python.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.h"
#include "common/own_process.h"
#include "hpo/exchange/export_lines.h"

extern char **environ;

/* Starts the module; *to is the stream that it reads. */
static int start(pid_t *pid, FILE **to, const char *format, const char *target, struct err *e)
{
    AUTO(free) char *prefix = NULL;
    int rc = own_process_dir_above(&prefix, 3, e); /* PREFIX/libexec/drover/drover-hpo */
    if (rc < 0)
        return rc;
    AUTO(free) char *script = xasprintf("%s/share/drover/drover_export.py", prefix);
    const char *python = getenv("DROVER_PYTHON") ? getenv("DROVER_PYTHON") : "python3";
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    char *argv[] = {(char *)python, script, (char *)format, (char *)target, NULL};
    rc = posix_spawnp(pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (rc != 0) {
        close(ends[1]);
        err_set(e, -rc, "--%s needs Python: %s: %s", format, python, strerror(rc));
        return err_hint(e, "apt-get install python3, or set DROVER_PYTHON");
    }
    *to = fdopen(ends[1], "w");
    if (!*to)
        abort(); /* no memory */
    return 0;
}

int export_python_write(const char *format, const char *target, const struct sweep_reader *v,
                        const struct export_params *p, struct err *e)
{
    pid_t pid = 0;
    FILE *to = NULL;
    void (*pipe_action)(int) = signal(SIGPIPE, SIG_IGN); /* the module may end early */
    int rc = start(&pid, &to, format, target, e), status = 0;
    if (rc == 0) {
        AUTO(json) json_t *header = export_lines_header(v, p);
        AUTO(free) char *line = json_line(header);
        int written = fprintf(to, "%s\n", line) < 0 ? -errno : export_lines_write(to, v->columns);
        (void)fclose(to); /* `written` has the failure */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (status != 0)
            rc = err_set(e, -ECHILD, "--%s %s: not written", format, target);
        else if (written < 0)
            rc = err_set(e, written, "--%s %s: the module has not read all trials", format, target);
    }
    (void)signal(SIGPIPE, pipe_action);
    return rc;
}
