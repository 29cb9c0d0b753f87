#include "launcher/run/run_options_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/opt.h"
#include "common/python.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hostfile.h"

/* A ':' after "--" is an argument of the program and separates nothing. */
int run_mpmd_first(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return argc;
        if (strcmp(argv[i], ":") == 0)
            return i;
    }
    return argc;
}

void run_mpmd_program(char ***argv, int argc, char **words)
{
    bool script = argc > 0 && python_is_script(words[0]),
         own = script && python_is_executable(words[0]);
    /* torchrun does the same. The option -u makes Python's output unbuffered. */
    if (script && !own) {
        strv_push(argv, xstrdup("python3"));
        strv_push(argv, xstrdup("-u"));
    }
    for (int i = 0; i < argc; i++) /* execvp() searches a name without '/' in PATH */
        strv_push(argv, i == 0 && own && !strchr(words[0], '/') ? xasprintf("./%s", words[0])
                                                                : xstrdup(words[i]));
}

void run_mpmd_prepend_path(char ***env, char *const *outer, const char *dir)
{
    const char *path = env_get(*env, "PATH");
    path = path ? path : env_user_value(environ, outer, "PATH");
    strv_push(env, xasprintf("PATH=%s%s%s", dir, path ? ":" : "", path ? path : ""));
}

static const char *script_of(char *const *argv)
{
    size_t i = 0;
    if (python_is_interpreter(argv[0]))
        for (i = 1; argv[i] && argv[i][0] == '-' && strcmp(argv[i], "-m") != 0; i++)
            ;
    return argv[i] && python_is_script(argv[i]) ? argv[i] : NULL;
}

static int check_script(char *const *argv, const char *wdir, struct err *e)
{
    const char *script = script_of(argv);
    AUTO(free) char *cwd = wdir ? xstrdup(wdir) : getcwd(NULL, 0);
    AUTO(free) char *path = script ? xasprintf("%s/%s", cwd ? cwd : ".", script) : NULL;
    if (!script || access(script[0] == '/' ? script : path, F_OK) == 0 || errno != ENOENT)
        return 0;
    return err_set(e, -ENOENT, "script '%s': no such file in the working directory '%s'", script,
                   cwd ? cwd : ".");
}

int run_mpmd_check_scripts(const struct run_options *o, struct err *e)
{
    for (int i = 0; o->hosts && i < o->hosts->count; i++)
        if (!o->hosts->at[i].here)
            return 0;
    int rc = check_script(o->spec.argv, o->spec.wdir, e);
    for (int i = 0; rc == 0 && i < o->app_count; i++)
        if (o->apps[i].argv)
            rc = check_script(o->apps[i].argv, o->apps[i].wdir ? o->apps[i].wdir : o->spec.wdir, e);
    return rc;
}

/* ---- one program after ':' ------------------------------------------------------------------ */

struct app {
    int np;
    const char *wdir, *path;
    struct hosts *hosts;
    char **env, **ignored;
};

static int on_host(void *into, char *const *values, struct err *e)
{
    struct app *a = into;
    a->hosts = a->hosts ? a->hosts : xzalloc(sizeof *a->hosts);
    return hostfile_list(a->hosts, values[0], e);
}

int run_mpmd_read_env(char ***env, char *const *values, struct err *e)
{
    const char *name = values[0], *equals = name ? strchr(name, '=') : NULL;
    if (!name || !*name || equals == name || (!equals && !values[1]))
        return err_set(e, -EINVAL, "needs NAME VALUE, or NAME=VALUE");
    strv_push(env, equals ? xstrdup(name) : xasprintf("%s=%s", name, values[1]));
    return equals ? 1 : 2;
}

static int on_env(void *into, char *const *values, struct err *e)
{
    return run_mpmd_read_env(&((struct app *)into)->env, values, e);
}

