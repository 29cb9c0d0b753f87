/* cmd_sweep_logs - `drover sweep logs NAME TRIAL`: the output of a trial, and what it adds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_output.h"
#include "hpo/store/sweep_dir.h"

enum { POLL_MS = 100 };

struct logs_options {
    const char *root;
    bool follow, err;
    int lines; /* < 0: all */
};

static const struct opt options[] = {
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct logs_options, root),
    OPT_FLAG('f', "follow", "follow the output until the trial ends", struct logs_options, follow),
    OPT_INT('n', "lines", "N", "only the last N lines", struct logs_options, lines, 0, INT_MAX),
    OPT_FLAG(0, "stderr", "print stderr, not stdout", struct logs_options, err),
    OPT_END,
};

struct follower {
    struct sweep_reader *v;
    size_t trial;
    const char *stream;
    int64_t lease; /* whose file is open; 0: none */
    int fd;        /* -1: the file does not exist (yet) */
    bool found;    /* a file existed */
};

/* Opens the file of the trial's present lease. `lines`: as sweep_output_last_lines(). */
static void open_file(struct follower *f, int lines)
{
    int64_t lease = f->v->columns->trials[f->trial].lease;
    if (f->fd >= 0 && f->lease == lease)
        return;
    if (f->fd >= 0)
        close(f->fd);
    f->lease = lease;
    AUTO(free) char *dir = sweep_output_dir(f->v, f->trial);
    AUTO(free) char *path = dir ? xasprintf("%s/%s", dir, f->stream) : NULL;
    f->fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (f->fd < 0)
        return;
    f->found = true;
    (void)lseek(f->fd, sweep_output_last_lines(f->fd, lines), SEEK_SET);
}

static void print_new(struct follower *f)
{
    static char chunk[64 << 10];
    for (ssize_t n; f->fd >= 0 && (n = read(f->fd, chunk, sizeof chunk)) > 0;)
        fwrite(chunk, 1, (size_t)n, stdout);
    fflush(stdout);
}

/* Whether the trial has ended, or no process will continue it. */
static bool is_over(const struct follower *f)
{
    enum trial_state state = f->v->columns->trials[f->trial].state;
    return trial_is_ended(state) || (!trial_is_active(state) && !sweep_dir_owner(f->v->dir).held);
}

static int follow(struct follower *f, const struct logs_options *o, struct err *e)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
    open_file(f, o->lines);
    for (;;) {
        bool over = !o->follow || is_over(f); /* before the read: it misses nothing then */
        print_new(f);
        if (over || ferror(stdout))
            return 0;
        nanosleep(&pause, NULL);
        if (sweep_reader_update(f->v, e) < 0)
            return e->code;
        print_new(f);
        open_file(f, -1);
    }
}

static int run(char **words, void *into, struct err *e)
{
    const struct logs_options *o = into;
    if (!words[1]) {
        err_set(e, -EINVAL, "no trial given");
        AUTO(free) char *show = sweep_dir_command("drover sweep show", o->root, words[0]);
        return err_hint(e, "%s  lists the trials", show);
    }
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    struct follower f = {.fd = -1, .stream = o->err ? "stderr" : "stdout"};
    int rc = sweep_reader_open(&v, o->root, words[0], e);
    if (rc == 0)
        rc = sweep_output_trial(&f.trial, v, words[1], e);
    if (rc < 0)
        return rc;
    f.v = v;
    rc = follow(&f, o, e);
    if (f.fd >= 0)
        close(f.fd);
    AUTO(free) char *dir = sweep_output_dir(v, f.trial);
    if (rc == 0 && !f.found && !o->err && dir) /* stderr is created with its first line */
        rc = err_set(e, -ENODATA, "trial %zu: %s/%s: %s", f.trial, dir, f.stream, strerror(ENOENT));
    return rc;
}

int cmd_sweep_logs(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover sweep logs", "NAME TRIAL [-f] [-n N] [--stderr]",
                 "Prints what a trial has written to stdout, under its last lease.",
                 "drover sweep logs digits 17\ndrover sweep logs digits 17 -f -n 10"},
        .options = options,
        HPO_COMMAND_SWEEP(2),
        .run = run};
    struct logs_options o = {.root = "sweeps", .lines = -1};
    return command_run(&command, &o, argc, argv);
}
