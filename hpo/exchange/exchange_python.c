#include "hpo/exchange/exchange_python.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"
#include "common/file.h"
#include "common/json.h"
#include "common/own_process.h"

enum { ANSWER_BYTES_MAX = 1 << 30 };

static int start(struct child *c, const struct exchange_python *x, struct err *e)
{
    AUTO(free) char *prefix = NULL;
    int rc = own_process_dir_above(&prefix, 3, e); /* PREFIX/libexec/drover/drover-hpo */
    if (rc < 0)
        return rc;
    AUTO(free) char *script = xasprintf("%s/share/drover/drover_exchange.py", prefix);
    const char *python = getenv("DROVER_PYTHON") ? getenv("DROVER_PYTHON") : "python3";
    char *argv[] = {(char *)python,  script, (char *)x->way, (char *)x->format, (char *)x->place,
                    (char *)x->more, NULL};
    const struct child_opts opts = {
        .argv = argv, .in = CHILD_PIPE, .out = CHILD_PIPE, .messages = CHILD_KEEP};
    struct err why = {0};
    if (child_start(c, &opts, &why) == 0)
        return 0;
    err_set(e, why.code, "--%s needs Python: %s", x->format, why.text);
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
    struct child c;
    int written = 0, rc = start(&c, x, e);
    if (rc < 0)
        return rc;
    void (*pipe_action)(int) = signal(SIGPIPE, SIG_IGN); /* the module may end early */
    FILE *to = xchecked(fdopen(c.in, "w"));
    if (x->write)
        written = x->write(to, x->arg);
    (void)fclose(to); /* `written` has the failure */
    int read = file_read_fd(answer, c.out, ANSWER_BYTES_MAX);
    close(c.out);
    int status = child_wait(c.pid);
    (void)signal(SIGPIPE, pipe_action);
    if (status != 0 && read == 0)
        return answered(x, answer, e);
    if (written < 0 || read < 0)
        return err_set(e, read < 0 ? read : written, "--%s %s: %s", x->format, x->place,
                       strerror(read < 0 ? -read : -written));
    return 0;
}
