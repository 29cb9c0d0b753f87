#include "common/opt.h"

#include "common/mem.h"
#include "tests/unit/test.h"

struct into {
    int ranks;
    bool dry;
    double grace;
    const char *host;
    char **vars, **known;
    char key[32], value[32];
    int calls;
};

static int on_mca(void *into, char *const *values, struct err *e)
{
    struct into *t = into;
    if (strcmp(values[0], "bad") == 0)
        return err_set(e, -ENOTSUP, "'bad' is not for here");
    snprintf(t->key, sizeof t->key, "%s", values[0]);
    snprintf(t->value, sizeof t->value, "%s", values[1]);
    t->calls++;
    return 0;
}

static int on_count(void *into, char *const *values, struct err *e)
{
    CHECK(values[0] == NULL);
    ((struct into *)into)->calls++;
    return 7; /* a result that is not negative is not a failure */
}

/* "KEY VALUE" or "KEY=VALUE" */
static int on_pair(void *into, char *const *values, struct err *e)
{
    ((struct into *)into)->calls++;
    if (!values[0])
        return err_set(e, -EINVAL, "needs KEY VALUE");
    return strcmp(values[0], "none") == 0 ? 0 : strchr(values[0], '=') ? 1 : 2;
}

static const struct opt rows[] = {
    OPT_INT('n', "np|ranks", "N", "number of ranks", struct into, ranks, INT_MIN, INT_MAX),
    OPT_FLAG(0, "dry-run", "print the plan and stop", struct into, dry),
    OPT_DOUBLE(0, "grace", "SECONDS", "time between SIGTERM and SIGKILL", struct into, grace, -100,
               100),
    OPT_STR('H', "host|hostfile||machinefile|machine", "FILE", "hosts and slots", struct into,
            host),
    OPT_STRV('x', "export", "NAME[=VALUE]", "a variable that the ranks get too", struct into, vars),
    OPT_CALL(0, "mca", "KEY VALUE", "a parameter of Open MPI", on_mca),
    OPT_CALL_SOME('e', "env", "KEY VALUE", "a variable", on_pair),
    OPT_CALL('v', NULL, NULL, "say more", on_count),
    OPT_WORDS('s', "preload|show-progress", NULL, NULL, struct into, known),
    OPT_WORDS(0, "pass-on", "A B", NULL, struct into, known),
    OPT_FLAG(0, "allow-run-as-root", NULL, struct into, dry),
    OPT_END,
};

/* Parses `line`, cut at spaces ("_" stands for an empty word). */
static struct into got;
static struct err error;
static int rest;
static int parse(const char *line)
{
    static char text[256];
    static char *words[32];
    int n = 0;
    snprintf(text, sizeof text, "%s", line);
    words[n++] = "drover";
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        words[n++] = strcmp(w, "_") == 0 ? "" : w;
    words[n] = NULL;
    strv_free(got.vars);
    strv_free(got.known);
    got = (struct into){.ranks = -99};
    error = (struct err){0};
    rest = -1;
    int rc = opt_parse(rows, &got, n, words, &rest, &error);
    CHECK_INT(rest >= 0, rc == 0);
    return rc;
}

static void check_error(const char *line, const char *text, const char *hint)
{
    CHECK(parse(line) < 0);
    CHECK_STR(error.text, text);
    CHECK_STR(error.hint, hint);
}

TEST(a_number_is_taken_in_every_way_that_people_write_it)
{
    static const char *const lines[] = {
        "-n 4",      "-n4",      "-n=4",   "-np 4",       "--np 4",    "-np=4",     "--np=4",
        "--ranks 4", "-ranks=4", "-np +4", "-np 3 -np 4", "-ranks 04", "-n4 -- -n5"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        CHECK_INT(parse(lines[i]), 0);
        CHECK_INT(got.ranks, 4);
    }
    check_error("--n 3", "unknown option '--n'", ""); /* a letter has one dash */
}

TEST(negative_numbers_are_values)
{
    CHECK_INT(parse("-np -4 --grace -1.5e1"), 0);
    CHECK_INT(got.ranks, -4);
    CHECK_NEAR(got.grace, -15, 0);
    CHECK_INT(parse("-n-4"), 0);
    CHECK_INT(got.ranks, -4);
}

