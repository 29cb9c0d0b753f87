#include "launcher/gpu/gpu_users.h"

#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "launcher/gpu/gpu_lock.h"

void gpu_users_describe(char *out, size_t size, pid_t pid)
{
    char path[64], command[80] = "", user[40] = "";
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    struct stat st = {0};
    struct passwd entry, *pw = NULL;
    char space[1024];
    if (stat(path, &st) < 0) {
        snprintf(out, size, "process %d, which is not visible here", (int)pid);
        return;
    }
    if (getpwuid_r(st.st_uid, &entry, space, sizeof space, &pw) == 0 && pw)
        snprintf(user, sizeof user, "%s", pw->pw_name);
    else
        snprintf(user, sizeof user, "user %d", (int)st.st_uid);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    AUTO(file) FILE *f = fopen(path, "re");
    size_t n = f ? fread(command, 1, sizeof command - 1, f) : 0;
    for (size_t i = 0; i < n; i++)
        if (command[i] < ' ' || command[i] > '~') /* words end with NUL; others do not suit a log */
            command[i] = i + 1 < n ? ' ' : '\0';
    snprintf(out, size, "process %d of %s (%s)", (int)pid, user, command);
}

void gpu_users_describe_lock(char *out, size_t size, const char *uuid)
{
    char owner[160] = "another user";
    pid_t pid = gpu_lock_owner(uuid);
    if (pid > 0)
        gpu_users_describe(owner, sizeof owner, pid);
    snprintf(out, size, "the placed job of %s", owner);
}
