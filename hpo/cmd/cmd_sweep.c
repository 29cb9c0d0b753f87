/* cmd_sweep - `drover sweep FILE`: reads the sweep file, finds nodes and slots, then runs the sweep
 * or shows what it would run. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_options.h"
#include "hpo/cmd/sweep_run.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/reader/sweep_reader.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/samplers/warm_start.h"
#include "hpo/store/command_client.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/worker/node_slice.h"
#include "launcher/node/cgroup.h"
#include "launcher/plan/allocation.h"
#include "launcher/run/run_options.h"

enum { DRY_TRIALS_MAX = 10 };

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the whole file. The caller frees *out. */
static int read_text(char **out, const struct sweep_options *o, struct err *e)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(free) char *stored = NULL;
    const char *path = o->file;
    int rc = file_read(&b, path, YAML_SIZE_MAX + 1); /* yaml_read() refuses more */
    bool is_name = rc == -ENOENT && sweep_dir_name_ok(path) &&
                   sweep_dir_find(&stored, o->root, path, NULL) == 0;
    if (is_name) {
        AUTO(free) char *resume = sweep_dir_command("drover sweep resume", o->root, path);
        err_set(e, rc, "'%s' is a stored sweep, not a sweep file", path);
        return err_hint(e, "%s", resume);
    }
    if (rc < 0 && rc != -EFBIG)
        return err_set(e, rc, "sweep file '%s': %s", path, strerror(-rc));
    if (memchr(b.data, 0, b.len))
        return err_set(e, -EINVAL, "sweep file '%s': not a text file", path);
    *out = strbuf_take(&b);
    return 0;
}

/* Returns --name, the file's own `name`, or the name of the file without its extension. The caller
 * frees it. */
static char *name_of(const struct sweep_options *o, const struct spec *spec)
{
    if (o->name)
        return xstrdup(o->name);
    if (spec->name)
        return sweep_dir_slug(spec->name);
    AUTO(free) char *path = xstrdup(o->file);
    char *base = basename(path), *dot = strrchr(base, '.');
    if (dot && dot != base)
        *dot = 0;
    return sweep_dir_slug(base);
}

/* Returns true if the stored file says the same, but for comments and a lower run_cap. `given` is
 * spec_json() of the file at hand. */
static bool is_same_sweep(const void *given, const char *stored)
{
    AUTO(spec) struct spec *spec = NULL;
    if (stored_sweep_spec(&spec, stored, "sweep.yaml", NULL) < 0)
        return false;
    AUTO(json) json_t *a = json_copy((json_t *)given), *b = spec_json(spec);
    json_int_t cap = json_integer_value(json_object_get(a, "run_cap"));
    bool raised = spec->run_cap > 0 ? cap >= spec->run_cap : cap == 0;
    json_object_del(a, "run_cap");
    json_object_del(b, "run_cap");
    return raised && json_equal(a, b);
}

/* If is_same_sweep(), takes the stored file of sweep `name` for that of the user, in `*text` and
 * `spec`, and raises the sweep's run_cap to that of the user's file. Returns 1 if a coordinator is
 * running, which then continues, otherwise 0. Errors as command_client_send(). */
static int raise_run_cap(char **text, struct spec *spec, const char *name, const json_t *given,
                         const struct sweep_options *o, struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    if (o->restart || !*text || sweep_reader_open(&v, o->root, name, NULL) < 0 ||
        strcmp(v->dir->file, *text) == 0 || !is_same_sweep(given, v->dir->file))
        return 0;
    int cap = (int)json_integer_value(json_object_get(given, "run_cap"));
    int more = cap - v->spec->run_cap - v->columns->commands.raised;
    free(*text);
    *text = xstrdup(v->dir->file);
    spec->run_cap = o->dry_run ? spec->run_cap : v->spec->run_cap;
    if (more <= 0 || o->dry_run)
        return 0;
    bool applied_here = false;
    AUTO(json) json_t *reply = NULL;
    AUTO(json) json_t *command = json_pack("{s:s, s:i}", "verb", "add", "trials", more);
    int rc = command_client_send(&reply, &applied_here, o->root, name, command, e);
    if (rc == 0 && !o->quiet)
        fprintf(stderr, "drover sweep: the run_cap of '%s' is raised to %d\n", name, cap);
    return rc == 0 && !applied_here ? 1 : rc;
}

