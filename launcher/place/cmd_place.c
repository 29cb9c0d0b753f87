/* cmd_place - `drover place JOB.yaml`: selects GPUs for a job and runs it there, or shows the
 * choice or another program's command. */
#include <errno.h>
#include <stdio.h>

#include "common/command.h"
#include "launcher/jobs/commands.h"
#include "launcher/place/place_emit.h"
#include "launcher/place/place_print.h"
#include "launcher/place/placement.h"

struct place_options {
    const char *file, *labels, *emit;
    bool dry_run, json;
    char *const *program; /* and its arguments, or an empty list */
};

static const struct opt options[] = {
    OPT_LAST_COUNTS,
    OPT_FLAG(0, "dry-run", "print why each GPU is selected or not, and start nothing",
             struct place_options, dry_run),
    OPT_FLAG(0, "json", "with --dry-run: print JSON", struct place_options, json),
    OPT_STR(0, "emit", "docker|sbatch|mpirun|k8s",
            "print this program's command for the job, and start nothing", struct place_options,
            emit),
    OPT_STR(0, "labels", "FILE", "file with labels of this machine's GPUs", struct place_options,
            labels),
    OPT_END,
};

static void print_choice(const struct place_options *o, const struct placement *p)
{
    const struct place_inventory *in = &p->inventory;
    if (o->json) {
        AUTO(json)
        json_t *all = place_print_choice_json(p->job, in->gpus, in->count, &p->choice);
        AUTO(free) char *line = json_line(all);
        puts(line);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    place_print_choice(&b, p->job, in->gpus, in->count, &p->choice);
    fputs(strbuf_str(&b), stdout);
}

static int preview(const struct place_options *o, struct err *e)
{
    AUTO(placement) struct placement *p = NULL;
    AUTO(strbuf) struct strbuf b = {0};
    const struct placement_opts opts = {.file = o->file,
                                        .labels_file = o->labels,
                                        .argv = o->program,
                                        .idle = o->emit && place_emit_queues(o->emit)};
    int rc = placement_preview(&p, &opts, e);
    if (p && !o->emit)
        print_choice(o, p);
    if (rc == 0 && o->emit) {
        const struct place_emit_job job = {p->job, p->inventory.gpus, &p->choice, o->program};
        rc = place_emit(&b, o->emit, &job, e);
    }
    if (rc == 0)
        fputs(strbuf_str(&b), stdout);
    return rc;
}

/* `drover place JOB -- PROGRAM` is `drover run --place JOB -- PROGRAM`. */
static int start(const struct place_options *o)
{
    AUTO(strv) char **words = NULL;
    strv_push(&words, xstrdup("run"));
    strv_push(&words, xasprintf("--place=%s", o->file));
    if (o->labels)
        strv_push(&words, xasprintf("--labels=%s", o->labels));
    strv_push(&words, xstrdup("--"));
    for (char *const *word = o->program; *word; word++)
        strv_push(&words, xstrdup(*word));
    return cmd_run((int)strv_len(words), words);
}

static int run(char **words, void *into, struct err *e)
{
    struct place_options *o = into;
    o->file = words[0];
    if (o->json && !o->dry_run)
        return err_set(e, -EINVAL, "--json needs --dry-run");
    if (o->emit && o->dry_run)
        return err_set(e, -EINVAL, "--emit and --dry-run exclude each other");
    if (!o->emit && !o->dry_run && *o->program)
        return start(o);
    int rc = preview(o, e);
    return rc == -EBUSY || rc == -EIO ? EXIT_STATUS_FAILED : rc < 0 ? EXIT_STATUS_USAGE : 0;
}

int cmd_place(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover place", "[options] JOB.yaml [options] [--] [PROGRAM [arguments]]",
                 "Selects the GPUs of this machine that suit a job file, locks them, and runs the "
                 "program there as drover run does, with one rank per GPU. It waits for GPUs as "
                 "long as the file's timeout says. Without a program it only shows the choice.",
                 "drover place job.yaml -- python3 train.py\n"
                 "drover place job.yaml --dry-run\n"
                 "drover place job.yaml --emit docker -- python3 train.py"},
        .options = options,
        .words_min = 1,
        .words_max = 1,
        .missing = "the job file is missing",
        .missing_hint = "drover place job.yaml -- python3 train.py",
        COMMAND_PROGRAM(struct place_options, program),
        .run = run};
    static char *const none[] = {NULL};
    struct place_options o = {.program = none};
    return command_run(&command, &o, argc, argv);
}
