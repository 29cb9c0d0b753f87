#include "hpo/cmd/sweep_output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/opt.h"
#include "common/plural.h"
#include "hpo/worker/trial_dir.h"

enum { CHUNK = 64 << 10 };

int sweep_output_trial(size_t *trial, const struct sweep_reader *v, const char *word, struct err *e)
{
    int id = 0;
    size_t count = v->columns->count;
    int rc = opt_int(&id, "trial", word, 0, INT_MAX, e);
    if (rc < 0)
        return rc;
    if ((size_t)id >= count) {
        err_set(e, -ENOENT, "sweep '%s': there is no trial %d", v->dir->name, id);
        return count ? err_hint(e, "trials are numbered from 0 to %zu", count - 1)
                     : err_hint(e, "no trial exists yet");
    }
    *trial = (size_t)id;
    return 0;
}

char *sweep_output_dir(const struct sweep_reader *v, size_t trial)
{
    int64_t lease = v->columns->trials[trial].lease;
    AUTO(free) char *dir = trial_dir_path(v->dir->path, (int)trial);
    return lease > 0 ? xasprintf("%s/%lld", dir, (long long)lease) : NULL;
}

off_t sweep_output_last_lines(int fd, int lines)
{
    static char chunk[CHUNK];
    off_t end = lseek(fd, 0, SEEK_END);
    int left = lines;
    if (lines == 0)
        return end;
    for (off_t to = end; lines >= 0 && to > 0;) {
        off_t from = to > CHUNK ? to - CHUNK : 0;
        ssize_t n = pread(fd, chunk, (size_t)(to - from), from);
        if (n < to - from)
            return from; /* it was cut in the meantime */
        for (ssize_t i = n; i-- > 0;)
            if (chunk[i] == '\n' && from + i + 1 < end && --left == 0)
                return from + i + 1; /* the newline before the first of them */
        to = from;
    }
    return 0;
}

static int visible(const struct dirent *f)
{
    return f->d_name[0] != '.';
}

/* Returns false if there is no such directory. */
static bool list_files(struct strbuf *out, const char *dir)
{
    struct dirent **files = NULL;
    int n = scandir(dir, &files, visible, alphasort);
    for (int i = 0; i < n; i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, files[i]->d_name);
        struct stat st;
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            strbuf_printf(out, "  %s/\n", files[i]->d_name);
        else if (stat(path, &st) == 0)
            strbuf_printf(out, "  %s  %lld byte%s\n", files[i]->d_name, (long long)st.st_size,
                          plural_s(st.st_size));
        free(files[i]);
    }
    free(files);
    return n >= 0;
}

static void print_end(struct strbuf *out, const char *dir, const char *name, int lines)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    static char chunk[CHUNK];
    off_t at = sweep_output_last_lines(fd, lines), end = lseek(fd, 0, SEEK_END);
    at = end - at > CHUNK ? end - CHUNK : at;
    ssize_t n = pread(fd, chunk, sizeof chunk, at);
    if (n <= 0)
        return;
    strbuf_printf(out, "end of %s\n", name);
    for (const char *p = chunk, *stop = chunk + n; p < stop;) {
        const char *newline = memchr(p, '\n', (size_t)(stop - p));
        size_t len = newline ? (size_t)(newline - p) : (size_t)(stop - p);
        strbuf_puts(out, "  ");
        strbuf_add(out, p, len);
        strbuf_putc(out, '\n');
        p += len + 1;
    }
}

void sweep_output_print(struct strbuf *out, const char *dir, const char *node, int lines)
{
    strbuf_printf(out, "files in %s\n", dir);
    if (!list_files(out, dir))
        strbuf_printf(out, "  none here: they are on node %s\n", node ? node : "?");
    print_end(out, dir, "stdout", lines);
    print_end(out, dir, "stderr", lines);
}