/* Returns the name of the sweep; the caller frees it. A sweep that has no name of the user's own
 * gets the next one that is free, if another file is stored under its name. */
static char *choose_name(const struct sweep_options *o, const struct spec *spec, const char *text,
                         const json_t *given)
{
    AUTO(free) char *name = name_of(o, spec);
    if (o->name || o->resume || o->restart)
        return TAKE(name);
    char *chosen = sweep_dir_unused_name(&(struct sweep_dir_opts){
        .root = o->root, .name = name, .file = text, .same = is_same_sweep, .arg = given});
    if (strcmp(chosen, name) != 0 && !o->quiet)
        fprintf(stderr,
                "drover sweep: '%s' is a sweep with another file, so this one is '%s' (--restart "
                "replaces '%s')\n",
                name, chosen, name);
    return chosen;
}

/* The number of trials that the worker on this host runs at once. `requested`: by --here; -1: as
 * many as fit. */
static int count_slots(int *out, const struct spec *spec, int requested, struct err *e)
{
    if (requested >= 0) {
        *out = requested;
        return 0;
    }
    AUTO(topo) struct topo *t = NULL;
    const struct node_slice_opts opts = {.visible = getenv("CUDA_VISIBLE_DEVICES"),
                                         .slots = spec->parallel,
                                         .memory_bytes = cgroup_memory(""),
                                         .need = spec->need};
    struct node_slice *slices = NULL;
    int rc = topo_load(&t, e);
    if (rc == 0)
        rc = node_slice_make(&slices, out, t, &opts, e);
    if (rc == 0)
        node_slice_free(slices, *out);
    return rc;
}

/* ---- warm start ----------------------------------------------------------------------------- */

/* Opens a sweep by its name or, if the text has a '/', by its directory. */
static int open_other(struct sweep_reader **out, const char *name, const char *root, struct err *e)
{
    if (!strchr(name, '/'))
        return sweep_reader_open(out, root, name, e);
    AUTO(free) char *path = realpath(name, NULL);
    char *base = path ? strrchr(path, '/') : NULL;
    if (!base)
        return err_set(e, -errno, "'%s': %s", name, strerror(errno));
    *base = 0;
    return sweep_reader_open(out, path, base + 1, e);
}

/* How many trials of a sweep were imported, for the user. The caller frees it. */
static char *import_text(const char *name, const struct warm_start_counts *n)
{
    struct strbuf b = {0};
    strbuf_printf(&b, "prior %s: %zu of %zu trial%s used", name, n->taken, n->done,
                  plural_s((long long)n->done));
    const char *reason;
    json_t *count;
    json_object_foreach (n->left_out, reason, count)
        strbuf_printf(&b, "; %lld left out: %s", (long long)json_integer_value(count), reason);
    return strbuf_take(&b);
}

/* Reads all sweeps that --prior names, in the form of struct sweep_dir; *out stays NULL without
 * --prior. Appends a notice for each to the strv *notices. */
