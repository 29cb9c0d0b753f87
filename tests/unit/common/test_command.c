#include "common/command.h"

#include "tests/unit/test.h"

struct into {
    bool dry;
    int ranks;
    char *const *program;
    int result;    /* of run() */
    int error;     /* what run() reports; 0: nothing */
    char seen[80]; /* the words, each in brackets */
};

static int run(char **words, void *into, struct err *e)
{
    struct into *t = into;
    for (char **w = words; w && *w; w++) {
        size_t len = strlen(t->seen);
        snprintf(t->seen + len, sizeof t->seen - len, "[%s]", *w);
    }
    if (t->error)
        err_set(e, t->error, "run: no");
    return t->error && t->result == 0 ? t->error : t->result;
}

static const struct opt rows[] = {
    OPT_FLAG(0, "dry-run", "print the plan and stop", struct into, dry),
    OPT_INT('n', "np", "N", "number of ranks", struct into, ranks, 1, 99),
    OPT_END,
};

static const struct command with_words = {.help = {"drover it", "FILE", "Does it.", NULL},
                                          .options = rows,
                                          .words_min = 1,
                                          .words_max = 2,
                                          .missing = "the file is missing",
                                          .missing_hint = "drover it FILE",
                                          .unexpected_hint = "one file or two",
                                          .run = run},
                            with_program = {.help = {"drover it", "FILE -- PROGRAM", "", NULL},
                                            .options = rows,
                                            .words_min = 1,
                                            .words_max = 1,
                                            .missing = "the file is missing",
                                            COMMAND_PROGRAM(struct into, program),
                                            .run = run},
                            with_files = {.help = {"drover it", "[FILE...] -- PROGRAM", "", NULL},
                                          .options = rows,
                                          .words_max = COMMAND_WORDS_ANY,
                                          COMMAND_PROGRAM(struct into, program),
                                          .run = run};

/* Runs the command with `line`, cut at spaces. Returns its exit status. What it writes to stdout
 * and stderr follows in `out`. */
static int run_line(char *out, size_t size, const struct command *c, struct into *t,
                    const char *line)
{
    AUTO(strv) char **argv = NULL;
    AUTO(free) char *copy = xstrdup(line);
    int ends[2], was[2] = {dup(1), dup(2)};
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " "));)
        strv_push(&argv, xstrdup(word));
    CHECK(pipe(ends) == 0);
    fflush(stdout);
    for (int fd = 1; fd <= 2; fd++)
        CHECK(dup2(ends[1], fd) == fd);
    close(ends[1]);
    int status = command_run(c, t, (int)strv_len(argv), argv);
    fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(was[fd - 1], fd);
        close(was[fd - 1]);
    }
    ssize_t n = read(ends[0], out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    return status;
}

TEST(options_stand_before_between_and_after_the_words)
{
    static const char *const lines[] = {"it -n 3 a b", "it a -n 3 b", "it a b -n 3", "it a b -n3"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct into t = {0};
        char out[400];
        CHECK_INT(run_line(out, sizeof out, &with_words, &t, lines[i]), 0);
        CHECK_STR(t.seen, "[a][b]");
        CHECK_STR(out, "");
        CHECK_INT(t.ranks, 3);
    }
}

TEST(an_error_of_the_command_line_is_printed_with_its_hint_and_the_status_is_2)
{
    static const struct {
        const char *line, *out;
    } bad[] = {
        {"it", "drover it: the file is missing\n  try: drover it FILE\n"},
        {"it a b c", "drover it: unexpected argument 'c'\n  try: one file or two\n"},
        {"it a --dry-rnu", "drover it: unknown option '--dry-rnu'\n  try: --dry-run\n"},
        {"it -n 3 a --np=3", "drover it: option '--np' is given twice\n"},
        {"it a -n 100", "drover it: option '-n': 100 is out of range (1 to 99)\n"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct into t = {0};
        char out[400];
        CHECK_INT(run_line(out, sizeof out, &with_words, &t, bad[i].line), EXIT_STATUS_USAGE);
        CHECK_STR(out, bad[i].out);
        CHECK_STR(t.seen, "");
    }
}

TEST(help_is_printed_to_stdout_and_nothing_runs)
{
    struct into t = {.error = -EIO};
    char out[4000];
    CHECK_INT(run_line(out, sizeof out, &with_words, &t, "it a --help"), 0);
    CHECK(strstr(out, "drover it FILE") != NULL);
    CHECK(strstr(out, "--dry-run") != NULL);
    CHECK_STR(t.seen, "");
}

TEST(the_status_of_an_error_says_if_the_user_named_something_wrong)
{
    static const struct {
        int error, result, status;
    } rows_[] = {
        {0, 0, 0},       {0, 7, 7},       {-EINVAL, 0, 2},    {-ENOENT, 0, 2},
        {-EBUSY, 0, 2},  {-EEXIST, 0, 2}, {-ERANGE, 0, 2},    {-EIO, 0, 1},
        {-EACCES, 0, 1}, {-EACCES, 2, 2}, {-ETIMEDOUT, 0, 1}, {-EINVAL, 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows_); i++) {
        struct into t = {.error = rows_[i].error, .result = rows_[i].result};
        char out[400];
        CHECK_INT(run_line(out, sizeof out, &with_words, &t, "it a"), rows_[i].status);
        CHECK_STR(out, rows_[i].error ? "drover it: run: no\n" : "");
    }
}

TEST(a_program_begins_after_the_words_or_after_two_dashes_and_is_not_parsed)
{
    static const struct {
        const struct command *c;
        const char *line, *words, *first, *second; /* of the program; "": it ends there */
    } good[] = {
        {&with_program, "it job.yaml train -n 3", "[job.yaml]", "train", "-n"},
        {&with_program, "it job.yaml -n 3 -- -n", "[job.yaml]", "-n", ""},
        {&with_program, "it -- job.yaml train", "[job.yaml]", "train", ""},
        {&with_program, "it job.yaml --", "[job.yaml]", "", ""},
        {&with_program, "it job.yaml", "[job.yaml]", NULL, NULL},
        {&with_files, "it a -n 3 b -- train --dry-run", "[a][b]", "train", "--dry-run"},
        {&with_files, "it -- train", "", "train", ""},
        {&with_files, "it a b", "[a][b]", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct into t = {0};
        AUTO(strv) char **argv = NULL, **words = NULL;
        struct err e = {0};
        AUTO(free) char *copy = xstrdup(good[i].line);
        char *rest = copy;
        for (char *word; (word = strsep(&rest, " "));)
            strv_push(&argv, xstrdup(word));
        CHECK_INT(command_parse(&words, good[i].c, &t, (int)strv_len(argv), argv, &e), 0);
        run(words, &t, &e);
        CHECK_STR(t.seen, good[i].words);
        CHECK(!t.dry);
        CHECK((t.program == NULL) == (good[i].first == NULL));
        const char *const parts[] = {good[i].first, good[i].second};
        for (int p = 0; t.program && p < 2; p++) {
            CHECK_STR(t.program[p] ? t.program[p] : "", parts[p]);
            if (!t.program[p])
                break;
        }
    }
}
