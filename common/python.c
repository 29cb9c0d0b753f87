#include "common/python.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

bool python_is_interpreter(const char *program)
{
    static const char python[] = "python";
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    if (strncmp(name, python, strlen(python)) != 0)
        return false;
    name += strlen(python);
    name += strspn(name, "0123456789.");
    name += strspn(name, "dmt"); /* a debug build, pymalloc, free-threaded */
    return !*name || strcmp(name, "-dbg") == 0;
}

bool python_is_executable(const char *script)
{
    char head[256] = "";
    AUTO(fd) int fd = open(script, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || access(script, X_OK) < 0 || read(fd, head, sizeof head - 1) < 2)
        return false;
    size_t line = strcspn(head, "\n");
    return strncmp(head, "#!", 2) == 0 && head[line - 1] != '\r'; /* the kernel keeps a '\r' */
}

bool python_is_script(const char *file)
{
    size_t len = strlen(file);
    return len > 3 && strcmp(file + len - 3, ".py") == 0;
}
