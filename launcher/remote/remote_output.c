/* The output of the ranks: bytes that arrive from agents become lines, and are credited. */
#include "launcher/remote/engine_remote_internal.h"

static void send_credit(struct remote_rank *r)
{
    bool held = r->streams[0].awaits_turn || r->streams[1].awaits_turn;
    if (r->uncredited_bytes == 0 || r->node->job->output_paused || held)
        return;
    remote_tree_send(r->node,
                     json_pack("{s:s,s:i,s:I}", "t", "credit", "rank", r->rank, "bytes",
                               (json_int_t)r->uncredited_bytes),
                     NULL, 0);
    r->uncredited_bytes = 0;
}

void remote_output_feed(struct remote_rank *r, enum launch_stream from, const char *bytes,
                        size_t len)
{
    struct remote_stream *s = &r->streams[from == LAUNCH_STDOUT ? 0 : 1];
    r->uncredited_bytes += len;
    if (s->output)
        s->awaits_turn = !rank_output_feed(s->output, bytes, len);
    if (r->uncredited_bytes >= control_window(r->node->job->plan->world_size) / 4)
        send_credit(r);
}

void remote_output_end(struct remote_rank *r)
{
    for (int i = 0; i < REMOTE_STREAMS; i++)
        if (r->streams[i].output)
            rank_output_feed_end(r->streams[i].output);
}

static bool on_line(void *arg, const char *text, size_t len)
{
    struct remote_stream *s = arg;
    struct remote_job *j = s->rank->node->job;
    if (j->ev.line(j->arg, s->rank->rank, s->from, text, len))
        return true;
    j->output_paused = true;
    j->resume_from = (s->rank->rank + 1) % j->plan->world_size;
    for (int i = 0; i < j->plan->world_size; i++)
        for (int k = 0; k < REMOTE_STREAMS; k++)
            if (j->ranks[i].streams[k].output)
                rank_output_pause(j->ranks[i].streams[k].output);
    return false;
}

static void on_partial_line(void *arg, const char *text, size_t len)
{
    struct remote_stream *s = arg;
    struct remote_job *j = s->rank->node->job;
    j->ev.partial_line(j->arg, s->rank->rank, s->from, text, len);
}

static void on_turn(void *arg)
{
    struct remote_stream *s = arg;
    s->awaits_turn = false;
    send_credit(s->rank);
}

static void on_stream_ended(void *arg)
{
    struct remote_stream *s = arg;
    struct remote_rank *r = s->rank;
    struct remote_job *j = r->node->job;
    s->awaits_turn = false;
    rank_output_close(TAKE(s->output));
    if (r->streams[0].output || r->streams[1].output)
        return;
    j->ev.eof(j->arg, r->rank);
    engine_remote_check_reaped(j);
}

int remote_output_open(struct remote_stream *s, struct err *e)
{
    struct remote_job *j = s->rank->node->job;
    const struct rank_output_events ev = {.line = on_line,
                                          .partial_line =
                                              j->ev.partial_line ? on_partial_line : NULL,
                                          .turn = on_turn,
                                          .ended = on_stream_ended};
    const char *name = s->from == LAUNCH_STDOUT ? "stdout" : "stderr";
    AUTO(fd) int file = -1;
    int rc = engine_open_file(&file, j->spec, j->plan, s->rank->rank, s->from, e);
    if (rc < 0)
        return rc;
    char label[64];
    snprintf(label, sizeof label, "rank %d's %s", s->rank->rank, name);
    struct rank_output_source from = {.fd = -1,
                                      .file_fd = fd_take(&file),
                                      .scratch = j->scratch,
                                      .name = label,
                                      .group = &j->groups[s->from == LAUNCH_STDERR]};
    return rank_output_open(&s->output, j->loop, &from, &ev, s, e);
}

void remote_output_resume(struct engine_job *job)
{
    struct remote_job *j = (struct remote_job *)job;
    int first = j->resume_from;
    j->output_paused = false;
    for (int n = 0; n < j->plan->world_size && !j->output_paused; n++) {
        struct remote_rank *r = &j->ranks[(first + n) % j->plan->world_size];
        for (int k = 0; k < REMOTE_STREAMS && !j->output_paused; k++)
            if (r->streams[k].output)
                rank_output_resume(r->streams[k].output);
        send_credit(r);
    }
}
