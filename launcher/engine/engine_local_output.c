/* engine_local_output - the output streams of the ranks on this node. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "launcher/engine/engine_local_internal.h"
#include "launcher/io/pty.h"

static const char *stream_name(const struct stream *s)
{
    return s->from == LAUNCH_STDOUT ? "stdout" : "stderr";
}

static void pause_all(struct local_job *j, int after_rank)
{
    j->paused = true;
    j->resume_from = (after_rank + 1) % j->count;
    for (int i = 0; i < j->count; i++)
        for (int k = 0; k < ENGINE_LOCAL_STREAMS; k++)
            if (j->ranks[i].streams[k].io)
                rank_output_pause(j->ranks[i].streams[k].io);
}

void engine_local_resume(struct engine_job *job)
{
    struct local_job *j = (struct local_job *)job;
    j->paused = false;
    int first = j->resume_from;
    for (int n = 0; n < j->count; n++) {
        struct engine_rank *r = &j->ranks[(first + n) % j->count];
        for (int k = 0; k < ENGINE_LOCAL_STREAMS && !j->paused; k++)
            if (r->streams[k].io)
                rank_output_resume(r->streams[k].io);
    }
}

static bool on_bytes(void *arg, const char *bytes, size_t len)
{
    struct stream *s = arg;
    struct local_job *j = s->job;
    if (j->ev.bytes(j->arg, s->rank, s->from, bytes, len))
        return true;
    struct engine_rank *r = &j->ranks[s->rank];
    r->paused = true;
    for (int k = 0; k < ENGINE_LOCAL_STREAMS; k++)
        if (r->streams[k].io)
            rank_output_pause(r->streams[k].io);
    return false;
}

void engine_local_resume_rank(struct engine_job *job, int rank)
{
    struct engine_rank *r = &((struct local_job *)job)->ranks[rank];
    r->paused = false;
    for (int k = 0; k < ENGINE_LOCAL_STREAMS && !r->paused; k++)
        if (r->streams[k].io)
            rank_output_resume(r->streams[k].io);
}

static bool on_line(void *arg, const char *text, size_t len)
{
    struct stream *s = arg;
    struct local_job *j = s->job;
    if (j->ev.line(j->arg, s->rank, s->from, text, len))
        return true;
    pause_all(j, s->rank);
    return false;
}

static void on_partial_line(void *arg, const char *text, size_t len)
{
    struct stream *s = arg;
    s->job->ev.partial_line(s->job->arg, s->rank, s->from, text, len);
}

/* Reads the rank's stdout before its stderr is read. A pty delivers later than a pipe, so lines of
 * stderr would otherwise overtake earlier lines of stdout. */
static void poll_stdout(void *arg)
{
    const struct stream *s = arg;
    struct rank_output *out = s->job->ranks[s->rank].streams[0].io;
    if (out)
        rank_output_poll(out);
}

static void on_stream_ended(void *arg)
{
    struct stream *s = arg;
    struct local_job *j = s->job;
    const struct engine_rank *r = &j->ranks[s->rank];
    rank_output_close(TAKE(s->io));
    if (j->ev.eof && !r->streams[0].io && !r->streams[1].io)
        j->ev.eof(j->arg, s->rank);
}

void engine_local_finish_output(struct engine_job *job, int rank)
{
    struct local_job *j = (struct local_job *)job;
    for (int k = 0; k < ENGINE_LOCAL_STREAMS; k++)
        if (j->ranks[rank].streams[k].io)
            rank_output_finish(j->ranks[rank].streams[k].io);
}

int engine_local_open_files(struct local_job *j, const struct launch_spec *spec,
                            const struct plan *p, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < j->count; i++)
        for (int k = 0; k < ENGINE_LOCAL_STREAMS; k++) {
            struct stream *s = &j->ranks[i].streams[k];
            *s = (struct stream){j, i, k == 0 ? LAUNCH_STDOUT : LAUNCH_STDERR, -1, NULL};
            if (rc == 0)
                rc = engine_open_file(&s->file, spec, p, i, s->from, e);
        }
    return rc;
}

/* Opens a pty for a rank's stdout. Returns false if no pty can be opened; stdout is then a pipe.
 * stderr is always a pipe, since no C library buffers stderr. */
static bool open_pty(int fds[2], struct engine *en)
{
    int rc = pty_open(&fds[0], &fds[1]);
    if (rc < 0 && !en->pty_warned)
        log_warn("stdout of the ranks is a pipe: cannot open a pty: %s; C and Fortran programs may "
                 "print late",
                 strerror(-rc));
    en->pty_warned |= rc < 0;
    return rc == 0;
}

int engine_local_open_stream(struct stream *s, bool with_pty, int *write_end, struct err *e)
{
    bool polls_stdout = with_pty && s->from == LAUNCH_STDERR;
    const struct rank_output_events ev = {.line = on_line,
                                          .partial_line =
                                              s->job->ev.partial_line ? on_partial_line : NULL,
                                          .bytes = s->job->ev.bytes ? on_bytes : NULL,
                                          .before = polls_stdout ? poll_stdout : NULL,
                                          .ended = on_stream_ended};
    struct engine *en = s->job->engine;
    int fds[2];
    bool pty = with_pty && s->from == LAUNCH_STDOUT && open_pty(fds, en);
    if (!pty && pipe2(fds, O_CLOEXEC) < 0)
        return err_set(e, -errno, "rank %d's %s: %s", s->rank, stream_name(s), strerror(errno));
    *write_end = fds[1];
    char name[64];
    snprintf(name, sizeof name, "rank %d's %s", s->rank, stream_name(s));
    struct rank_output_source from = {.fd = fds[0],
                                      .file_fd = fd_take(&s->file),
                                      .scratch = en->scratch,
                                      .name = name,
                                      .pty = pty,
                                      .group = &s->job->groups[s->from == LAUNCH_STDERR]};
    return rank_output_open(&s->io, en->loop, &from, &ev, s, e);
}
