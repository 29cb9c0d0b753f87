#include "serve/data/serve_files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "common/file.h"
#include "common/own_process.h"
#include "common/strbuf.h"

struct serve_files {
    struct serve_file *at;
    size_t count;
};

static const struct {
    const char *suffix, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
    {".txt", "text/plain; charset=utf-8"},
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < COUNT_OF(types); i++)
        if (strcmp(dot, types[i].suffix) == 0)
            return types[i].type;
    return NULL;
}

static int add_file(struct serve_files *f, const char *dir, const char *name, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    AUTO(strbuf) struct strbuf b = {0};
    int rc = file_read(&b, path, FILE_TEXT_MAX);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    f->at = xrealloc(f->at, f->count + 1, sizeof *f->at);
    f->at[f->count++] = (struct serve_file){xstrdup(name), type_of(name), NULL, b.len};
    f->at[f->count - 1].bytes = strbuf_take(&b);
    return 0;
}

int serve_files_open(struct serve_files **out, struct err *e)
{
    AUTO(free) char *dir = NULL;
    if (own_process_share(&dir, "web", e) < 0)
        return e->code;
    AUTO(serve_files) struct serve_files *f = xzalloc(sizeof *f);
    AUTO(dir) DIR *d = opendir(dir);
    int rc = 0;
    for (struct dirent *entry; d && rc == 0 && (entry = readdir(d));)
        if (type_of(entry->d_name))
            rc = add_file(f, dir, entry->d_name, e);
    if (rc < 0)
        return rc;
    if (!serve_files_find(f, "index.html")) {
        err_set(e, -ENOENT, "%s: the page is missing", dir);
        return err_hint(e, "complete the installation: 'make install' puts it there");
    }
    if (!serve_files_find(f, "d3.min.js")) {
        err_set(e, -ENOENT, "%s/d3.min.js: d3, which draws the page's axes, is missing", dir);
        return err_hint(e, "apt-get install node-d3, then 'make install' again");
    }
    *out = TAKE(f);
    return 0;
}

void serve_files_close(struct serve_files *f)
{
    for (size_t i = 0; f && i < f->count; i++) {
        free(f->at[i].name);
        free(f->at[i].bytes);
    }
    if (f)
        free(f->at);
    free(f);
}

const struct serve_file *serve_files_find(const struct serve_files *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->at[i].name, name) == 0)
            return &f->at[i];
    return NULL;
}