TEST(a_value_may_start_with_a_dash_or_be_empty)
{
    CHECK_INT(parse("--host -H"), 0);
    CHECK_STR(got.host, "-H");
    CHECK_INT(parse("-host -- -n2"), 0);
    CHECK_STR(got.host, "--");
    CHECK_INT(got.ranks, 2);
    CHECK_INT(parse("-H _ a"), 0);
    CHECK_STR(got.host, "");
    CHECK_INT(rest, 3);
    CHECK_INT(parse("--host= a"), 0);
    CHECK_STR(got.host, "");
    CHECK_INT(rest, 2);
}

TEST(only_the_first_equals_sign_parts_name_and_value)
{
    CHECK_INT(parse("--export=A=b=c -xFOO=1 -x=BAR"), 0);
    CHECK_INT(strv_len(got.vars), 3);
    CHECK_STR(got.vars[0], "A=b=c");
    CHECK_STR(got.vars[1], "FOO=1");
    CHECK_STR(got.vars[2], "BAR");
}

TEST(repeated_values_are_appended_in_their_order)
{
    CHECK_INT(parse("-x A -n 2 -export B --export C prog -x D"), 0);
    CHECK_INT(strv_len(got.vars), 3);
    CHECK_STR(got.vars[0], "A");
    CHECK_STR(got.vars[2], "C");
    CHECK_INT(rest, 9);
}

TEST(options_end_at_the_first_other_word)
{
    CHECK_INT(parse("-n 4 prog -n 8 --nonsense"), 0);
    CHECK_INT(got.ranks, 4);
    CHECK_INT(rest, 3);
    CHECK_INT(parse("- -n 8"), 0);
    CHECK_INT(rest, 1);
    CHECK_INT(got.ranks, -99);
    CHECK_INT(parse("_ -n 8"), 0);
    CHECK_INT(rest, 1);
}

TEST(options_end_behind_two_dashes)
{
    CHECK_INT(parse("-n 4 -- --dry-run"), 0);
    CHECK_INT(rest, 4);
    CHECK(!got.dry);
    CHECK_INT(parse("--"), 0);
    CHECK_INT(rest, 2);
    CHECK_INT(parse("-- --"), 0);
    CHECK_INT(rest, 2);
}

TEST(no_words_are_no_options)
{
    CHECK_INT(parse(""), 0);
    CHECK_INT(rest, 1);
    CHECK_INT(got.ranks, -99);
    char *none[] = {NULL};
    CHECK_INT(opt_parse(rows, &got, 0, none, &rest, NULL), 0);
    CHECK_INT(rest, 0);
}

TEST(flags_take_no_value)
{
    CHECK_INT(parse("-dry-run prog"), 0);
    CHECK(got.dry);
    CHECK_INT(rest, 2);
    check_error("--dry-run=yes", "option '--dry-run' takes no value", "");
    check_error("--no-dry-run", "unknown option '--no-dry-run'", "--dry-run");
}

TEST(a_call_gets_as_many_values_as_its_row_has_words)
{
    CHECK_INT(parse("-mca btl ^openib prog"), 0);
    CHECK_STR(got.key, "btl");
    CHECK_STR(got.value, "^openib");
    CHECK_INT(rest, 4);
    CHECK_INT(parse("--mca=pml ob1 -v -v"), 0);
    CHECK_STR(got.key, "pml");
    CHECK_STR(got.value, "ob1");
    CHECK_INT(got.calls, 3);
    check_error("-mca btl", "option '-mca' needs 2 values (KEY VALUE)", "");
    check_error("-mca bad x", "option '-mca': 'bad' is not for here", "");
    CHECK_INT(error.code, -ENOTSUP);
    check_error("-v3", "unknown option '-v3'", "");
}

TEST(an_option_may_decide_how_many_values_it_has)
{
    CHECK_INT(parse("-env A=1 prog"), 0);
    CHECK_INT(rest, 3);
    CHECK_INT(parse("-env A 1 -e none prog"), 0);
    CHECK_INT(rest, 5);
    CHECK_INT(got.calls, 2);
    CHECK_INT(parse("--env=A=1 prog x"), 0);
    CHECK_INT(rest, 2);
    CHECK_INT(parse("--env=A 1 prog x"), 0);
    CHECK_INT(rest, 3);
    check_error("-env", "option '-env': needs KEY VALUE", "");
    check_error("--env=none x", "option '--env' takes no value", "");
}

