/* cmd_logs - `drover logs JOB [RANK]`: the last lines of a job that runs, and those to come. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/opt.h"
#include "common/strbuf.h"
#include "launcher/cmd/commands.h"
#include "launcher/registry/line_log.h"
#include "launcher/registry/registry.h"

enum { LOOK_EVERY_MS = 100, ALL_RANKS = -1 };

struct logs_opts {
    int lines; /* < 0: all that are kept */
    bool follow;
};

static const struct opt options[] = {
    OPT_FLAG('f', "follow", "go on with the lines to come, until the job ends", struct logs_opts,
             follow),
    OPT_INT('n', "lines", "N", "only the last N lines of a rank", struct logs_opts, lines),
    OPT_END,
};

struct reader {
    struct line_log *ring; /* NULL: no line has come so far */
    const struct registry_job *job;
    int rank; /* ALL_RANKS: each, with its number */
    uint64_t *at;
};

/* The beginning of the last n lines. */
static const char *last_lines(const struct strbuf *b, int n)
{
    const char *text = strbuf_str(b), *p = text + b->len;
    for (; n >= 0 && p > text; p--)
        if (p[-1] == '\n' && n-- == 0)
            return p;
    return text;
}

static void print_lines(const char *text, const struct reader *r, int rank)
{
    while (*text) {
        size_t len = strcspn(text, "\n") + 1;
        if (r->rank == ALL_RANKS)
            printf("%d| ", r->job->first_rank + rank);
        fwrite(text, 1, len, stdout);
        text += len;
    }
}

/* What is new; of each rank at most `lines` lines. */
static void print_new(struct reader *r, int lines)
{
    struct err e = {0};
    if (!r->ring && line_log_open(&r->ring, r->job->lines, &e) < 0)
        return;
    int n = line_log_ranks(r->ring);
    if (!r->at)
        r->at = xcalloc((size_t)n, sizeof *r->at);
    for (int i = 0; i < n; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        if (r->rank != ALL_RANKS && r->rank != i)
            continue;
        line_log_read(r->ring, i, &r->at[i], &b);
        print_lines(last_lines(&b, lines), r, i);
    }
    fflush(stdout);
}

static int check_rank(int *rank, const char *text, const struct registry_job *j, struct err *e)
{
    int rc = opt_int(rank, "rank", text, 0, 1 << 30, e);
    int first = j->first_rank, last = j->first_rank + j->ranks - 1;
    if (rc == 0 && (*rank < first || *rank > last))
        return err_set(e, -EINVAL, "rank %d: job %s has ranks %d to %d", *rank, j->id, first, last);
    *rank -= first;
    return rc;
}

static void show(struct reader *r, const struct logs_opts *o)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, r->job->pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    print_new(r, o->lines);
    for (bool runs = o->follow; runs && !ferror(stdout);) {
        runs = fd >= 0 && registry_is_alive(r->job) && poll(&p, 1, LOOK_EVERY_MS) <= 0;
        print_new(r, -1);
    }
    line_log_close(r->ring);
    free(r->at);
}

static int find_and_show(const struct logs_opts *o, char **words, struct err *e)
{
    struct registry_list l;
    struct reader r = {.rank = ALL_RANKS};
    registry_read(&l);
    int rc = registry_find(&r.job, &l, words[0], e);
    if (rc == 0 && words[1])
        rc = check_rank(&r.rank, words[1], r.job, e);
    if (rc == 0)
        show(&r, o);
    registry_end(&l);
    return rc;
}

int cmd_logs(int argc, char **argv)
{
    struct logs_opts o = {.lines = -1};
    struct err e = {0};
    int rest = argc;
    int rc = opt_parse(options, &o, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        opt_help(stdout, "drover logs", "[-f] [-n N] JOB [RANK]",
                 "Prints the last lines of a running job's ranks, as far as they are kept (256 KiB "
                 "a rank).\nWithout RANK, of all of them, each line with its rank.",
                 options);
        return 0;
    }
    if (rc == 0 && (rest >= argc || argc - rest > 2)) {
        rc = err_set(&e, -EINVAL, rest >= argc ? "which job?" : "'%s' is one word too many",
                     argv[argc - 1]);
        err_hint(&e, "drover logs JOB [RANK]; `drover ps` lists them");
    }
    if (rc == 0)
        rc = find_and_show(&o, argv + rest, &e);
    if (rc == 0)
        return 0;
    err_print(&e, "drover logs");
    return EXIT_STATUS_USAGE;
}
