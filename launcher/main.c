/* drover - the main program. It runs the launcher's commands itself and executes other programs in
 * libexec/drover for the rest, with unchanged arguments. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/own_process.h"
#include "common/strbuf.h"
#include "launcher/jobs/commands.h"

struct cmd {
    const char *name, *summary;        /* summary NULL: internal, not listed */
    int (*run)(int argc, char **argv); /* NULL: `program` runs the command */
    const char *program;
};

static int print_version(int argc, char **argv);
static int help(int argc, char **argv);

static const struct cmd commands[] = {
    {"run", "Start a job of N ranks", cmd_run, NULL},
    {"place", "Start a job on the GPUs that suit it best", cmd_place, NULL},
    {"torchrun", "Start a job with torchrun's options", cmd_torchrun, NULL},
    {"ft_launcher", "Start a job with the options of NVIDIA's ft_launcher", cmd_torchrun, NULL},
    {"top", "Show GPUs, jobs, ranks and trials live", cmd_top, NULL},
    {"ps", "List the running jobs of this node", cmd_ps, NULL},
    {"logs", "Show the last lines of a job", cmd_logs, NULL},
    {"runs", "List, show and export the runs that drover remembers", cmd_runs, NULL},
    {"why", "Show what changed between a run that failed and a good one", cmd_why, NULL},
    {"kill", "Stop a running job, or send it a signal", cmd_kill, NULL},
    {"topo", "Show GPUs, network interfaces and cores, and their connections", cmd_topo, NULL},
    {"doctor", "Check nodes, and name what would slow or break a job", cmd_doctor, NULL},
    {"estimate", "Estimate the GPU memory of a training, and what would fit", cmd_estimate, NULL},
    {"sweep", "Search hyperparameters", NULL, "drover-hpo"},
    {"worker", "Run trials of a sweep", NULL, "drover-hpo"},
    {"suggest", "Propose hyperparameters to your own program, as lines of JSON", NULL,
     "drover-hpo"},
    {"serve", "Show sweeps in a browser", NULL, "drover-serve"},
    {"report", "Write a sweep as one file to mail", NULL, "drover-serve"},
    {"export", "Write the trials of a sweep for other tools", NULL, "drover-hpo"},
    {"import", "Store the trials of other tools as a sweep", NULL, "drover-hpo"},
    {"bench", "Measure the bandwidth of collectives", NULL, "drover-bench"},
    {"help", "Show the options of a command", help, NULL},
    {"version", "Print the version", print_version, NULL},
    /* mpirun, srun and ssh start this on each node for `drover run`, and it starts `drover
     * machine`. */
    {"agent", NULL, cmd_agent, NULL},
    {"machine", NULL, cmd_machine, NULL},
};

static void print_help(FILE *to)
{
    static const struct opt rows[] = {
        OPT_CALL('V', "version", NULL, "print the version", NULL),
        OPT_END,
    };
    AUTO(strbuf) struct strbuf summary = {0};
    strbuf_puts(&summary, "Launches distributed training, searches hyperparameters, and measures "
                          "collectives.\n\nCommands:");
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (commands[i].summary)
            strbuf_printf(&summary, "\n  %-12s %s", commands[i].name, commands[i].summary);
    }
    const struct opt_help help = {"drover", "COMMAND [options]", strbuf_str(&summary),
                                  "drover run -np 4 ./train\n"
                                  "drover sweep sweep.yaml\n"
                                  "drover bench all_reduce -np 4",
                                  NULL};
    opt_print_help(to, &help, rows);
}

static const struct cmd *find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COUNT_OF(commands)];
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (commands[i].summary)
            names[n++] = commands[i].name;
    const char *near = opt_suggest(name, names, n);
    struct err e = {0};
    err_set(&e, -EINVAL, "unknown command '%s'", name);
    if (near)
        err_hint(&e, "drover %s", near);
    else
        err_hint(&e, "drover help");
    err_print(&e, "drover");
    return EXIT_STATUS_USAGE;
}