TEST(errors_name_the_option_as_it_was_typed)
{
    check_error("-np", "option '-np' needs a value (N)", "");
    check_error("--host", "option '--host' needs a value (FILE)", "");
    check_error("-n", "option '-n' needs a value (N)", "");
    check_error("-np xx", "option '-np': 'xx' is not a number", "");
    check_error("--ranks=xx", "option '--ranks': 'xx' is not a number", "");
    check_error("-n4x", "option '-n': '4x' is not a number", "");
    check_error("-np _", "option '-np': '' is not a number", "");
    check_error("-np=", "option '-np': '' is not a number", "");
    check_error("-np 2.5", "option '-np': '2.5' is not a whole number", "");
    check_error("-np 1e3", "option '-np': '1e3' is not a whole number", "");
    check_error("--grace 0x10", "option '--grace': '0x10' is not a number", "");
    check_error("--grace inf", "option '--grace': 'inf' is not a number", "");
    check_error("--grace 1e999", "option '--grace': '1e999' is too large", "");
}

TEST(an_unknown_option_is_answered_with_the_nearest_one)
{
    check_error("--hostfil x", "unknown option '--hostfil'", "--hostfile");
    check_error("-hostfle=x", "unknown option '-hostfle'", "--hostfile");
    check_error("-npp 4", "unknown option '-npp'", "--np");
    check_error("--hepl", "unknown option '--hepl'", "--help");
    check_error("-z", "unknown option '-z'", "");
    check_error("--completely-else", "unknown option '--completely-else'", "");
    check_error("---np", "unknown option '---np'", "--np");
    check_error("--allow-run-as-rot", "unknown option '--allow-run-as-rot'", ""); /* not shown */
    check_error("--=3", "unknown option '--'", "");
    check_error("-=3", "unknown option '-'", "");
}

TEST(numbers_that_do_not_fit_are_out_of_range)
{
    CHECK_INT(parse("-np 2147483648"), -ERANGE);
    CHECK_HAS(error.text, "option '-np': 2147483648 is out of range");
    CHECK_INT(parse("-np 99999999999999999999"), -ERANGE);
    CHECK_INT(parse("-np -2147483648"), 0);
    CHECK_INT(got.ranks, INT_MIN);
}