static int read_prior(json_t **out, char ***notices, const struct sweep_options *o,
                      const struct spec *spec, struct err *e)
{
    AUTO(json) json_t *from = json_array(), *observations = json_array();
    for (char **name = o->prior; name && *name; name++) {
        if (!spec->method->learns_from_warm_start) {
            strv_push(notices,
                      xasprintf("--prior is ignored: method %s does not learn from earlier sweeps",
                                spec->method->name));
            return 0;
        }
        AUTO(sweep_reader) struct sweep_reader *v = NULL;
        int rc = open_other(&v, *name, o->root, e);
        if (rc < 0)
            return err_wrap(e, "--prior");
        for (size_t i = 0; i < json_array_size(from); i++)
            if (strcmp(json_string_value(json_array_get(from, i)), v->dir->path) == 0)
                return err_set(e, -EINVAL, "--prior: '%s' is given twice", *name);
        struct trial_view trials = sweep_columns_all(v->columns);
        struct warm_start_counts n =
            warm_start_import(observations, spec, &trials, v->spec->metrics[0].name);
        sweep_columns_view_free(&trials);
        json_array_append_new(from, json_string(v->dir->path));
        strv_push(notices, import_text(*name, &n));
        json_decref(n.left_out);
    }
    if (o->prior)
        *out = json_pack("{s:O, s:O}", "from", from, "observations", observations);
    return 0;
}

/* ---- a dry run ------------------------------------------------------------------------------ */

