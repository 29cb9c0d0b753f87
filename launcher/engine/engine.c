#include "launcher/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"

void engine_free(struct engine_job *j)
{
    if (j)
        j->ops->free(j);
}

void engine_signal(struct engine_job *j, int rank, int sig)
{
    j->ops->signal(j, rank, sig);
}

bool engine_request_stop(struct engine_job *j)
{
    return j->ops->request_stop(j);
}

void engine_resume(struct engine_job *j)
{
    j->ops->resume(j);
}

void engine_finish_output(struct engine_job *j, int rank)
{
    j->ops->finish_output(j, rank);
}

void engine_last_collective(const struct engine_job *j, int rank, struct collective_position *out)
{
    *out = (struct collective_position){0};
    if (j->ops->last_collective)
        j->ops->last_collective(j, rank, out);
}

void engine_request_status(struct engine_job *j)
{
    j->ops->request_status(j);
}

void engine_request_stack(struct engine_job *j, int rank)
{
    if (j->ops->request_stack)
        j->ops->request_stack(j, rank);
}

void engine_kill_tree(struct engine_job *j)
{
    j->ops->kill_tree(j);
}

static int make_dirs(char *path, struct err *e)
{
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return err_set(e, -errno, "directory '%s': %s", path, strerror(errno));
        *p = was;
        if (!was)
            return 0;
    }
}

int engine_open_file(int *fd, const char *dir, int rank, const char *stream, struct err *e)
{
    if (!dir)
        return 0;
    AUTO(free) char *path = xasprintf("%s/rank.%d", dir, rank);
    if (make_dirs(path, e) < 0)
        return err_wrap(e, "output files");
    AUTO(free) char *file = xasprintf("%s/%s", path, stream);
    *fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *fd < 0 ? err_set(e, -errno, "output file '%s': %s", file, strerror(errno)) : 0;
}
