/* cmd_bench_inspect - `drover bench inspect`: what the dumps of NCCL Inspector say. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/bench/analysis/inspector.h"
#include "collectives/bench/cmd/cmd_bench_internal.h"
#include "common/byte_size.h"
#include "common/command.h"
#include "common/log.h"
#include "common/plural.h"

struct inspect_options {
    const char *min;
    bool json;
};

static const struct opt options[] = {
    OPT_STR('b', "min-bytes", "SIZE", "leave smaller operations out", struct inspect_options, min),
    OPT_FLAG(0, "json", "print JSON", struct inspect_options, json),
    OPT_END,
};

static int is_dump(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".log") == 0;
}

/* Adds the lines of a file. A last line without a newline is being written, or its process was
 * killed: it counts if it is whole. Returns true if it is not. */
static int read_dump(struct inspector *t, const char *path, bool *cut, struct err *e)
{
    AUTO(free) char *line = NULL;
    size_t room = 0;
    ssize_t len;
    FILE *f = fopen(path, "re");
    *cut = false;
    if (!f)
        return err_set(e, -errno, "'%s': %s", path, strerror(errno));
    while ((len = getline(&line, &room, f)) > 0) {
        bool whole = line[len - 1] == '\n';
        struct err why = {0};
        int rc = inspector_add(t, line, (size_t)(len - whole), &why);
        if (rc < 0 && !whole) {
            *cut = true;
            t->broken--; /* it counts as unfinished */
        } else if (rc < 0 && t->broken == 1) {
            log_warn("'%s': %s (the first broken line)", path, why.text);
        }
    }
    int rc = ferror(f) ? err_set(e, -EIO, "'%s': cannot be read", path) : 0;
    fclose(f);
    return rc;
}

static int read_dumps(struct inspector *t, const char *dir, int *files, int *unfinished,
                      struct err *e)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_dump, alphasort), rc = 0;
    if (n < 0)
        return err_set(e, -errno, "'%s': %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[i]->d_name);
        bool cut = false;
        struct stat st;
        free(names[i]);
        if (rc < 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
            continue; /* opening a pipe would wait for its writer */
        rc = read_dump(t, path, &cut, e);
        *unfinished += cut;
        ++*files;
    }
    free(names);
    if (rc == 0 && *files == 0) {
        err_set(e, -EINVAL, "'%s': there is no dump, a file *.log of NCCL Inspector", dir);
        rc = err_hint(e, "the directory of NCCL_INSPECTOR_DUMP_DIR");
    }
    return rc;
}

static int inspect(struct inspector *t, const struct inspect_options *o, char **words,
                   struct err *e)
{
    uint64_t min = 0;
    int files = 0, unfinished = 0;
    if (o->min && byte_size_parse(&min, o->min, e) < 0)
        return err_wrap(e, "--min-bytes");
    if (strv_len(words) != 1)
        return err_set(e, -EINVAL, "expected one directory, not %zu", strv_len(words));
    t->min_bytes = (double)min;
    if (read_dumps(t, words[0], &files, &unfinished, e) < 0)
        return e->code;
    inspector_sort(t);
    AUTO(strbuf) struct strbuf text = {0};
    if (o->json) {
        AUTO(json) json_t *all = inspector_json(t);
        json_object_set_new(all, "files", json_integer(files));
        json_object_set_new(all, "unfinished", json_integer(unfinished));
        AUTO(free) char *line = json_line(all);
        strbuf_printf(&text, "%s\n", line);
    } else {
        inspector_show(&text, t);
        strbuf_printf(&text,
                      "# %d file%s, %lld line%s: %lld broken, %d unfinished, %lld too small\n",
                      files, plural_s(files), (long long)t->lines, plural_s(t->lines),
                      (long long)t->broken, unfinished, (long long)t->left_out);
    }
    int rc = cmd_bench_print(&text, e);
    return rc < 0 ? rc : t->count == 0;
}

static int run(char **words, void *into, struct err *e)
{
    struct inspector t = {0};
    int rc = inspect(&t, into, words, e);
    inspector_free(&t);
    return rc < 0 ? EXIT_STATUS_USAGE : rc;
}

int cmd_bench_inspect(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover bench inspect",
                 .usage = "[options] DIR",
                 .summary = "Shows the bus bandwidth per rank and communicator of a running or "
                            "finished job from the dumps of NCCL Inspector in DIR, and names the "
                            "slowest rank.",
                 .examples = "drover bench inspect nccl-inspector-1234\n"
                             "drover bench inspect --min-bytes 1M --json DIR"},
        .options = options,
        .words_max = COMMAND_WORDS_ANY,
        .run = run};
    struct inspect_options o = {0};
    return command_run(&command, &o, argc, argv);
}
