#include "launcher/remote/agent_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/remote/remote_launcher.h"

enum { TEXT_BYTES_MAX = 65536 };

char *agent_env_text(const char *control, const char *token)
{
    return xasprintf("%s=%s\n%s=%s\n\n", REMOTE_ENV_CONTROL, control, REMOTE_ENV_TOKEN, token);
}

/* Reads up to the empty line, and removes this line. Returns false if there is none. */
static bool read_text(char *text, int fd)
{
    size_t len = 0;
    while (len < TEXT_BYTES_MAX - 1) {
        ssize_t n = read(fd, text + len, TEXT_BYTES_MAX - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        len += (size_t)n;
        text[len] = '\0';
        char *end = strstr(text, "\n\n");
        if (end) {
            *end = '\0';
            return true;
        }
    }
    return false;
}

static bool set_variable(char *line)
{
    static const char *const names[] = {REMOTE_ENV_CONTROL, REMOTE_ENV_TOKEN};
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(line, names[i]) == 0)
            return setenv(line, equals + 1, 1) == 0;
    return false;
}

int agent_env_read(int fd, struct err *e)
{
    AUTO(free) char *text = xrealloc(NULL, TEXT_BYTES_MAX, 1);
    bool known = read_text(text, fd);
    for (char *rest = text, *line; known && (line = strsep(&rest, "\n"));)
        known = set_variable(line);
    if (!known) {
        err_set(e, -EBADMSG, "the launcher's address and token did not arrive on stdin");
        return err_hint(e, "look for a command that reads stdin in the start-up files of the login "
                           "shell, such as ~/.bashrc");
    }
    AUTO(fd) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, fd) < 0)
        return err_set(e, -errno, "/dev/null: %s", strerror(errno));
    return 0;
}
