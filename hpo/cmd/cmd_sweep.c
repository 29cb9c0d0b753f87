/* cmd_sweep - `drover sweep FILE`: from a sweep file to its best trial. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/sched_batch.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_hosts.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/coordinator/progress_display.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/samplers/sweep_file.h"
#include "hpo/samplers/warm_start.h"
#include "hpo/store/command_client.h"
#include "hpo/store/sweep_reader.h"
#include "hpo/worker/node_slice.h"
#include "launcher/node/cgroup.h"

enum { TABLE_MAX = 20, DRY_TRIALS_MAX = 10 };

struct sweep_options {
    char **words;     /* strv: the sweep file; of `resume`: the name */
    const char *file; /* NULL: --resume of the stored one */
    const char *name, *root;
    char **where; /* strv: options of `drover run` that say where; NULL: none */
    char **prior; /* strv: other sweeps to learn from; NULL: none */
    int parallel;
    int here;           /* trials at once on this machine; -1: as many as fit */
    const char *listen; /* NULL: as last time */
    bool resume, plain, json, quiet, dry_run;
    bool has_seed;
    uint64_t seed;
};

static int set_seed(void *into, char *const *values, struct err *e)
{
    struct sweep_options *o = into;
    char *end;
    errno = 0;
    o->seed = strtoull(values[0], &end, 10);
    o->has_seed = true;
    if (errno || *end || values[0][0] == '-' || !*values[0])
        return err_set(e, -EINVAL, "--seed: '%s' is no number from 0 to 2^64 - 1", values[0]);
    return 0;
}

static const struct opt options[] = {
    OPT_STR(0, "name", "NAME", "the sweep's name (default: the file's `name`, or its own)",
            struct sweep_options, name),
    OPT_STR(0, "dir", "D", "the directory of all sweeps (default: sweeps)", struct sweep_options,
            root),
    OPT_INT(0, "parallel", "K", "trials at once (default: as many as fit)", struct sweep_options,
            parallel),
    OPT_INT(0, "here", "N", "of these, on this machine; 0: none (default: as many as fit)",
            struct sweep_options, here),
    OPT_WORDS(0, "hostfile|machinefile|f", "FILE",
              "nodes to start workers on, and their slots, one a line", struct sweep_options,
              where),
    OPT_WORDS('H', "host", "LIST", "the same: a:4,b:4", struct sweep_options, where),
    OPT_WORDS(0, "engine", "NAME", "who starts them: openmpi, slurm", struct sweep_options, where),
    OPT_WORDS(0, "mca", "KEY VALUE", "passed on to mpirun", struct sweep_options, where),
    OPT_STR(0, "listen", "[ADDRESS][:PORT]",
            "let workers of other machines join, who have the sweep's worker.key",
            struct sweep_options, listen),
    OPT_FLAG(0, "plain", "with --listen, on loopback: without keys", struct sweep_options, plain),
    OPT_FLAG(0, "resume", "go on with a sweep that is there; without FILE: as it is stored",
             struct sweep_options, resume),
    OPT_STRV(0, "prior", "NAME", "a sweep, or its directory, to learn from before the first trial",
             struct sweep_options, prior),
    OPT_CALL(0, "seed", "N", "of the search (default: the file's, or 0)", set_seed),
    OPT_FLAG(0, "json", "print all trials for programs, not a table", struct sweep_options, json),
    OPT_FLAG('q', "quiet", "no progress", struct sweep_options, quiet),
    OPT_FLAG(0, "dry-run", "print what would be run first, and stop", struct sweep_options,
             dry_run),
    OPT_END,
};

static const char usage_text[] =
    "FILE [--name N] [--parallel K] | resume NAME | ls | show | stop | pause | retry | add";
static const char what[] =
    "Searches hyperparameters: runs the trials that a sweep file asks for, on this machine and on\n"
    "workers that join. Run it again to go on where it stopped.";

/* ---- reading -------------------------------------------------------------------------------- */