static int dry_run(const struct coordinator_opts *c, const struct sweep_options *o, struct err *e)
{
    AUTO(scheduler) struct scheduler *s = NULL;
    struct scheduler_out out = {0};
    int slots = c->slots < DRY_TRIALS_MAX ? c->slots : DRY_TRIALS_MAX;
    slots = slots > 0 ? slots : 1;
    AUTO(json)
    json_t *hello = json_pack("{s:s,s:i,s:[]}", "node", "here", "slots", slots, "running");
    AUTO(json) json_t *trials = json_array();
    const struct scheduler_event ev = {SCHEDULER_EV_HELLO, "dry-run", 0, hello};
    int rc = scheduler_new(&s, c->spec, e);
    if (rc == 0)
        rc = scheduler_handle(s, &ev, 0, &out, e);
    for (size_t i = 0; rc == 0 && i < out.action_count; i++) {
        const struct scheduler_action *a = &out.actions[i];
        AUTO(strv) char **argv = NULL;
        if (a->kind != SCHEDULER_ACT_RUN ||
            (rc = run_message_argv(&argv, &c->run_message, a->trial, a->params, e)) < 0)
            continue;
        AUTO(strbuf) struct strbuf b = {0};
        progress_text_shell(&b, argv);
        if (!o->json)
            puts(strbuf_str(&b));
        json_array_append_new(trials, json_pack("{s:i,s:O,s:s}", "id", a->trial, "params",
                                                a->params, "command", strbuf_str(&b)));
    }
    if (rc == 0 && o->json) {
        AUTO(json)
        json_t *all = json_pack("{s:s,s:s,s:i,s:O}", "name", c->dir->name, "method",
                                c->spec->method->name, "places", c->slots, "trials", trials);
        AUTO(free) char *line = json_line(all);
        puts(line);
    }
    scheduler_out_free(&out);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Reads the sweep file, or the file of the stored sweep. *text is the file's text; NULL: stored. */
static int read_spec(struct spec **out, char **text, const struct sweep_options *o, struct err *e)
{
    if (o->file) {
        int rc = read_text(text, o, e);
        return rc < 0 ? rc : stored_sweep_spec(out, *text, o->file, e);
    }
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    int rc = sweep_dir_read(&d, o->root, o->name, e);
    return rc < 0 ? rc : stored_sweep_read(out, d, e);
}

/* The nodes on which a sweep starts workers: from a host file, -H, or the allocation that drover
 * runs in. */
struct sweep_hosts {
    struct run_options run;           /* owns the hosts of `fleet` */
    char **argv;                      /* strv: a command line of `drover run` */
    struct remote_workers_opts fleet; /* without hosts: only this node */
    int local_slots;                  /* slots of this node; 0: none, -1: as many as fit */
};

static void auto_sweep_hosts(struct sweep_hosts *w)
{
    if (w->argv)
        run_options_free(&w->run);
    strv_free(w->argv);
}

/* `options`: those of `drover run` that name nodes (strv, or NULL); `ranks`: per trial. Errors as
 * run_options_parse(). */
static int read_hosts(struct sweep_hosts *w, char *const *options, int ranks, struct err *e)
{
    AUTO(hosts) struct hosts *allocated = NULL;
    w->local_slots = -1;
    int rc = options ? 1 : allocation_find(&allocated, environ, e);
    if (rc <= 0)
        return rc;
    strv_push(&w->argv, xstrdup("drover sweep"));
    for (size_t i = 0; i < strv_len((char **)options); i++)
        strv_push(&w->argv, xstrdup(options[i]));
    strv_push(&w->argv, xstrdup("worker")); /* as remote_workers.c names the program */
    rc = run_options_parse(&w->run, "drover sweep", (int)strv_len(w->argv), w->argv, e);
    if (rc < 0)
        return rc;
    const struct hosts *all = w->run.hosts;
    w->fleet = (struct remote_workers_opts){
        .spec = &w->run.spec,
        .ranks = ranks,
        .limit = options != NULL /* an allocation's slots are tasks, not trials */};
    bool has_local = false;
    for (int i = 0; all && i < all->count; i++) {
        const struct host *h = &all->at[i];
        if (!h->here) {
            w->fleet.hosts = all;
            continue;
        }
        has_local = true;
        w->local_slots = remote_workers_slots(&w->fleet, h);
    }
    if (!has_local)
        w->local_slots = all ? 0 : -1;
    else if (w->local_slots == 0)
        w->local_slots = -1;
    return 0;
}

/* Finds the nodes that workers are started on, and the number of slots of this one. */
static int find_hosts(struct sweep_hosts *w, int *slots, const struct sweep_options *o,
                      const struct spec *spec, struct err *e)
{
    int rc = read_hosts(w, o->host_options, spec->need.ranks, e);
    if (rc == 0 && w->fleet.hosts && o->plain)
        rc = err_set(e, -EINVAL, "--plain: workers on other machines require keys");
    if (rc == 0)
        rc = count_slots(slots, spec, o->local_slots >= 0 ? o->local_slots : w->local_slots, e);
    if (rc < 0 || *slots > 0 || w->fleet.hosts || o->listen || o->resume)
        return rc;
    err_set(e, -EINVAL, "--here 0: no worker would run the trials");
    return err_hint(e, "--hostfile FILE starts workers on other machines, --listen : accepts them");
}

static int sweep(const struct sweep_options *o, struct err *e)
{
    AUTO(sweep_hosts) struct sweep_hosts hosts = {0};
    AUTO(spec) struct spec *spec = NULL;
    AUTO(free) char *text = NULL;
    AUTO(free) char *wdir = realpath(".", NULL), *root = realpath(o->root, NULL);
    AUTO(json) json_t *prior = NULL, *given = NULL;
    AUTO(strv) char **notices = NULL;
    int slots = 0;
    if (read_spec(&spec, &text, o, e) < 0)
        return EXIT_STATUS_USAGE;
    given = spec_json(spec); /* before the options change it */
    if (o->parallel > 0)
        spec->parallel = o->parallel;
    if (o->has_seed)
        spec->seed = o->seed;
    if (find_hosts(&hosts, &slots, o, spec, e) < 0)
        return EXIT_STATUS_USAGE;
    sweep_run_print_notices(spec->notices, o);
    if (read_prior(&prior, &notices, o, spec, e) < 0)
        return EXIT_STATUS_USAGE;
    AUTO(free) char *name = choose_name(o, spec, text, given);
    const char *listen = o->listen ? o->listen : hosts.fleet.hosts ? ":" : NULL;
    struct coordinator_opts config = {
        .spec = spec, .slots = slots, .listen = {listen, o->plain}, .remote_workers = hosts.fleet};
    if (listen_endpoint_check(&config.listen, e) < 0)
        return EXIT_STATUS_USAGE;
    config.run_message =
        (struct run_message_opts){spec, name, root ? root : o->root, wdir ? wdir : "."};
    if (run_message_check(&config.run_message, e) < 0)
        return EXIT_STATUS_USAGE;
    config.run_message.dir = name;
    int rc = raise_run_cap(&text, spec, name, given, o, e);
    if (rc != 0)
        return rc < 0 ? EXIT_STATUS_USAGE : 0;
    if (o->dry_run) {
        struct sweep_dir nowhere = {.name = name, .path = name, .seed = spec->seed, .prior = prior};
        config.dir = &nowhere;
        stored_sweep_apply(spec, &nowhere);
        sweep_run_print_notices(notices, o);
        return dry_run(&config, o, e) < 0 ? EXIT_STATUS_USAGE : 0;
    }
    const struct sweep_dir_opts dir_opts = {.root = o->root,
                                            .name = name,
                                            .file = text,
                                            .seed = o->has_seed ? &o->seed : NULL,
                                            .file_seed = spec->seed,
                                            .prior = prior,
                                            .must_exist = o->resume};
    return sweep_run(&config, spec, &dir_opts, notices, o, e);
}

/* `sweep resume` withdraws a pause or a stop. Returns 0 if a running coordinator continues, 1 if
 * this process has to become the coordinator. */
static int send_resume(const struct sweep_options *o, struct err *e)
{
    AUTO(json) json_t *command = json_pack("{s:s}", "verb", "resume"), *reply = NULL;
    bool applied_here = false;
    int rc = command_client_send(&reply, &applied_here, o->root, o->name, command, e);
    if (rc == 0 && !applied_here)
        printf("%s is resumed\n", o->name);
    else if (applied_here && rc == -EINVAL) /* neither paused nor stopped, only not running */
        *e = (struct err){0};
    return applied_here && (rc == 0 || rc == -EINVAL) ? 1 : rc;
}

static int start(const struct sweep_options *o, const char *verb, struct err *e)
{
    int rc = strcmp(verb, "resume") == 0 && !o->dry_run ? send_resume(o, e) : 1;
    return rc > 0             ? sweep(o, e)
           : rc == 0          ? 0
           : rc == -ETIMEDOUT ? EXIT_STATUS_FAILED
                              : EXIT_STATUS_USAGE;
}

static const struct subcommand {
    const char *name, *usage, *help;
    int (*run)(int argc, char **argv); /* NULL: cmd_sweep() itself */
} subcommands[] = {
    {"ls", "", "list the sweeps", cmd_sweep_ls},
    {"show", " NAME [TRIAL]", "show the trials of a sweep, or one of them", cmd_sweep_show},
    {"best", " NAME", "show the best trial and its command", cmd_sweep_best},
    {"logs", " NAME TRIAL", "print the output of a trial", cmd_sweep_logs},
    {"stop", " NAME [TRIAL...]", "end a sweep when its running trials finish", cmd_sweep_control},
    {"cancel", " NAME [TRIAL...]", "end a sweep and its running trials", cmd_sweep_control},
    {"pause", " NAME", "start no more trials until resume", cmd_sweep_control},
    {"resume", " NAME", "continue a sweep that was paused or stopped", NULL},
    {"retry", " NAME TRIAL...", "rerun trials that failed", cmd_sweep_control},
    {"add", " NAME ...", "add trials to a sweep", cmd_sweep_control},
    {"rm", " NAME", "remove a sweep with all its files", cmd_sweep_rm},
};

static void print_help_of_resume(void)
{
    opt_print_help(stdout,
                   &(struct opt_help){.program = "drover sweep resume",
                                      .usage = "NAME [options]",
                                      .summary = "Continues a sweep that was paused or stopped.",
                                      .examples = "drover sweep resume digits"},
                   sweep_options_rows);
}

static void print_help(void)
{
    AUTO(strbuf) struct strbuf summary = {0};
    strbuf_puts(&summary, "Searches hyperparameters: runs the trials that a sweep file asks for, "
                          "on this machine and on workers that join. Run the same command again to "
                          "continue a sweep.\n\n"
                          "Commands, each with --help:");
    for (size_t i = 0; i < COUNT_OF(subcommands); i++) {
        AUTO(free) char *label = xasprintf("%s%s", subcommands[i].name, subcommands[i].usage);
        strbuf_printf(&summary, "\n  %-24s%s", label, subcommands[i].help);
    }
    const struct opt_help help = {.program = "drover sweep",
                                  .usage = "[options] FILE | resume [options] NAME | COMMAND ...",
                                  .summary = strbuf_str(&summary),
                                  .examples = "drover sweep digits.yaml --parallel 4\n"
                                              "drover sweep show digits\n"
                                              "drover sweep digits.yaml --listen :7010"};
    opt_print_help(stdout, &help, sweep_options_rows);
    AUTO(strbuf) struct strbuf words = {0};
    sweep_file_help(&words);
    printf("\n%s", strbuf_str(&words));
}

/* Words of other programs for what a command does: the words after `drover`. */
static const struct {
    const char *word, *command;
} other_words[] = {
    {"status", "sweep show"},   {"info", "sweep show"},
    {"describe", "sweep show"}, {"get", "sweep show"},
    {"list", "sweep ls"},       {"log", "sweep logs"},
    {"output", "sweep logs"},   {"remove", "sweep rm"},
    {"delete", "sweep rm"},     {"kill", "sweep cancel"},
    {"abort", "sweep cancel"},  {"continue", "sweep resume"},
    {"cont", "sweep resume"},   {"rerun", "sweep retry"},
    {"help", "sweep --help"},   {"start", "sweep FILE"},
    {"run", "sweep FILE"},      {"create", "sweep FILE"},
    {"export", "export NAME"},  {"agent", "worker --key sweeps/NAME/worker.key"},
};

/* A mistyped command looks like the name of a file. `next` is the word after it (NULL: none).
 * Returns the command that was meant, after `drover`, "" if it is none of them, or NULL for a file.
 * The caller frees it. */
static char *meant_command(const char *word, const char *next)
{
    const char *names[COUNT_OF(subcommands)];
    if (strpbrk(word, "-./") == word || access(word, F_OK) == 0)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(other_words); i++)
        if (strcmp(other_words[i].word, word) == 0)
            return xstrdup(other_words[i].command);
    for (size_t i = 0; i < COUNT_OF(subcommands); i++)
        names[i] = subcommands[i].name;
    const char *near = opt_suggest(word, names, COUNT_OF(names));
    bool file = strpbrk(word, "./") || !next || *next == '-';
    AUTO(free) char *stored = NULL;
    if (next && sweep_dir_name_ok(word) && sweep_dir_find(&stored, "sweeps", word, NULL) == 0)
        return xasprintf("sweep show %s %s", word, next);
    return near ? xasprintf("sweep %s", near) : file ? NULL : xstrdup("");
}