static int exec_program(const struct cmd *c, char **argv)
{
    AUTO(free) char *path = NULL;
    struct err e = {0};
    if (own_process_sibling(&path, c->program, &e) == 0) {
        execv(path, argv);
        err_set(&e, -errno, "%s: %s: %s", c->name, path, strerror(errno));
        err_hint(&e, "complete the installation: 'make install' puts it there");
    }
    err_print(&e, "drover");
    return EXIT_STATUS_FAILED;
}

static int run(const struct cmd *c, int argc, char **argv)
{
    if (!c->run)
        return exec_program(c, argv);
    static char prefix[32]; /* of messages; `program` sets its own */
    snprintf(prefix, sizeof prefix, "drover %s", c->name);
    log_open(prefix);
    return c->run(argc - 1, argv + 1);
}

/* `drover help COMMAND` is `drover COMMAND --help`. */
static int help(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') {
        print_help(stdout);
        return 0;
    }
    const struct cmd *c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    char *words[] = {(char *)"drover", argv[1], (char *)"--help", NULL};
    return run(c, 3, words);
}

static int run_version(char **no_words, void *into, struct err *e)
{
    puts("drover " DROVER_VERSION);
    return 0;
}

static int print_version(int argc, char **argv)
{
    static const struct opt none[] = {OPT_END};
    static const struct command command = {
        .help = {"drover version", "", "Prints the version.", NULL},
        .options = none,
        .words_max = COMMAND_WORDS_ANY,
        .run = run_version};
    return command_run(&command, NULL, argc, argv);
}

/* Scripts run `mpirun --version` and read the first line. */
static int print_mpirun_version(void)
{
    puts("mpirun (Open MPI) 4.1.4\n\ndrover " DROVER_VERSION
         " replaces it and accepts its options.");
    return 0;
}

/* Other launchers, and the names that Debian's alternatives and hydra give them. */
static const char *const links[] = {"mpirun",        "mpiexec",  "mpirun.openmpi", "orterun",
                                    "mpiexec.hydra", "torchrun", "ft_launcher"};

/* Started through a link, drover is that program: libexec/drover/bin has a link `mpirun`. */
static int run_as(const char *name, int argc, char **argv)
{
    bool torch = strcmp(name, "torchrun") == 0 || strcmp(name, "ft_launcher") == 0;
    bool version = argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"));
    argv[0] = (char *)name;
    log_open(name);
    if (version && !torch)
        return print_mpirun_version();
    return (torch ? cmd_torchrun : cmd_run)(argc, argv);
}

/* Started by the name of a program of nccl-tests, possibly with a suffix (all_reduce_perf_mpi):
 * "all_reduce_perf -b 8" is "drover bench all_reduce_perf -b 8". */
static int run_perf(const char *name, int argc, char **argv)
{
    AUTO(strv) char **words = NULL;
    strv_push(&words, xstrdup("drover"));
    strv_push(&words, xstrdup("bench"));
    strv_push(&words, xstrdup(name));
    for (int i = 1; i < argc; i++)
        strv_push(&words, xstrdup(argv[i]));
    return exec_program(find("bench"), words);
}

static int dispatch(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "drover";
    for (size_t i = 0; i < COUNT_OF(links); i++)
        if (strcmp(name, links[i]) == 0)
            return run_as(name, argc, argv);
    const char *perf = strstr(name, "_perf");
    if (perf && perf > name && (perf[5] == '\0' || perf[5] == '_'))
        return run_perf(name, argc, argv);
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        print_help(stderr);
        return EXIT_STATUS_USAGE;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        word = "version";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    const struct cmd *c = find(word);
    return c ? run(c, argc, argv) : unknown(word);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    own_process_exit_without_memory();
    own_process_ensure_std_fds();
    if (own_process_check_files(&e) < 0) {
        err_print(&e, "drover");
        return EXIT_STATUS_FAILED;
    }
    return own_process_flush(dispatch(argc, argv));
}
