#include "common/python.h"

#include <string.h>

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

bool python_is_script(const char *file)
{
    size_t len = strlen(file);
    return len > 3 && strcmp(file + len - 3, ".py") == 0;
}
