#include "hpo/exchange/exchange_python.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/json.h"
#include "common/own_process.h"

enum { ANSWER_BYTES_MAX = 1 << 30 };

extern char **environ;

/* Starts the module; *in and *out are drover's ends of its stdin and stdout. */
static int start(pid_t *pid, int *in, int *out, const struct exchange_python *x, struct err *e)
{
    AUTO(free) char *prefix = NULL;
    int rc = own_process_dir_above(&prefix, 3, e); /* PREFIX/libexec/drover/drover-hpo */
    if (rc < 0)
        return rc;
    AUTO(free) char *script = xasprintf("%s/share/drover/drover_exchange.py", prefix);
    const char *python = getenv("DROVER_PYTHON") ? getenv("DROVER_PYTHON") : "python3";
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        return err_set(e, -errno, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    char *argv[] = {(char *)python,  script, (char *)x->way, (char *)x->format, (char *)x->place,
                    (char *)x->more, NULL};
    rc = posix_spawnp(pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    *in = to[1];
    *out = from[0];
    if (rc == 0)
        return 0;
    close(*in);
    close(*out);
    err_set(e, -rc, "--%s needs Python: %s: %s", x->format, python, strerror(rc));
    return err_hint(e, "apt-get install python3, or set DROVER_PYTHON");
}

/* The error that the last line of the answer describes. */
static int answered(const struct exchange_python *x, const struct strbuf *answer, struct err *e)
{
    const char *text = strbuf_str(answer);
    size_t len = answer->len > 0 ? answer->len - 1 : 0; /* without the last newline */
    const char *newline = memrchr(text, '\n', len), *line = newline ? newline + 1 : text;
    AUTO(json) json_t *o = json_loads(line, 0, NULL);
    const char *why = json_string_value(json_object_get(o, "error"));
    const char *hint = json_string_value(json_object_get(o, "hint"));
    if (!why)
        return err_set(e, -ECHILD, "--%s %s: Python failed", x->format, x->place);
    int code = json_integer_value(json_object_get(o, "status")) == 1 ? -EIO : -EINVAL;
    err_set(e, code, "--%s %s", x->format, why);
    return hint ? err_hint(e, "%s", hint) : code;
}

int exchange_python_run(struct strbuf *answer, const struct exchange_python *x, struct err *e)
{
    pid_t pid = 0;
    int in = -1, out = -1, status = 0, written = 0;
    int rc = start(&pid, &in, &out, x, e);
    if (rc < 0)
        return rc;
    void (*pipe_action)(int) = signal(SIGPIPE, SIG_IGN); /* the module may end early */
    FILE *to = fdopen(in, "w");
    if (!to)
        abort(); /* no memory */
    if (x->write)
        written = x->write(to, x->arg);
    (void)fclose(to); /* `written` has the failure */
    int read = file_read_fd(answer, out, ANSWER_BYTES_MAX);
    close(out);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)signal(SIGPIPE, pipe_action);
    if (status != 0 && read == 0)
        return answered(x, answer, e);
    if (written < 0 || read < 0)
        return err_set(e, read < 0 ? read : written, "--%s %s: %s", x->format, x->place,
                       strerror(read < 0 ? -read : -written));
    return 0;
}
