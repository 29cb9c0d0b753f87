/* cmd_doctor - `drover doctor`: checks the nodes of a job before it starts. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/command.h"
#include "common/err.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "launcher/doctor/active/active_checks.h"
#include "launcher/doctor/core/check_run.h"
#include "launcher/doctor/core/doctor_report.h"
#include "launcher/doctor/doctor_expect.h"
#include "launcher/doctor/node_query.h"
#include "launcher/doctor/topo_print.h"
#include "launcher/jobs/commands.h"
#include "launcher/node/topo.h"

enum { CHECK_MS = 1000, NODE_MS = 20000 };

struct doctor_options {
    struct node_query_nodes nodes;
    const char *save, *expect, *explain, *bundle, *sweep_dir, *launcher;
    char **dirs;
    char *const *command; /* the program of the job; NULL: not given */
    int ranks;
    bool json, strict, quick, full, verbose;
};

static const struct opt options[] = {
    OPT_PART(node_query_options, offsetof(struct doctor_options, nodes)),
    OPT_INT('N', "npernode", "N", "ranks that are to run on each node", struct doctor_options,
            ranks, 1, INT_MAX),
    OPT_STRV(0, "dir", "DIR", "a directory that the job writes; may be repeated",
             struct doctor_options, dirs),
    OPT_STR(0, "sweep", "DIR", "directory of a sweep whose store is checked", struct doctor_options,
            sweep_dir),
    OPT_STR(0, "launcher", "ADDRESS:PORT", "where the launcher will listen", struct doctor_options,
            launcher),
    OPT_FLAG(0, "quick", "only the checks that wait for nothing", struct doctor_options, quick),
    OPT_FLAG(0, "full", "also measure memory, all-reduce and all pairs: takes a minute",
             struct doctor_options, full),
    OPT_FLAG(0, "strict", "a warning is a failure: exit status 1", struct doctor_options, strict),
    OPT_STR(0, "save", "FILE", "write the values found, from a machine that is known to be good",
            struct doctor_options, save),
    OPT_STR(0, "expect", "FILE", "warn of values that differ from a file of --save",
            struct doctor_options, expect),
    OPT_STR(0, "bundle", "FILE.tgz",
            "write an archive for bug reports, in which secrets are masked", struct doctor_options,
            bundle),
    OPT_STR(0, "explain", "ID", "explain a check: what it reads, and what goes wrong without it",
            struct doctor_options, explain),
    OPT_FLAG('v', "verbose", "also show what is ok, and what was skipped", struct doctor_options,
             verbose),
    OPT_FLAG(0, "json", "print JSON", struct doctor_options, json),
    OPT_END,
};

/* ---- the bundle ----------------------------------------------------------------------------- */

static const char *const bundle_files[] = {"report.txt", "report.json", "topo.txt",
                                           "environment.txt", "system.txt"};

static void put_environment(struct strbuf *b)
{
    for (char **v = environ; *v; v++) {
        size_t len = strcspn(*v, "=");
        strbuf_add(b, *v, len);
        strbuf_puts(b, "=");
        redact_value(b, *v, len, (*v)[len] ? *v + len + 1 : "");
        strbuf_puts(b, "\n");
    }
}

static void put_limit(struct strbuf *b, const char *name, __rlimit_resource_t which)
{
    struct rlimit r;
    if (getrlimit(which, &r) == 0)
        strbuf_printf(b, "%s: %lld of %lld\n", name, (long long)r.rlim_cur, (long long)r.rlim_max);
}

static void put_system(struct strbuf *b)
{
    struct utsname u;
    strbuf_puts(b, "drover " DROVER_VERSION "\n");
    if (uname(&u) == 0)
        strbuf_printf(b, "%s %s %s\n", u.sysname, u.release, u.machine);
    put_limit(b, "open files", RLIMIT_NOFILE);
    put_limit(b, "processes", RLIMIT_NPROC);
    put_limit(b, "locked memory", RLIMIT_MEMLOCK);
    put_limit(b, "stack", RLIMIT_STACK);
}

static void put_json(struct strbuf *b, const struct doctor_report *r)
{
    json_t *j = doctor_report_json(r);
    AUTO(free) char *line = json_line(j);
    json_decref(j);
    strbuf_printf(b, "%s\n", line);
}

static int write_file(const char *dir, const char *name, const struct strbuf *b, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    int rc = file_write(path, b->data, b->len, 0600);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

static int write_files(const char *dir, const struct doctor_report *r, const struct topo *t,
                       struct err *e)
{
    struct strbuf b[COUNT_OF(bundle_files)] = {0};
    doctor_report_text(&b[0], r, true);
    put_json(&b[1], r);
    topo_print(&b[2], t);
    put_environment(&b[3]);
    put_system(&b[4]);
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(bundle_files); i++) {
        if (rc == 0)
            rc = write_file(dir, bundle_files[i], &b[i], e);
        strbuf_free(&b[i]);
    }
    return rc;
}

