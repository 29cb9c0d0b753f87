#include "launcher/node/oom_kills.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

int oom_kills_open(const char *dir)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"}; /* versions 2, 1 */
    int fd = -1;
    for (size_t i = 0; dir && fd < 0 && i < COUNT_OF(names); i++) {
        AUTO(free) char *file = xasprintf("%s/%s", dir, names[i]);
        fd = open(file, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

long oom_kills_count(int counter)
{
    char text[4096] = "\n"; /* lines "name number" */
    ssize_t n = pread(counter, text + 1, sizeof text - 2, 0);
    long count = -1;
    const char *line = n > 0 ? strstr(text, "\noom_kill ") : NULL;
    if (line)
        sscanf(line, " oom_kill %ld", &count);
    return count;
}