TEST(a_number_or_duration_is_in_the_range_of_its_row)
{
    static const struct opt table[] = {
        OPT_INT('n', "np", "N", "", struct into, ranks, 1, 64),
        OPT_INT(0, "iters", "N", "", struct into, ranks, 1, INT_MAX),
        OPT_DOUBLE(0, "rate", "GBPS", "", struct into, grace, 0, 1e30),
        OPT_DURATION('T', "timeout", "DURATION", "", struct into, grace, 1, 100000),
        OPT_END,
    };
    static const struct {
        const char *word, *error; /* NULL: accepted */
        double value;
    } cases[] = {
        {"--np=1", NULL, 1},
        {"--np=64", NULL, 64},
        {"--np=0", "option '--np': 0 is out of range (1 to 64)", 0},
        {"-n-1", "option '-n': -1 is out of range (1 to 64)", 0},
        {"--np=65", "option '--np': 65 is out of range (1 to 64)", 0},
        {"--iters=0", "option '--iters': 0 is out of range (at least 1)", 0},
        {"--iters=2147483648", "option '--iters': 2147483648 is out of range (1 to 2147483647)", 0},
        {"--rate=-1", "option '--rate': -1 is out of range (at least 0)", 0},
        {"--timeout=1h30m", NULL, 5400},
        {"-T90", NULL, 90},
        {"--timeout=500ms", "option '--timeout': 500ms is out of range (1 to 100000)", 0},
        {"--timeout=2d", "option '--timeout': 2d is out of range (1 to 100000)", 0},
        {"--timeout=-1", "option '--timeout': '-1' is not a duration", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct into to = {.ranks = -1, .grace = -1};
        struct err e = {0};
        char *words[] = {"x", (char *)cases[i].word, NULL};
        int rc = opt_parse(table, &to, 2, words, &rest, &e);
        CHECK_INT(rc < 0, cases[i].error != NULL);
        CHECK_STR(e.text, cases[i].error ? cases[i].error : "");
        CHECK_NEAR(to.ranks != -1 ? to.ranks : to.grace, cases[i].error ? -1 : cases[i].value, 0);
    }
}

TEST(an_option_with_one_value_may_be_given_again_only_if_the_table_says_so)
{
#define ROWS                                                   \
    OPT_STR(0, "host|h2", "H", "", struct into, host),         \
        OPT_INT('n', "np", "N", "", struct into, ranks, 1, 9), \
        OPT_WORDS(0, "map-by", "X", "", struct into, known),   \
        OPT_FLAG(0, "dry-run", "", struct into, dry), OPT_END
    static const struct opt once[] = {ROWS}, again[] = {OPT_LAST_COUNTS, ROWS};
#undef ROWS
    static const struct {
        const char *words[5], *error;
    } cases[] = {{{"x", "--host", "a", "--h2=b", NULL}, "option '--h2' is given twice"},
                 {{"x", "-n1", "-np", "2", NULL}, "option '-np' is given twice"},
                 {{"x", "--dry-run", "--dry-run", "-n1", NULL}, ""},
                 {{"x", "--map-by=a", "--map-by=b", NULL}, ""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct into of = {0};
        struct err e = {0}, none = {0};
        AUTO(strv) char **given = NULL, **more = NULL;
        char *const *words = (char *const *)cases[i].words;
        int n = (int)strv_len(words);
        opt_parse_given(&given, once, &of, n, words, &rest, &e);
        CHECK_STR(e.text, cases[i].error);
        CHECK_INT(opt_parse_given(&more, again, &of, n, words, &rest, &none), 0);
        CHECK_INT(opt_parse(once, &of, n, words, &rest, &none), 0);
        strv_free(of.known);
    }
}

TEST(a_table_may_have_abbreviations)
{
    static const struct opt table[] = {
        OPT_ABBREVIATIONS,
        OPT_STR(0, "nnodes", "N", "", struct into, host),
        OPT_STR(0, "node-rank", "N", "", struct into, host),
        OPT_STR(0, "log-dir|log-directory", "DIR", "", struct into, host),
        OPT_WORDS(0, "map-by|map-to|bind-to", "X", "", struct into, known),
        OPT_STR('m', "max", "N", "", struct into, host),
        OPT_STR(0, "max-restarts", "N", "", struct into, host),
        OPT_FLAG(0, "verbose", "", struct into, dry),
        OPT_STR(0, "hosts", "LIST", "", struct into, host),
        OPT_END,
    };
    static const struct {
        const char *word, *host, *known, *error, *hint;
    } cases[] = {
        {"--nn=1", "1", NULL, "", ""},
        {"--node_r=2", "2", NULL, "", ""},
        {"--log=d", "d", NULL, "", ""}, /* two names of one option */
        {"--max=3", "3", NULL, "", ""}, /* a full name is not an abbreviation */
        {"--max-r=4", "4", NULL, "", ""},
        {"--bind=core", NULL, "--bind-to", "", ""},
        {"--n=1", NULL, NULL, "option '--n' is ambiguous", "--nnodes, --node-rank"},
        {"--ma=1", NULL, NULL, "option '--ma' is ambiguous",
         "--map-by, --map-to, --max, --max-restarts"},
        {"--map=slot", NULL, NULL, "option '--map' is ambiguous", "--map-by, --map-to"},
        {"--h", NULL, NULL, "option '--h' is ambiguous", "--hosts, --help"},
        {"-nn=1", NULL, NULL, "unknown option '-nn'", ""},
        {"--nnodess=1", NULL, NULL, "unknown option '--nnodess'", "--nnodes"},
        {"--verb=1", NULL, NULL, "option '--verb' takes no value", ""},
        {"--=1", NULL, NULL, "unknown option '--'", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct into to = {.ranks = -1};
        struct err e = {0};
        char *words[] = {"x", (char *)cases[i].word, NULL};
        int rc = opt_parse(table, &to, 2, words, &rest, &e);
        CHECK_INT(rc < 0, cases[i].error[0] != '\0');
        CHECK_STR(e.text, cases[i].error);
        CHECK_STR(e.hint, cases[i].hint);
        CHECK_STR(to.host ? to.host : "", cases[i].host ? cases[i].host : "");
        CHECK_STR(to.known ? to.known[0] : "", cases[i].known ? cases[i].known : "");
        strv_free(to.known);
    }
    char *help[] = {"x", "--hel", NULL};
    CHECK_INT(opt_parse(table, &got, 2, help, &rest, NULL), OPT_HELP);
    CHECK_INT(parse("--dry"), -EINVAL); /* a table without the row has none */
}

TEST(help_is_known_to_every_table_and_ends_the_reading)
{
    static const char *const lines[] = {"-h", "--help", "-help", "-n 4 -h --nonsense"};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        CHECK_INT(parse(lines[i]), OPT_HELP);
    CHECK_INT(got.ranks, 4);
    CHECK_INT(parse("prog -h"), 0);
    check_error("--h", "unknown option '--h'", "");
}

TEST(help_has_a_line_for_each_row_that_is_shown)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    opt_print_help(
        f, &(struct opt_help){"drover run", "[-np N] program", "Starts a job.", NULL, NULL}, rows);
    fclose(f);
    CHECK_STR(text, "Usage: drover run [-np N] program\n"
                    "\n"
                    "Starts a job.\n"
                    "\n"
                    "Options:\n"
                    "  -n, --np, --ranks N        number of ranks\n"
                    "      --dry-run              print the plan and stop\n"
                    "      --grace SECONDS        time between SIGTERM and SIGKILL\n"
                    "  -H, --host, --hostfile FILE\n"
                    "                             hosts and slots\n"
                    "  -x, --export NAME[=VALUE]  a variable that the ranks get too\n"
                    "      --mca KEY VALUE        a parameter of Open MPI\n"
                    "  -e, --env KEY VALUE        a variable\n"
                    "  -v                         say more\n"
                    "  -h, --help                 show this text\n");
    free(text);
}

/* The help of a table as text; to be freed. */
static char *help_text(const struct opt_help *h, const struct opt *table)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    opt_print_help(f, h, table);
    fclose(f);
    return text;
}

TEST(names_after_two_bars_are_understood_and_suggested_but_not_shown)
{
    CHECK_INT(parse("--machinefile a"), 0);
    CHECK_STR(got.host, "a");
    CHECK_INT(parse("-machine=b"), 0);
    CHECK_STR(got.host, "b");
    check_error("--machinefil a", "unknown option '--machinefil'", "--machinefile");
    AUTO(free) char *text = help_text(&(struct opt_help){"x", "", "", NULL, NULL}, rows);
    CHECK_HAS(text, "  -H, --host, --hostfile FILE\n");
    CHECK(!strstr(text, "machine"));
}

TEST(a_table_may_have_the_rows_of_another_one_in_the_middle)
{
    struct pair {
        int first;
        struct into second;
    } to = {0};
    static const struct opt part[] = {OPT_FLAG(0, "dry", "stop", struct into, dry),
                                      OPT_CALL(0, "count", NULL, "count", on_count), OPT_END};
    static const struct opt table[] = {
        OPT_INT('a', NULL, "N", "first", struct pair, first, 0, 9),
        OPT_PART(part, offsetof(struct pair, second)),
        OPT_INT('b', NULL, "N", "last", struct pair, second.ranks, 0, 9), OPT_END};
    char *words[] = {"x", "-a1", "--dry", "--count", "-b2", NULL};
    CHECK_INT(opt_parse(table, &to, 5, words, &rest, &error), 0);
    CHECK(to.first == 1 && to.second.dry && to.second.calls == 1 && to.second.ranks == 2);
    AUTO(free) char *text = help_text(&(struct opt_help){"x", "", "", NULL, NULL}, table);
    CHECK_HAS(text,
              "  -a N          first\n      --dry     stop\n      --count   count\n  -b N   ");
}

static int status_of(const struct opt *table)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        char *words[] = {"x", "--help", NULL};
        opt_parse(table, &got, 2, words, &rest, NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(a_name_or_letter_that_is_there_twice_is_a_mistake)
{
    static const struct opt names[] = {
        OPT_FLAG(0, "dry", "", struct into, dry),
        OPT_INT(0, "np|dry", "N", "", struct into, ranks, INT_MIN, INT_MAX),
        OPT_END,
    };
    static const struct opt letters[] = {
        OPT_FLAG('d', "dry", "", struct into, dry),
        OPT_INT('d', "depth", "N", "", struct into, ranks, INT_MIN, INT_MAX),
        OPT_END,
    };
    static const struct opt both[] = {
        OPT_FLAG('n', "dry", "", struct into, dry),
        OPT_INT(0, "np|n", "N", "", struct into, ranks, INT_MIN, INT_MAX),
        OPT_END,
    };
    static const struct opt help[] = {OPT_FLAG('h', "dry", "", struct into, dry), OPT_END};
    static const struct opt valueless[] = {
        OPT_INT(0, "np", NULL, "", struct into, ranks, INT_MIN, INT_MAX), OPT_END};
    CHECK_INT(status_of(rows), 0);
    CHECK_INT(status_of(names), SIGABRT);
    CHECK_INT(status_of(letters), SIGABRT);
    CHECK_INT(status_of(both), SIGABRT);
    CHECK_INT(status_of(help), SIGABRT);
    CHECK_INT(status_of(valueless), SIGABRT);
}

TEST(a_whole_number_has_its_range)
{
    int n = 77;
    struct err e = {0};
    CHECK_INT(opt_int(&n, "'retries'", "3", 0, 9, &e), 0);
    CHECK_INT(n, 3);
    CHECK_INT(opt_int(&n, "'retries'", "10", 0, 9, &e), -ERANGE);
    CHECK_STR(e.text, "'retries': 10 is out of range (0 to 9)");
    static const char *const bad[] = {"", " 3", "3 ", "0x3", "-", "3-", "inf", "3,000"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(opt_int(&n, "'retries'", bad[i], 0, 9, &e), -EINVAL);
    CHECK_INT(n, 3);
}

TEST(near_is_within_two_letters_or_a_third)
{
    static const char *const names[] = {"random",          "grid", "bayes",
                                        "early_terminate", "np",   "num_gpus"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {{"rand", "random"},
                 {"gird", "grid"},
                 {"bayse", "bayes"},
                 {"random", "random"},
                 {"rnd", NULL},
                 {"pn", "np"}, /* two swapped letters are one edit … */
                 {"rnaodm", "random"},
                 {"xy", NULL}, /* … and two others are two */
                 {"earlyterminaet", "early_terminate"},
                 {"early_stopping", NULL},
                 {"zz", NULL},
                 {"nq", "np"},
                 {"", NULL},
                 {"x", NULL},
                 {"early_term", NULL},
                 {"gpus", "num_gpus"}, /* a whole word at its end */
                 {"pus", NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *near = opt_suggest(cases[i].word, names, COUNT_OF(names));
        if (cases[i].nearest)
            CHECK_STR(near, cases[i].nearest);
        else if (near)
            FAIL("'%s' is near '%s'", cases[i].word, near);
    }
    char endless[1000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    const char *longest = endless;
    CHECK(opt_suggest(endless, &longest, 1) == NULL); /* too long to look for */
    CHECK(opt_suggest("x", &longest, 1) == NULL);
}

TEST(underscores_are_as_good_as_dashes)
{
    CHECK_INT(parse("--dry_run --grace=2 --show_progress"), 0);
    CHECK(got.dry);
    CHECK_STR(got.known[0], "--show_progress");
    CHECK_INT(parse("--dry_rum"), -EINVAL);
}

TEST(known_options_are_kept_as_they_were_typed_with_their_values)
{
    CHECK_INT(parse("-s -preload --pass-on=x --y -pass-on 1 2 word"), 0);
    static const char *const want[] = {"-s",  "-preload", "--pass-on", "x",
                                       "--y", "-pass-on", "1",         "2"};
    CHECK_INT(strv_len(got.known), COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_STR(got.known[i], want[i]);
    CHECK_INT(rest, 8);
    CHECK_INT(parse("--pass-on 1"), -EINVAL);
    CHECK(strstr(error.text, "needs 2 values"));
    CHECK_INT(parse("--preload=1"), -EINVAL);
}
