#include "launcher/gpu/gpu.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/gpu/gpu_lock.h"
#include "launcher/gpu/gpu_sampler.h"

int gpu_bus_id(char *out, unsigned size, const char *text)
{
    unsigned domain = 0, bus, device, function;
    int end = -1;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 ||
        end < 0 || text[end]) {
        domain = 0;
        end = -1;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3 || end < 0 ||
            text[end])
            return -EINVAL;
    }
    snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return 0;
}

int gpu_count_nvlinks(struct gpu *g, const char *to, int links)
{
    for (int i = 0; i < GPU_NVLINK_PEERS_MAX; i++) {
        struct gpu_nvlinks *l = &g->nvlinks[i];
        if (l->to[0] && strcmp(l->to, to) != 0)
            continue;
        snprintf(l->to, sizeof l->to, "%s", to);
        l->count += links;
        return 0;
    }
    return -ENOSPC;
}

int gpu_list(struct gpu **out, int *count, int deadline_ms, struct err *e)
{
    AUTO(free) struct gpu_sample *found = NULL;
    int n = 0, rc = gpu_sampler_once(&found, &n, GPU_LIST, deadline_ms, e);
    *count = n;
    *out = n ? xcalloc((size_t)n, sizeof **out) : NULL;
    for (int i = 0; i < n; i++)
        (*out)[i] = found[i].gpu;
    return rc;
}

int gpu_add_nvlinks(struct gpu *gpus, int count, int deadline_ms, struct err *e)
{
    AUTO(free) struct gpu_sample *found = NULL;
    int n = 0, rc = count ? gpu_sampler_once(&found, &n, GPU_LINKS, deadline_ms, e) : 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < count; k++)
            if (gpus[k].index == found[i].gpu.index)
                memcpy(gpus[k].nvlinks, found[i].gpu.nvlinks, sizeof gpus[k].nvlinks);
    return rc;
}

/* ---- users ---------------------------------------------------------------------------------- */

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
    snprintf(out, size, "the placed job of %s",
             pid == GPU_LOCK_OF_CONTAINER ? "another container" : owner);
}
