#include "serve/cmd_serve.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/command.h"
#include "common/entropy.h"
#include "common/file.h"
#include "common/log.h"
#include "serve/serve_http.h"
#include "serve/serve_listen.h"

#define SERVE "drover serve"

enum { TOKEN_BYTES = 16, SWEEP_FIRST = 10 };

struct serve_options {
    const char *root, *listen, *prefix;
    char **hosts; /* strv */
    bool open, control, until_eof;
};

static const struct opt options[] = {
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct serve_options, root),
    OPT_STR(0, "listen", "ADDR:PORT", "address of the page (default: 127.0.0.1:8642)",
            struct serve_options, listen),
    OPT_FLAG(0, "open", "open the page in a browser", struct serve_options, open),
    OPT_FLAG(0, "control", "let the page stop, pause, retry and add", struct serve_options,
             control),
    OPT_STRV(0, "host", "NAME", "another name of this server, as of a proxy; repeatable",
             struct serve_options, hosts),
    OPT_STR(0, "prefix", "PATH", "path of the page behind a proxy (default: /)",
            struct serve_options, prefix),
    /* `drover sweep --serve` starts the server with this. */
    OPT_FLAG(0, "until-eof", NULL, struct serve_options, until_eof),
    OPT_END,
};

/* ---- which sweeps --------------------------------------------------------------------------- */

struct place {
    char *root, *chosen; /* chosen NULL: none */
};

static bool has_store(const char *dir)
{
    AUTO(free) char *path = xasprintf("%s/sweep.db", dir);
    return access(path, F_OK) == 0;
}

static int find_place(struct place *out, const char *root, const char *word, struct err *e)
{
    AUTO(free) char *in_root = word ? xasprintf("%s/%s", root, word) : NULL;
    struct stat st;
    *out = (struct place){0};
    if (!word || (!strchr(word, '/') && has_store(in_root))) {
        out->root = xstrdup(root);
        out->chosen = word ? xstrdup(word) : NULL;
        return 0;
    }
    AUTO(free)
    char *path = stat(word, &st) == 0 && S_ISDIR(st.st_mode) ? realpath(word, NULL) : NULL;
    char *base = path ? strrchr(path, '/') : NULL;
    if (!base) {
        err_set(e, -ENOENT, "'%s': there is no such sweep in '%s', and no such directory", word,
                root);
        AUTO(free) char *ls = command_to_paste("drover sweep ls", NULL, root, "sweeps");
        return err_hint(e, "%s  lists the sweeps", ls);
    }
    if (has_store(path)) {
        *base = 0;
        out->chosen = xstrdup(base + 1);
    }
    out->root = xstrdup(*path ? path : "/");
    return 0;
}

/* ---- the address ---------------------------------------------------------------------------- */

