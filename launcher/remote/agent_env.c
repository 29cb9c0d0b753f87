#include "launcher/remote/agent_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/remote/remote_launcher.h"

enum { LINE_BYTES_MAX = 65536 };

char *agent_env_text(const char *control, const char *token)
{
    return xasprintf("%s=%s\n%s=%s\n\n", REMOTE_ENV_CONTROL, control, REMOTE_ENV_TOKEN, token);
}

/* Returns false if `line` is none of the variables. */
static bool set_variable(char *line)
{
    static const char *const names[] = {REMOTE_ENV_CONTROL, REMOTE_ENV_TOKEN};
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    equals[1 + strcspn(equals + 1, "\n")] = '\0';
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(line, names[i]) == 0)
            return setenv(line, equals + 1, 1) == 0;
    return false;
}

int agent_env_read(int fd, struct err *e)
{
    AUTO(file) FILE *f = fdopen(dup(fd), "r");
    AUTO(free) char *line = xcalloc(LINE_BYTES_MAX, 1);
    bool known = false, complete = false;
    do {
        complete = f && fgets(line, LINE_BYTES_MAX, f) && strcmp(line, "\n") == 0;
    } while (!complete && (known = set_variable(line)));
    if (!known || !complete) {
        err_set(e, -EBADMSG, "the launcher's address and token did not arrive on stdin");
        return err_hint(e, "look for a command that reads stdin in the start-up files of the login "
                           "shell, such as ~/.bashrc");
    }
    AUTO(fd) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, fd) < 0)
        return err_set(e, -errno, "/dev/null: %s", strerror(errno));
    return 0;
}