static int unknown_command(const char *word, const char *meant)
{
    struct err e = {0};
    err_set(&e, -EINVAL, "unknown command '%s'", word);
    err_hint(&e, "drover %s", *meant ? meant : "sweep --help  lists the commands");
    err_print(&e, log_program());
    return EXIT_STATUS_USAGE;
}

int cmd_sweep(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    for (size_t i = 0; argc > 1 && i < COUNT_OF(subcommands); i++) {
        if (strcmp(argv[1], subcommands[i].name) != 0)
            continue;
        argc--;
        argv++;
        if (subcommands[i].run)
            return subcommands[i].run(argc, argv);
        break;
    }
    AUTO(free) char *meant = word && word == argv[1] ? meant_command(word, argv[2]) : NULL;
    if (meant)
        return unknown_command(word, meant);
    struct sweep_options o;
    struct err e = {0};
    int rc = sweep_options_parse(&o, argc, argv, &e), status = 0;
    if (rc == OPT_HELP) {
        (strcmp(argv[0], "resume") == 0 ? print_help_of_resume : print_help)();
    } else {
        signal(SIGPIPE, SIG_IGN); /* a closed stdout must not end the sweep */
        status = rc < 0 ? EXIT_STATUS_USAGE : start(&o, argv[0], &e);
    }
    if (e.code < 0)
        err_print(&e, log_program());
    sweep_options_free(&o);
    return status;
}