static int read_options(struct sweep_options *o, int argc, char **argv, struct err *e)
{
    int rc = hpo_commands_words(&o->words, 1, options, o, argc, argv, e);
    if (rc != 0)
        return rc;
    const char *word = o->words ? o->words[0] : NULL;
    bool resumes = strcmp(argv[0], "resume") == 0; /* `sweep resume NAME` */
    o->file = resumes ? NULL : word;
    o->name = resumes && word ? word : o->name;
    o->resume |= resumes;
    if (!o->file && !(o->resume && o->name)) {
        err_set(e, -EINVAL, "no sweep file given");
        return err_hint(e, "drover sweep FILE, or drover sweep resume NAME");
    }
    if (o->parallel < 0)
        return err_set(e, -EINVAL, "--parallel %d: at least 1", o->parallel);
    if (o->name && !sweep_dir_name_ok(o->name))
        return err_set(e, -EINVAL,
                       "--name '%s': letters, digits, '.', '_' and '-', at most %d of them",
                       o->name, SWEEP_DIR_NAME_MAX);
    return 0;
}

/* The whole file; to be freed. */
static int read_file(char **out, const char *path, struct err *e)
{
    AUTO(file) FILE *f = fopen(path, "re");
    if (!f)
        return err_set(e, -errno, "sweep file '%s': %s", path, strerror(errno));
    AUTO(strbuf) struct strbuf b = {0};
    char chunk[8192];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0 && b.len <= YAML_SIZE_MAX;)
        strbuf_add(&b, chunk, n);
    if (ferror(f))
        return err_set(e, -EIO, "sweep file '%s': %s", path, strerror(errno));
    if (memchr(b.data ? b.data : "", 0, b.len))
        return err_set(e, -EINVAL, "sweep file '%s': not a text", path);
    *out = strbuf_take(&b);
    return 0;
}

/* --name, the file's own `name`, or the name of the file without its ending. To be freed. */
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

/* How many trials the worker on this host runs at once. `asked`: of --here. */
static int count_places(int *out, const struct spec *spec, int asked, struct err *e)
{
    if (asked >= 0) {
        *out = asked;
        return 0;
    }
    AUTO(topo) struct topo *t = NULL;
    const struct node_slice_opts want = {.visible = getenv("CUDA_VISIBLE_DEVICES"),
                                         .places = spec->parallel,
                                         .memory_bytes = cgroup_memory(""),
                                         .need = spec->need};
    struct node_slice *shares = NULL;
    int rc = topo_load(&t, e);
    if (rc == 0)
        rc = node_slice_make(&shares, out, t, &want, e);
    if (rc == 0)
        node_slice_free(shares, *out);
    return rc;
}

/* ---- what other sweeps saw ------------------------------------------------------------------ */

/* Opens a sweep by its name or, where there is a '/' in it, its directory. */
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

/* What is to be said about a sweep that was learnt from. To be freed. */
static char *taken_text(const char *name, const struct warm_start_counts *n)
{
    struct strbuf b = {0};
    strbuf_printf(&b, "prior %s: %zu of %zu trials taken", name, n->taken, n->done);
    if (n->outside > 0)
        strbuf_printf(&b, "; %zu outside of the space", n->outside);
    if (n->valueless > 0)
        strbuf_printf(&b, "; %zu without a value of each metric", n->valueless);
    return strbuf_take(&b);
}

/* All that --prior names, as struct sweep_dir has it; NULL in *out: nothing. What was taken is
 * appended to the strv *said. */
