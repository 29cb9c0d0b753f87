#include "launcher/plan/rankfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/opt.h"
#include "launcher/plan/hostfile.h"

enum { RANKS_MAX = 1 << 20, WORDS = 5 };

void rankfile_free(struct rankfile *f)
{
    for (int i = 0; f && i < f->count; i++) {
        free((char *)f->locations[i].host);
        free((char *)f->locations[i].slots);
    }
    if (f) {
        free(f->locations);
        hosts_free(f->hosts);
    }
    free(f);
}

/* Returns the host's name. "+n2" means the third known host; any other name is returned
 * unchanged. */
static const char *find_host(const char *name, const struct hosts *known, struct err *e)
{
    int n = 0;
    if (name[0] != '+')
        return name;
    if (!known) {
        err_set(e, -EINVAL, "'%s': the job has no host list", name);
        err_hint(e, "--hostfile FILE or -H LIST, or the host's name in the rank file");
        return NULL;
    }
    if ((name[1] != 'n' && name[1] != 'N') ||
        opt_int(&n, name, name + 2, 0, known->count - 1, e) < 0) {
        err_set(e, -EINVAL, "'%s': must be +n0 to +n%d", name, known->count - 1);
        return NULL;
    }
    return known->at[n].name;
}

/* Makes room for rank `n`. */
static void grow(struct rankfile *f, int n)
{
    if (n < f->count)
        return;
    f->locations = xrealloc(f->locations, (size_t)n + 1, sizeof *f->locations);
    memset(f->locations + f->count, 0, (size_t)(n + 1 - f->count) * sizeof *f->locations);
    f->count = n + 1;
}

/* Reads a line such as "rank 0=c01 slot=1:0-2". Blanks and '=' separate the words. */
static int read_line(struct rankfile *f, char *line, const struct hosts *known, struct err *e)
{
    char *words[WORDS + 1] = {NULL}, *save = NULL;
    int n = 0, rank = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *w = strtok_r(line, " \t\r=", &save); w && n <= WORDS;
         w = strtok_r(NULL, " \t\r=", &save))
        words[n++] = w;
    if (n == 0)
        return 0;
    bool slots = n == WORDS && (strcmp(words[3], "slot") == 0 || strcmp(words[3], "slots") == 0);
    if (strcmp(words[0], "rank") != 0 || (n != 3 && !slots))
        return err_set(e, -EINVAL, "not in the form 'rank N=HOST slot=CPUS'");
    if (opt_int(&rank, "rank", words[1], 0, RANKS_MAX - 1, e) < 0)
        return -EINVAL;
    const char *host = find_host(words[2], known, e);
    if (!host)
        return -EINVAL;
    grow(f, rank);
    if (f->locations[rank].host)
        return err_set(e, -EINVAL, "rank %d occurs twice", rank);
    f->locations[rank].host = xstrdup(host);
    f->locations[rank].slots = slots ? xstrdup(words[4]) : NULL;
    return hostfile_list(f->hosts, host, e);
}

int rankfile_parse(struct rankfile **out, const char *what, const char *text,
                   const struct hosts *known, struct err *e)
{
    AUTO(rankfile) struct rankfile *f = xzalloc(sizeof *f);
    AUTO(free) char *copy = xstrdup(hostfile_after_mark(text));
    int n = 1;
    f->hosts = xzalloc(sizeof *f->hosts);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")); n++)
        if (read_line(f, line, known, e) < 0) {
            err_wrap(e, "%s:%d", what, n);
            return -EINVAL;
        }
    for (int i = 0; i < f->count; i++)
        if (!f->locations[i].host)
            return err_set(e, -EINVAL, "%s: rank %d is missing", what, i);
    if (f->count == 0)
        return err_set(e, -EINVAL, "%s: no rank is listed", what);
    *out = TAKE(f);
    return 0;
}

int rankfile_read(struct rankfile **out, const char *path, const struct hosts *known, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, FILE_TEXT_MAX);
    if (rc < 0)
        return err_set(e, rc, "rank file '%s': %s", path, strerror(-rc));
    rc = rankfile_parse(out, path, strbuf_str(&text), known, e);
    for (int i = 0; rc == 0 && i < (*out)->count; i++)
        (*out)->locations[i].here = hostfile_is_here((*out)->locations[i].host);
    return rc;
}