static int run_tar(const char *dir, const char *path, struct err *e)
{
    char *argv[] = {"tar", "-czf", (char *)path, "-C", (char *)dir, ".", NULL};
    struct child_result r = {0};
    if (child_run(&r, &(struct child_opts){.argv = argv, .out = CHILD_KEEP, .messages = CHILD_KEEP},
                  e) < 0) {
        err_wrap(e, "--bundle");
        return err_hint(e, "install tar");
    }
    return r.status == 0 ? 0 : err_set(e, -EIO, "--bundle: tar could not write %s", path);
}

static void remove_files(const char *dir)
{
    for (size_t i = 0; i < COUNT_OF(bundle_files); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, bundle_files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

/* Writes PATH, a tar file compressed by gzip, with mode 0600: report.txt, report.json, topo.txt (of
 * this machine), environment.txt, system.txt (versions, kernel, limits). Values of variables with
 * secret names are "***". Needs the program tar. */
static int write_bundle(const struct doctor_report *r, const char *path, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    int rc = topo_load(&t, e);
    if (rc < 0)
        return rc;
    const char *tmp = getenv("TMPDIR");
    AUTO(free) char *dir = xasprintf("%s/drover-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_set(e, -errno, "--bundle: %s: %s", dir, strerror(errno));
    mode_t before = umask(077);
    rc = write_files(dir, r, t, e);
    if (rc == 0)
        rc = run_tar(dir, path, e);
    umask(before);
    remove_files(dir);
    return rc;
}

/* ---- this machine --------------------------------------------------------------------------- */

static int check_here(struct doctor_node *out, const struct doctor_options *o, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    int rc = topo_load_within(&t, CHECK_MS, e); /* the checks say why, if the driver hangs */
    if (rc < 0)
        return rc;
    struct check_env env = {
        .topo = t,
        .ranks = o->ranks,
        .command = o->command && *o->command ? o->command : NULL,
        .dirs = (const char *const *)o->dirs,
        .sweep_dir = o->sweep_dir,
        .launcher = o->launcher,
        .has_other_nodes = o->launcher != NULL,
        .least = o->quick ? CHECK_QUICK : CHECK_LONG,
        .deadline_ms = CHECK_MS,
    };
    out->name = xstrdup(topo_name(t));
    out->results = xcalloc(CHECKS, sizeof *out->results);
    rc = check_run(out->results, check_table(), CHECKS, &env, e);
    out->time_s = (double)clock_ms_of(CLOCK_REALTIME) / 1e3;
    return rc;
}

/* ---- several nodes -------------------------------------------------------------------------- */

static void pass(char ***argv, const char *name, const char *value)
{
    if (!value)
        return;
    strv_push(argv, xstrdup(name));
    strv_push(argv, xstrdup(value));
}

/* The command that checks one node: the same options, without the nodes. */
static char **node_command(const struct doctor_options *o)
{
    char *const *command = o->command;
    char **argv = NULL;
    strv_push(&argv, xstrdup("doctor"));
    strv_push(&argv, xstrdup("--json"));
    if (o->quick)
        strv_push(&argv, xstrdup("--quick"));
    AUTO(free) char *ranks = o->ranks ? xasprintf("%d", o->ranks) : NULL;
    pass(&argv, "--npernode", ranks);
    pass(&argv, "--launcher", o->launcher);
    for (size_t i = 0; i < strv_len(o->dirs); i++)
        pass(&argv, "--dir", o->dirs[i]);
    if (command && *command)
        strv_push(&argv, xstrdup("--"));
    for (; command && *command; command++)
        strv_push(&argv, xstrdup(*command));
    return argv;
}

static void read_answer(struct doctor_node *out, const char *name, struct node_answer *a)
{
    out->name = xstrdup(name);
    if (a->text && doctor_report_read_node(out, a->text, &a->error) < 0)
        err_wrap(&a->error, "%s", name);
    doctor_report_judge_clock(out, a->begin_s, a->end_s);
    if (!out->results)
        out->error = xstrdup(a->error.text);
}

static int check_nodes(struct doctor_report *r, const struct hosts *hosts,
                       const struct doctor_options *o, struct err *e)
{
    AUTO(strv) char **argv = node_command(o);
    struct node_answer *answers = xcalloc((size_t)hosts->count, sizeof *answers);
    int rc = node_query(answers, hosts, (const char *const *)argv, NODE_MS, e);
    r->nodes = xcalloc((size_t)hosts->count, sizeof *r->nodes);
    for (int i = 0; rc == 0 && i < hosts->count; i++, r->count++)
        read_answer(&r->nodes[i], hosts->at[i].name, &answers[i]);
    node_query_free(answers, hosts->count);
    return rc;
}

/* Runs the active checks. The ranks of a node are those of -N, or else its GPUs, which are those of
 * this machine. */
static int measure(struct doctor_report *r, const struct hosts *hosts,
                   const struct doctor_options *o, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    int rc = topo_load_within(&t, CHECK_MS, e);
    if (rc < 0)
        return rc;
    const struct active_opts opts = {.hosts = hosts,
                                     .per_node = o->ranks ? o->ranks : topo_gpu_count(t),
                                     .gpus = topo_gpu_count(t) > 0};
    return active_checks_run(r, &opts, e);
}

static int check_all(struct doctor_report *r, const struct doctor_options *o, struct err *e)
{
    AUTO(hosts) struct hosts *hosts = NULL;
    double begin = clock_s();
    int rc = node_query_hosts(&hosts, &o->nodes, e);
    if (rc == 0 && hosts) {
        rc = check_nodes(r, hosts, o, e);
    } else if (rc == 0) {
        r->nodes = xcalloc(1, sizeof *r->nodes);
        r->count = 1;
        rc = check_here(r->nodes, o, e);
    }
    doctor_report_compare(r);
    if (rc == 0 && o->full)
        rc = measure(r, hosts, o, e);
    r->seconds = clock_s() - begin;
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int explain(const char *id, struct err *e)
{
    const struct check *c = check_find(id);
    if (!c) {
        const char *ids[CHECKS];
        for (size_t i = 0; i < CHECKS; i++)
            ids[i] = check_table()[i].id;
        const char *near = opt_suggest(id, ids, CHECKS);
        err_set(e, -EINVAL, "--explain: there is no check '%s'", id);
        return err_hint(e, "%s", near ? near : "drover doctor -v  shows all checks");
    }
    printf("%s: %s\n%s\ntry: %s\n", c->id, c->what, c->why, c->advice ? c->advice : "-");
    for (size_t i = 0; i < CHECK_NEEDS_MAX && c->needs[i]; i++)
        printf("needs: %s\n", c->needs[i]);
    puts(c->when == CHECK_STOP     ? "It precedes each job with GPUs, which a failure stops."
         : c->when == CHECK_REPORT ? "It precedes each job with GPUs, which reports a failure."
                                   : "It is not part of the preflight of a job.");
    return 0;
}

static void print_report(const struct doctor_report *r, const struct doctor_options *o)
{
    if (o->json) {
        AUTO(json) json_t *j = doctor_report_json(r);
        AUTO(free) char *line = json_line(j);
        puts(line);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    doctor_report_text(&b, r, o->verbose);
    fputs(strbuf_str(&b), stdout);
}

/* Returns the exit status, or -errno. */
static int check(const struct doctor_options *o, struct err *e)
{
    if (o->explain)
        return explain(o->explain, e);
    AUTO(json) json_t *expected = NULL;
    int rc = o->expect ? doctor_expect_read(&expected, o->expect, e) : 0;
    if (rc < 0)
        return rc;
    struct doctor_report r = {0};
    rc = check_all(&r, o, e);
    if (rc == 0) {
        doctor_expect_compare(&r, expected);
        print_report(&r, o);
        rc = o->save ? doctor_expect_write(&r, o->save, e) : 0;
    }
    if (rc == 0 && o->bundle)
        rc = write_bundle(&r, o->bundle, e);
    struct doctor_counts n = doctor_report_count(&r);
    doctor_report_free(&r);
    return rc < 0 ? rc : n.fail > 0 || (o->strict && n.warn > 0) ? EXIT_STATUS_FAILED : 0;
}

static int run(char **no_words, void *into, struct err *e)
{
    int rc = check(into, e);
    return rc == -EACCES || rc == -EBADMSG ? EXIT_STATUS_USAGE : rc;
}

int cmd_doctor(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover doctor",
                 "[--hostfile FILE | --host LIST] [options] [-- program [arguments]]",
                 "Checks the nodes of a job, and names what would slow it or break it: the value "
                 "found, the value wanted, where it was read, and what to do. Changes nothing.",
                 "drover doctor\ndrover doctor --hostfile hosts -- ./train\n"
                 "drover doctor --explain host.shm"},
        .options = options,
        COMMAND_PROGRAM(struct doctor_options, command),
        .run = run};
    struct doctor_options o = {0};
    int status = command_run(&command, &o, argc, argv);
    strv_free(o.dirs);
    return status;
}