static int read_prior(json_t **out, char ***said, const struct sweep_options *o,
                      const struct spec *spec, struct err *e)
{
    AUTO(json) json_t *from = json_array(), *seen = json_array();
    for (char **name = o->prior; name && *name; name++) {
        if (!spec->method->learns_from_warm_start) {
            strv_push(said,
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
        struct trial_view trials = scheduler_view(v->sched);
        struct warm_start_counts n =
            warm_start_import(seen, spec, &trials, v->spec->metrics[0].name);
        json_array_append_new(from, json_string(v->dir->path));
        strv_push(said, taken_text(*name, &n));
    }
    if (o->prior)
        *out = json_pack("{s:O, s:O}", "from", from, "observations", seen);
    return 0;
}

/* ---- a dry run ------------------------------------------------------------------------------ */

static int dry_run(const struct coordinator_opts *c, const struct sweep_options *o, struct err *e)
{
    AUTO(scheduler) struct scheduler *s = NULL;
    struct scheduler_out out = {0};
    int places = c->places < DRY_TRIALS_MAX ? c->places : DRY_TRIALS_MAX;
    places = places > 0 ? places : 1;
    AUTO(json)
    json_t *hello = json_pack("{s:s,s:i,s:[]}", "node", "here", "slots", places, "running");
    AUTO(json) json_t *trials = json_array();
    const struct scheduler_event ev = {SCHEDULER_EV_HELLO, "dry-run", 0, hello};
    int rc = scheduler_new(&s, c->spec, e);
    if (rc == 0)
        rc = scheduler_handle(s, &ev, 0, &out, e);
    for (size_t i = 0; rc == 0 && i < out.action_count; i++) {
        const struct scheduler_action *a = &out.actions[i];
        AUTO(strv) char **argv = NULL;
        if (a->kind != SCHEDULER_ACT_RUN ||
            (rc = run_message_argv(&argv, &c->order, a->trial, a->params, e)) < 0)
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
                                c->spec->method->name, "places", c->places, "trials", trials);
        AUTO(free) char *line = json_line(all);
        puts(line);
    }
    scheduler_out_free(&out);
    return rc;
}

/* ---- a run ---------------------------------------------------------------------------------- */

static void on_stored(void *arg, const struct scheduler *s, enum scheduler_record_kind kind,
                      int trial)
{
    progress_display_stored(arg, s, kind, trial);
}

static void on_changed(void *arg, const struct scheduler *s)
{
    progress_display_paint(arg, s);
}

static void on_interrupted(void *arg, bool again)
{
    progress_display_print(
        arg, again ? "drover sweep: trials are killed"
                   : "drover sweep: trials are asked to stop and go back to the queue; once "
                     "more kills them");
}

static const struct coordinator_events events = {
    .stored = on_stored, .changed = on_changed, .interrupted = on_interrupted};

static void print_best(struct strbuf *out, const struct sweep_reader *v,
                       const struct run_message *o, int best)
{
    AUTO(json) json_t *t = scheduler_trial_json(v->sched, best);
    const json_t *params = json_object_get(t, "params");
    const char *metric = v->spec->metrics[0].name;
    AUTO(strv) char **argv = NULL;
    strbuf_printf(out, "best: trial %d, %s %.6g: ", best, metric ? metric : "value",
                  json_number_value(json_object_get(t, "value")));
    progress_text_params(out, params);
    if (run_message_argv(&argv, o, best, params, NULL) == 0) {
        strbuf_puts(out, "\n  ");
        progress_text_shell(out, argv);
    }
    strbuf_putc(out, '\n');
}

static void print_result(const struct sweep_reader *v, const struct run_message *o, bool json)
{
    if (json) {
        AUTO(json) json_t *all = sweep_reader_json(v);
        AUTO(free) char *line = json_line(all);
        puts(line);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *trials = sweep_reader_trials(v), *pareto = sweep_reader_pareto(v);
    struct scheduler_counts counts = scheduler_counts(v->sched);
    int best = scheduler_recommended(v->sched);
    progress_text_table(&b, trials, v->spec, pareto, TABLE_MAX);
    strbuf_putc(&b, '\n');
    progress_text_counts(&b, &counts);
    strbuf_putc(&b, '\n');
    if (best >= 0)
        print_best(&b, v, o, best);
    fputs(strbuf_str(&b), stdout);
}

/* A sweep without a metric has a result when a trial was done. */
static bool has_result(const struct sweep_reader *v)
{
    return v->spec->metrics[0].name ? scheduler_best(v->sched) >= 0
                                    : scheduler_counts(v->sched).done > 0;
}

static void say_how_to_go_on(const char *name, const struct sweep_options *o)
{
    bool elsewhere = strcmp(o->root, "sweeps") != 0;
    fprintf(stderr, "drover sweep: stopped; to go on: drover sweep resume %s%s%s\n", name,
            elsewhere ? " --dir " : "", elsewhere ? o->root : "");
}

/* Returns 0, the signal that stopped it, or an error; *status is then the command's. */
static int coordinate(const struct coordinator_opts *c, const struct sweep_options *o, int *status,
                      struct err *e)
{
    AUTO(coordinator) struct coordinator *coord = NULL;
    *status = EXIT_USAGE;
    sched_batch_begin(); /* before ZeroMQ's thread */
    int rc = coordinator_open(&coord, c, e);
    if (rc < 0)
        return rc;
    *status = EXIT_WORK;
    if (coordinator_endpoint(coord) && !o->quiet)
        fprintf(stderr, "drover sweep: workers may join at %s%s\n", coordinator_endpoint(coord),
                o->listen && !o->plain ? ": drover worker --key worker.key" : "");
    struct progress_display *screen =
        progress_display_open(c->dir->name, c->spec, coordinator_scheduler(coord), o->quiet);
    rc = coordinator_run(coord, &events, screen, e);
    AUTO(free) char *why = rc == 0 ? xstrdup(coordinator_why(coord)) : NULL;
    coordinator_close(TAKE(coord)); /* it may still tell the screen */
    progress_display_close(screen);
    if (why && !o->quiet)
        fprintf(stderr, "drover sweep: the sweep is over: %s\n", why);
    return rc;
}

/* Prints what is stored, as `sweep show` would find it. `rc`: of coordinate(). */
static int finish(const struct run_message *order, const struct sweep_options *o, int rc,
                  struct err *e)
{
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    if (sweep_reader_open(&v, o->root, order->sweep, e) < 0)
        return EXIT_WORK;
    print_result(v, order, o->json);
    if (rc > 0) {
        say_how_to_go_on(order->sweep, o);
        return 128 + rc;
    }
    return has_result(v) ? 0 : EXIT_WORK;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* The spec of the file, or of the sweep that is stored. `*text` is the file's; NULL: the stored
 * one.
 */
static int read_spec(struct spec **out, char **text, const struct sweep_options *o, struct err *e)
{
    if (o->file) {
        int rc = read_file(text, o->file, e);
        return rc < 0 ? rc : sweep_reader_spec(out, *text, o->file, e);
    }
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    int rc = sweep_dir_read(&d, o->root, o->name, e);
    return rc < 0 ? rc : sweep_reader_spec(out, d->file, "sweep.yaml", e);
}

static void say_all(char **texts, const struct sweep_options *o)
{
    for (; texts && *texts && !o->quiet; texts++)
        fprintf(stderr, "drover sweep: %s\n", *texts);
}

/* Finds the nodes that workers are started on, and how many trials this one takes at once. */
static int find_where(struct sweep_hosts *w, int *places, const struct sweep_options *o,
                      const struct spec *spec, struct err *e)
{
    int rc = sweep_hosts_find(w, o->where, spec->need.ranks, e);
    if (rc == 0 && w->fleet.hosts && o->plain)
        rc = err_set(e, -EINVAL, "--plain: workers on other machines need keys");
    if (rc == 0)
        rc = count_places(places, spec, o->here >= 0 ? o->here : w->here, e);
    if (rc < 0 || *places > 0 || w->fleet.hosts || o->listen || o->resume)
        return rc;
    err_set(e, -EINVAL, "--here 0: nobody would run a trial");
    return err_hint(e,
                    "--hostfile FILE starts workers on other machines, --listen : lets them join");
}

/* Opens the sweep and works on it; `c` is settled but for what lies in its directory. `said`: what
 * was taken from other sweeps. Returns the exit status. */
static int run(struct coordinator_opts *c, struct spec *spec, const struct sweep_dir_opts *ask,
               char **said, const struct sweep_options *o, struct err *e)
{
    AUTO(guardian) struct guardian *guardian = NULL;
    AUTO(sweep_dir) struct sweep_dir *dir = NULL;
    AUTO(free) char *path = NULL;
    /* Before there is a thread, and without the sweep's lock, which it would keep. */
    if (c->fleet.hosts && guardian_start(&guardian, e) < 0)
        return EXIT_WORK;
    c->fleet.guardian = guardian;
    if (sweep_dir_open(&dir, ask, e) < 0)
        return EXIT_USAGE;
    sweep_reader_settle(spec, dir);
    if (dir->fresh || !ask->prior) /* else what was taken at its start counts */
        say_all(said, o);
    c->dir = dir;
    c->order.dir = path = xstrdup(dir->path);
    int status, rc = coordinate(c, o, &status, e);
    if (rc < 0)
        return status;
    sweep_dir_close(TAKE(dir)); /* lets go of the sweep */
    return finish(&c->order, o, rc, e);
}

static int sweep(const struct sweep_options *o, struct err *e)
{
    AUTO(where) struct sweep_hosts where = {0};
    AUTO(spec) struct spec *spec = NULL;
    AUTO(free) char *text = NULL;
    AUTO(free) char *here = realpath(".", NULL);
    AUTO(json) json_t *prior = NULL;
    AUTO(strv) char **said = NULL;
    int places = 0;
    if (read_spec(&spec, &text, o, e) < 0)
        return EXIT_USAGE;
    if (o->parallel > 0)
        spec->parallel = o->parallel;
    if (o->has_seed)
        spec->seed = o->seed;
    if (find_where(&where, &places, o, spec, e) < 0)
        return EXIT_USAGE;
    say_all(spec->notices, o);
    if (read_prior(&prior, &said, o, spec, e) < 0)
        return EXIT_USAGE;
    AUTO(free) char *name = name_of(o, spec);
    const char *listen = o->listen ? o->listen : where.fleet.hosts ? ":" : NULL;
    struct coordinator_opts config = {
        .spec = spec, .places = places, .listen = {listen, o->plain}, .fleet = where.fleet};
    if (listen_endpoint_check(&config.listen, e) < 0)
        return EXIT_USAGE;
    config.order = (struct run_message){spec, name, name, here ? here : "."};
    if (run_message_check(&config.order, e) < 0)
        return EXIT_USAGE;
    if (o->dry_run) {
        struct sweep_dir nowhere = {
            .name = name, .path = name, .lock = -1, .seed = spec->seed, .prior = prior};
        config.dir = &nowhere;
        sweep_reader_settle(spec, &nowhere);
        say_all(said, o);
        return dry_run(&config, o, e) < 0 ? EXIT_USAGE : 0;
    }
    const struct sweep_dir_opts ask = {.root = o->root,
                                       .name = name,
                                       .file = text,
                                       .seed = o->has_seed ? &o->seed : NULL,
                                       .file_seed = spec->seed,
                                       .prior = prior,
                                       .must_exist = o->resume};
    return run(&config, spec, &ask, said, o, e);
}

/* `sweep resume`: takes back a pause or a stop. Returns 0: the coordinator that is there goes on;
 * 1: there is none, so this process is to be it. */
static int take_back(const struct sweep_options *o, struct err *e)
{
    AUTO(json) json_t *ask = json_pack("{s:s}", "verb", "resume"), *answer = NULL;
    bool here = false;
    int rc = command_client_bring(&answer, &here, o->root, o->name, ask, e);
    if (rc == 0 && !here)
        printf("%s goes on\n", o->name);
    else if (here && rc == -EINVAL) /* it was neither: only nobody works on it */
        *e = (struct err){0};
    return here && (rc == 0 || rc == -EINVAL) ? 1 : rc;
}

static int start(const struct sweep_options *o, const char *verb, struct err *e)
{
    int rc = strcmp(verb, "resume") == 0 && !o->dry_run ? take_back(o, e) : 1;
    return rc > 0 ? sweep(o, e) : rc == 0 ? 0 : rc == -ETIMEDOUT ? EXIT_WORK : EXIT_USAGE;
}

int cmd_sweep(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"ls", cmd_sweep_ls},         {"show", cmd_sweep_show},
                 {"stop", cmd_sweep_control},  {"pause", cmd_sweep_control},
                 {"retry", cmd_sweep_control}, {"add", cmd_sweep_control}};
    for (size_t i = 0; argc > 1 && i < COUNT_OF(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "resume") == 0) {
        argc--;
        argv++;
    }
    struct sweep_options o = {.root = "sweeps", .here = -1};
    struct err e = {0};
    int rc = read_options(&o, argc, argv, &e);
    if (rc == OPT_HELP) {
        AUTO(strbuf) struct strbuf words = {0};
        sweep_file_help(&words);
        opt_help(stdout, log_who(), usage_text, what, options);
        printf("\n%s", strbuf_str(&words));
        return 0;
    }
    signal(SIGPIPE, SIG_IGN); /* a closed stdout ends no sweep */
    int status = rc < 0 ? EXIT_USAGE : start(&o, argv[0], &e);
    if (e.code < 0)
        err_print(&e, log_who());
    strv_free(o.prior);
    strv_free(o.words);
    strv_free(o.where);
    return status;
}
