#include "launcher/run/run_print.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"

enum { LINES_SHOWN = 20 }; /* of a rank that is the cause */

static void print_end(struct strbuf *b, const struct rank_end *r)
{
    if (r->start_status) {
        strbuf_printf(b, "could not be started: %s\n", r->start_error);
        return;
    }
    if (r->lost) {
        strbuf_printf(b, "was lost after %.1f s: %s\n", r->seconds, r->lost_how);
        return;
    }
    if (r->aborted)
        strbuf_printf(b, "called MPI_Abort(%d)", r->status);
    else if (r->signal)
        strbuf_printf(b, "was ended by signal %d (SIG%s, %s)%s", r->signal,
                      sigabbrev_np(r->signal) ? sigabbrev_np(r->signal) : "?", strsignal(r->signal),
                      r->core_dumped ? ", core dumped" : "");
    else if (r->mpi_fault)
        strbuf_printf(b, "exited with status 0 %s", job_mpi_fault_text(r->mpi_fault));
    else
        strbuf_printf(b, "exited with status %d", r->status);
    strbuf_printf(b, " after %.1f s\n", r->seconds);
}

/* Prints the way out of a program that could not be started. */
static void print_start_hint(struct strbuf *b, const struct plan *p, const struct job_end *end)
{
    const struct plan_rank *r = &p->ranks[end->first_failed];
    const char *name = r->argv ? r->argv[0] : p->argv[0];
    if (end->first.start_status == 127)
        strbuf_printf(b, "  try: %s\n",
                      strchr(name, '/')
                          ? "check its path (from the ranks' directory) and its #! line"
                          : "give its path (./NAME), or check PATH");
    else if (end->first.start_status && access(name, F_OK) == 0 && access(name, X_OK) < 0)
        strbuf_printf(b, "  try: chmod +x %s\n", name);
}

static void print_cause(struct strbuf *b, const struct plan *p, const struct first_cause *c)
{
    const char *advice =
        c->left ? "the same number of steps on each rank (PyTorch: Join)" : c->cause.advice;
    strbuf_puts(b, "  cause: ");
    first_cause_write(b, c, p->world_size, p->first_rank);
    strbuf_putc(b, '\n');
    if (advice)
        strbuf_printf(b, "  try: %s\n", advice);
}

/* Prints where the core file is. Uses the core pattern of this node, since the nodes of a cluster
 * usually have the same one. */
static void print_core(struct strbuf *b, const struct plan *p, const struct rank_end *r)
{
    int uses_pid = 0;
    if (!r->core_dumped || r->pid <= 0)
        return;
    AUTO(free) char *pattern = file_line("/proc/sys/kernel/core_pattern");
    (void)file_scan("/proc/sys/kernel/core_uses_pid", "%d", &uses_pid); /* 0 if unknown */
    struct failure_cause_core c = {.pattern = pattern ? pattern : "",
                                   .program = plan_rank_argv(p, &p->ranks[r->rank])[0],
                                   .wdir = plan_rank_wdir(p, &p->ranks[r->rank]),
                                   .host = p->nodes[p->ranks[r->rank].node].name,
                                   .uses_pid = uses_pid == 1,
                                   .pid = r->pid,
                                   .uid = (int)getuid(),
                                   .signal = r->signal};
    AUTO(free) char *where = failure_cause_core(&c);
    strbuf_printf(b, "  core: %s\n", where);
}

static void print_rank(struct strbuf *b, const char *program, const struct plan *p, int rank)
{
    strbuf_printf(b, "%s: rank %d on %s ", program, p->first_rank + rank,
                  p->nodes[p->ranks[rank].node].name);
}

/* Prints another rank that is the cause of the first failure. */
static void print_culprit(struct strbuf *b, const char *program, const struct plan *p,
                          const struct job_end *end, const struct first_cause *c)
{
    const struct job_witness *w = &end->ranks[c->rank];
    size_t lines = 0;
    print_rank(b, program, p, c->rank);
    strbuf_puts(b, c->silent ? "failed, too, and names no other rank: it " : "failed first: it ");
    if (w->end && !w->end->told_to_stop)
        print_end(b, w->end);
    else
        strbuf_puts(b, "had printed an error, and was then stopped\n");
    while (w->lines && w->lines[lines])
        lines++;
    if (lines)
        strbuf_puts(b, "  its last lines:\n");
    for (size_t i = lines > LINES_SHOWN ? lines - LINES_SHOWN : 0; i < lines; i++)
        strbuf_printf(b, "    %s\n", w->lines[i]);
    if (w->end)
        print_core(b, p, w->end);
}

void run_print_failure(struct strbuf *b, const char *program, const struct plan *p,
                       const struct job_end *end, const struct first_cause *c)
{
    if (end->broken)
        strbuf_printf(b, "%s: the job was stopped: %s\n", program, end->broken);
    if (end->first_failed < 0)
        return;
    print_rank(b, program, p, end->first_failed);
    print_end(b, &end->first);
    if (end->last_lines && end->last_lines[0])
        strbuf_puts(b, "  its last lines:\n");
    for (const char *const *line = end->last_lines; line && *line; line++)
        strbuf_printf(b, "    %s\n", *line);
    print_core(b, p, &end->first);
    if (c->rank != end->first_failed)
        print_culprit(b, program, p, end, c);
    if (c->left || c->known)
        print_cause(b, p, c);
    else
        print_start_hint(b, p, end);
}

void run_print_error_file(const struct job_end *end)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    if (!path || !*path || !end->error)
        return;
    int rc = file_replace(path, end->error, strlen(end->error), 0);
    if (rc < 0)
        log_warn("TORCHELASTIC_ERROR_FILE '%s': %s", path, strerror(-rc));
}
