/* cmd_logs - `drover logs JOB [RANK]`: the last lines of a running job, and its further output; or
 * those that the log of its run has kept. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/command.h"
#include "common/strbuf.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/line_log.h"
#include "launcher/jobs/registry.h"
#include "launcher/jobs/run_store.h"

enum { POLL_MS = 100, ALL_RANKS = -1, NONE = -1 };

struct logs_opts {
    int lines; /* lines per rank; < 0: all that are kept */
    bool follow;
};

static const struct opt options[] = {
    OPT_FLAG('f', "follow", "follow the output until the job ends", struct logs_opts, follow),
    OPT_INT('n', "lines", "N", "only the last N lines per rank", struct logs_opts, lines, 0,
            INT_MAX),
    OPT_END,
};

struct reader {
    struct line_log *log; /* NULL: the job has not written a line yet */
    const struct registry_job *job;
    int rank;             /* index; ALL_RANKS: every rank, each line with its number */
    uint64_t *at;         /* read position, by rank */
    struct strbuf *shown; /* what is printed of the rank's unfinished line, by rank */
    bool repeats;         /* stdout is a terminal: an interrupted line is printed whole again */
    int open_rank;        /* the rank whose line ends the output without a newline; NONE: none */
};

/* Returns the beginning of the last n lines; of all lines if n < 0. */
static const char *last_lines(const struct strbuf *b, int n)
{
    const char *text = strbuf_str(b), *p = text + b->len;
    for (; n >= 0 && p > text; p--)
        if (p[-1] == '\n' && n-- == 0)
            return p;
    return text;
}

/* Prints a line with its newline, or an unfinished line. A part of the line may already be
 * printed. */
static void print_line(struct reader *r, int rank, const char *text, size_t len)
{
    struct strbuf *shown = &r->shown[rank];
    bool begins = len >= shown->len && memcmp(text, strbuf_str(shown), shown->len) == 0;
    bool finished = text[len - 1] == '\n';
    if (begins && !finished && len == shown->len)
        return;
    bool continues = begins && r->open_rank == rank;
    size_t printed = continues || (begins && !r->repeats) ? shown->len : 0;
    if (!continues && printed > 0 && printed + 1 == len && finished) {
        strbuf_reset(shown); /* the newline in front of another rank's line has ended this one */
        return;
    }
    if (!continues && r->open_rank != NONE)
        putchar('\n');
    if (!continues && r->rank == ALL_RANKS)
        printf("%d| ", r->job->first_rank + rank);
    fwrite(text + printed, 1, len - printed, stdout);
    strbuf_reset(shown);
    if (!finished)
        strbuf_add(shown, text, len);
    r->open_rank = finished ? NONE : rank;
}

static void print_lines(struct reader *r, int rank, const char *text, size_t len)
{
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = newline ? (size_t)(newline - text) + 1 : (size_t)(end - text);
        print_line(r, rank, text, n);
        text += n;
    }
}

/* Prints the lines that were written since the last call, at most `lines` per rank. Also prints
 * unfinished lines. */
static void print_new(struct reader *r, int lines)
{
    struct err e = {0};
    if (!r->log && line_log_open(&r->log, r->job->lines, &e) < 0)
        return;
    int n = line_log_ranks(r->log);
    if (!r->at) {
        r->at = xcalloc((size_t)n, sizeof *r->at);
        r->shown = xcalloc((size_t)n, sizeof *r->shown);
    }
    for (int i = 0; i < n; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        if (r->rank != ALL_RANKS && r->rank != i)
            continue;
        line_log_read(r->log, i, &r->at[i], &b);
        const char *text = last_lines(&b, lines);
        print_lines(r, i, text, b.len - (size_t)(text - strbuf_str(&b)));
        strbuf_reset(&b);
        line_log_read_partial(r->log, i, r->at[i], &b);
        print_lines(r, i, strbuf_str(&b), b.len);
    }
    fflush(stdout);
}

static int check_rank(int *rank, const char *text, const struct registry_job *j, struct err *e)
{
    int rc = opt_int(rank, "rank", text, 0, 1 << 30, e);
    int first = j->first_rank, last = j->first_rank + j->ranks - 1;
    if (rc == 0 && (*rank < first || *rank > last))
        return err_set(e, -EINVAL, "rank %d is out of range: job %s has ranks %d to %d", *rank,
                       j->id, first, last);
    *rank -= first;
    return rc;
}

static void show(struct reader *r, const struct logs_opts *o)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, r->job->pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    print_new(r, o->lines);
    for (bool runs = o->follow; runs && !ferror(stdout);) {
        runs = fd >= 0 && registry_is_alive(r->job) && poll(&p, 1, POLL_MS) <= 0;
        print_new(r, -1);
    }
    for (int i = 0; r->shown && i < line_log_ranks(r->log); i++)
        strbuf_free(&r->shown[i]);
    line_log_close(r->log);
    free(r->shown);
    free(r->at);
}