static int make_token(char *out, struct err *e)
{
    unsigned char bytes[TOKEN_BYTES];
    int rc = entropy_fill(bytes, sizeof bytes);
    if (rc < 0)
        return err_set(e, rc, "no random numbers for the token: %s", strerror(-rc));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* Returns "" or "/a/b", without a final slash. The caller frees it. */
static char *clean_prefix(const char *text)
{
    size_t from = strspn(text, "/"), len = strlen(text);
    while (len > from && text[len - 1] == '/')
        len--;
    return len > from ? xasprintf("/%.*s", (int)(len - from), text + from) : xstrdup("");
}

/* Writes a page that leads to the address, which only this user can read: the browser's command
 * line is public, and the address may have a token. Returns the page's path, which the caller
 * removes and frees. */
static char *write_way(const char *url, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    AUTO(free) char *dir = xasprintf("%s/drover-serve-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        err_set(e, -errno, "%s: %s", dir, strerror(errno));
        return NULL;
    }
    AUTO(free) char *path = xasprintf("%s/page.html", dir);
    AUTO(free)
    char *text = xasprintf("<!doctype html>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"referrer\" content=\"no-referrer\">\n"
                           "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n"
                           "<a href=\"%s\">drover serve</a>\n",
                           url, url);
    int rc = file_write(path, text, strlen(text), 0600);
    if (rc == 0)
        return TAKE(path);
    err_set(e, rc, "%s: %s", path, strerror(-rc));
    rmdir(dir);
    return NULL;
}

static void remove_way(char *path)
{
    if (!path)
        return;
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    free(path);
}

static void open_browser(const char *page)
{
    extern char **environ;
    char *argv[] = {(char *)"xdg-open", (char *)page, NULL};
    pid_t pid;
    int rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (rc != 0)
        log_warn("--open: xdg-open: %s", strerror(rc));
}

/* `token`: the address that has it, for others; NULL: `url` has it. */
static int print_address(const struct serve_listen *l, const char *url, const char *token,
                         bool alone, struct err *e)
{
    printf(SERVE ": %s\n", url);
    if (token)
        printf(SERVE ": for other users of this machine: %s\n", token);
    if (l->loopback && alone)
        printf(SERVE ": from another machine: ssh -L %d:localhost:%d %s\n", l->port, l->port,
               l->host_name);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        return err_set(e, -EIO, "stdout: %s", strerror(errno ? errno : EIO));
    return 0;
}

static int serve(const struct serve_options *o, const char *word, struct err *e)
{
    AUTO(serve_listen) struct serve_listen l = {.fd = -1};
    AUTO(serve_files) struct serve_files *files = NULL;
    AUTO(serve_http) struct serve_http *http = NULL;
    AUTO(free) char *prefix = clean_prefix(o->prefix);
    char token[2 * TOKEN_BYTES + 1] = "";
    struct place place;
    int rc = find_place(&place, o->root, word, e);
    AUTO(serve_sweeps)
    struct serve_sweeps *sweeps = rc == 0 ? serve_sweeps_new(place.root, place.chosen) : NULL;
    free(place.root);
    free(place.chosen);
    if (rc < 0 || (rc = serve_files_open(&files, e)) < 0 ||
        (rc = serve_listen_open(&l, o->listen, o->hosts, e)) < 0)
        return rc;
    if ((rc = make_token(token, e)) < 0)
        return rc;
    bool own_reads = l.loopback && !o->control;
    AUTO(free) char *cookie = xasprintf("drover_%d", l.port);
    const struct serve_context context = {sweeps, files,  l.hosts,   prefix,
                                          token,  cookie, own_reads, o->control};
    AUTO(free) char *open_url = xasprintf("http://%s:%d%s/", l.url_host, l.port, prefix);
    AUTO(free) char *token_url = xasprintf("%s?token=%s", open_url, token);
    const char *url = own_reads ? open_url : token_url;
    rc = serve_http_open(&http, fd_take(&l.fd), &context, e);
    if (rc < 0)
        return rc;
    if ((rc = print_address(&l, url, own_reads ? token_url : NULL, !o->until_eof, e)) < 0)
        return rc;
    if (o->until_eof)
        (void)!nice(
            SWEEP_FIRST); /* the trials of the sweep come first; without it nothing is lost */
    char *way = o->open && !own_reads ? write_way(url, e) : NULL;
    if (o->open && !own_reads && !way)
        return e->code;
    if (o->open)
        open_browser(way ? way : url);
    rc = serve_http_run(http, o->until_eof, e);
    remove_way(way);
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    return serve(into, words ? words[0] : NULL, e) < 0 ? EXIT_STATUS_USAGE : 0;
}

int cmd_serve(int argc, char **argv)
{
    static const struct command command = {
        .help = {SERVE, "[NAME | DIR] [--listen ADDR:PORT] [--open] [--control]",
                 "Shows sweeps in a browser: their progress, trials, curves and logs. NAME is the "
                 "sweep that the page shows first; DIR is a directory of sweeps, or of one sweep. "
                 "The page only reads, unless --control is given. On an address other than "
                 "loopback, or with --control, the address that is printed contains a token. On "
                 "loopback, other users of this machine need one.",
                 "drover serve\ndrover serve digits --open\n"
                 "drover serve --listen 0.0.0.0:8642"},
        .options = options,
        .words_max = 1,
        .run = run};
    struct serve_options o = {.root = "sweeps", .prefix = "/"};
    int status = command_run(&command, &o, argc, argv);
    strv_free(o.hosts);
    return status;
}