static const struct opt options[] = {
    OPT_INT('n', "np|n|c", "N", "ranks of this program", struct app, np, 1, RUN_OPTIONS_RANKS_MAX),
    OPT_STRV('x', "x|envlist", "NAME[=VALUE]", "a variable of its ranks", struct app, env),
    OPT_CALL_SOME(0, "env", "NAME VALUE", "the same", on_env),
    OPT_CALL('H', "host|hosts", "LIST", "where its ranks run", on_host),
    OPT_STR(0, "wdir|wd", "DIR", "working directory of its ranks", struct app, wdir),
    OPT_STR(0, "path", "DIR", "directory searched first for it", struct app, path),
    OPT_WORDS(0, "allow-run-as-root|envall", NULL, NULL, struct app, ignored),
    OPT_END,
};

static int add_program(struct run_options *o, int argc, char **argv, struct err *e)
{
    struct app a = {0};
    AUTO(strv) char **program = NULL;
    int rest = argc;
    int rc = opt_parse(options, &a, argc, argv, &rest, e);
    strv_free(a.ignored);
    run_mpmd_program(&program, argc - rest, argv + rest);
    if (rc < 0)
        err_hint(
            e, "after ':' only -np, -H, -wdir, -path, -x and the program; other options before the "
               "first program");
    else if (rc == OPT_HELP || (rc == 0 && (a.np < 1 || !program)))
        rc = err_set(e, -EINVAL, "after ':' -np N or the program is missing");
    if (rc < 0) {
        strv_free(a.env);
        hosts_free(a.hosts);
        return rc;
    }
    if (a.path)
        run_mpmd_prepend_path(&a.env, o->env, a.path);
    o->apps = xrealloc(o->apps, (size_t)o->app_count + 1, sizeof *o->apps);
    o->apps[o->app_count++] = (struct launch_app){
        .ranks = a.np, .argv = TAKE(program), .env = a.env, .wdir = a.wdir, .hosts = a.hosts};
    return 0;
}

int run_mpmd_parse(struct run_options *o, int argc, char **argv, struct err *e)
{
    if (o->np < 1) {
        err_set(e, -EINVAL, "several programs: -np N of the first one is missing");
        return err_hint(e, "%s -np 1 ./a : -np 3 ./b", o->program);
    }
    for (int from = 0; from < argc;) {
        int n = run_mpmd_first(argc - from, argv + from);
        int rc = add_program(o, n, argv + from, e);
        if (rc < 0)
            return rc;
        from += n;
    }
    return 0;
}

void run_mpmd_free(struct run_options *o)
{
    for (int i = 0; i < o->app_count; i++) {
        strv_free((char **)o->apps[i].argv);
        strv_free((char **)o->apps[i].env);
        hosts_free((struct hosts *)o->apps[i].hosts);
    }
    free(o->apps);
}

/* ---- a file of programs --------------------------------------------------------------------- */

/* Appends the words of a line: separated by blanks, quoted by "…" or '…', up to '#'. */
static void add_words(char ***words, const char *line)
{
    for (const char *p = line;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (!*p || *p == '#')
            return;
        const char *quote = strchr("\"'", *p), *from = p + (quote != NULL);
        size_t len = quote ? strcspn(from, (char[]){*p, '\0'}) : strcspn(from, " \t\r\n");
        strv_push(words, xstrndup(from, len));
        p = from + len + (quote && from[len]);
    }
}

int run_mpmd_read_file(char ***words, const char *path, const char *between, struct err *e)
{
    AUTO(free) char *text = file_text(path);
    if (!text)
        return err_set(e, -errno, "file '%s': %s", path, strerror(errno));
    bool any = false;
    for (char *rest = text + (hostfile_after_mark(text) - text), *line;
         (line = strsep(&rest, "\n"));) {
        AUTO(strv) char **own = NULL;
        add_words(&own, line);
        if (!own)
            continue;
        if (any && between)
            strv_push(words, xstrdup(between));
        any = true;
        strv_add(words, own);
    }
    return 0;
}