/* The output of a trial is in files, which `drover sweep` knows. */
static int check_kind(const struct registry_job *j, struct err *e)
{
    if (j->kind == REGISTRY_TRIAL) {
        err_set(e, -EINVAL, "job %s: it is a trial, whose output is in %s", j->id, j->output_dir);
        AUTO(free) char *logs = registry_sweep_command(j, "drover sweep logs");
        return err_hint(e, "%s %d", logs, j->trial);
    }
    if (j->kind == REGISTRY_SWEEP) {
        err_set(e, -EINVAL, "job %s: it is a sweep, whose trials have the output", j->id);
        AUTO(free) char *show = registry_sweep_command(j, "drover sweep show");
        return err_hint(e, "%s", show);
    }
    return 0;
}

/* ---- a job that has ended ------------------------------------------------------------------- */

struct ended {
    int lines, rank;
    bool found;
};

static void print_ended(void *arg, const char *row)
{
    struct ended *d = arg;
    AUTO(json) json_t *lines = NULL;
    (void)json_parse(&lines, row, strlen(row), NULL); /* SQLite has made it */
    const char *text = json_string_value(json_array_get(lines, 1));
    int rank = (int)json_integer_value(json_array_get(lines, 0));
    if (!text || (d->rank != ALL_RANKS && d->rank != rank))
        return;
    d->found = true;
    const struct strbuf all = {.data = (char *)text, .len = strlen(text)};
    for (const char *p = last_lines(&all, d->lines); *p;) {
        size_t n = strcspn(p, "\n");
        if (d->rank == ALL_RANKS)
            printf("%d| ", rank);
        printf("%.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* Prints what the log of an ended run has kept. */
static int show_ended(const struct run_entry *run, const char *rank, int lines, struct err *e)
{
    struct ended d = {.lines = lines, .rank = ALL_RANKS};
    if (rank && opt_int(&d.rank, "rank", rank, 0, 1 << 30, e) < 0)
        return e->code;
    int rc = run_store_each(run,
                            "SELECT json_array(rank, data ->> '$.text') FROM record WHERE seq IN "
                            "(SELECT max(seq) FROM record WHERE kind = 'lines' GROUP BY rank) "
                            "ORDER BY rank",
                            print_ended, &d, e);
    fflush(stdout);
    if (rc == 0)
        fprintf(stderr,
                "drover logs: run %s: it has ended, with %s lines\n  try: drover runs show %s\n",
                run->id, d.found ? "these last" : "no", run->id);
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    const struct logs_opts *o = into;
    struct registry_list l;
    struct run_list runs = {0};
    struct run_entry *ended = NULL;
    struct reader r = {.rank = ALL_RANKS, .repeats = isatty(STDOUT_FILENO), .open_rank = NONE};
    registry_read(&l);
    int rc = registry_find(&r.job, &l, words[0], e);
    if (rc == -ENOENT && run_store_list(&runs, NULL) == 0 &&
        run_store_find(&ended, &runs, words[0], NULL) == 0)
        rc = registry_find(&r.job, &l, run_store_text(ended, "job"), NULL);
    if (rc < 0 && ended) {
        rc = show_ended(ended, words[1], o->lines, e);
        run_store_end(&runs);
        registry_end(&l);
        return rc;
    }
    run_store_end(&runs);
    if (rc == 0)
        rc = check_kind(r.job, e);
    if (rc == 0 && words[1])
        rc = check_rank(&r.rank, words[1], r.job, e);
    if (rc == 0)
        show(&r, o);
    registry_end(&l);
    return rc;
}

int cmd_logs(int argc, char **argv)
{
    static const char hint[] = "drover logs JOB [RANK]; 'drover ps' lists the jobs";
    static const struct command command = {
        .help = {.program = "drover logs",
                 .usage = "[options] JOB [RANK]",
                 .summary =
                     "Prints the last lines of a running job, of which 256 KiB per rank are "
                     "kept, or fewer of one that has ended. Without RANK, prints the lines of all "
                     "ranks, each with its rank. JOB "
                     "is a name that 'drover ps' or 'drover runs' lists, or the beginning of it.",
                 .examples = "drover logs 4711\ndrover logs -f -n 10 4711 0"},
        .options = options,
        .words_min = 1,
        .words_max = 2,
        .missing = "the job is missing",
        .missing_hint = hint,
        .unexpected_hint = hint,
        .run = run};
    struct logs_opts o = {.lines = -1};
    return command_run(&command, &o, argc, argv);
}
