/* The acceptance of causes and remedies: each file of tests/causes is what several ranks printed,
 * and how they ended, with the answer that an engineer gives. README.md explains the form. One of
 * ten may be wrong; the wrong ones are printed. DROVER_CAUSES_TABLE=1 prints the table
 * of docs/measurements/causes.md. */
#include <dirent.h>

#include "common/file.h"
#include "common/strbuf.h"
#include "launcher/watch/first_cause.h"
#include "tests/unit/test.h"

enum { RANKS_MAX = 16, LOGS_MIN = 100, KINDS_MAX = 32 };

struct labelled {
    char *kind, *cause, *remedy;
    int culprit, first;
    int count;
    struct rank_end ends[RANKS_MAX];
    char **lines[RANKS_MAX]; /* strv */
    struct job_witness ranks[RANKS_MAX];
};

struct tally {
    char *kind;
    int logs, culprit, cause, remedy, all; /* right */
    int always;                            /* right if every failure is restarted */
};

static const char *const remedies[] = {
    [FAILURE_RESTART] = "restart", [FAILURE_STOP] = "stop", [FAILURE_ELSEWHERE] = "elsewhere"};

/* "@ rank 3 exit 1 at 41.2": begins a rank, whose lines follow. Returns the rank. */
static int read_end(struct labelled *l, const char *line)
{
    int rank = -1, value = 0, used = 0;
    char how[16] = "";
    struct rank_end r = {.status = -1};
    if (sscanf(line, "@ rank %d %15s%n", &rank, how, &used) < 2 || rank < 0 || rank >= RANKS_MAX)
        FAIL("'%s' is no end of a rank", line);
    r.rank = rank;
    (void)sscanf(line + used, " %d", &value);
    const char *at = strstr(line, " at ");
    r.seconds = at ? strtod(at + 4, NULL) : 0;
    if (strcmp(how, "exit") == 0)
        r.status = value;
    else if (strcmp(how, "signal") == 0)
        r.signal = value;
    else if (strcmp(how, "oom") == 0)
        r.signal = SIGKILL, r.oom_killed = true;
    else if (strcmp(how, "lost") == 0)
        r.status = 1, r.lost = true;
    else if (strcmp(how, "stopped") == 0)
        r.signal = SIGTERM, r.told_to_stop = true;
    else
        FAIL("unknown end '%s'", how);
    l->ends[rank] = r;
    l->ranks[rank].end = &l->ends[rank];
    l->count = rank >= l->count ? rank + 1 : l->count;
    bool failed = !r.told_to_stop && job_rank_status(&r) != 0;
    if (failed && (l->first < 0 || r.seconds < l->ends[l->first].seconds))
        l->first = rank;
    return rank;
}

static bool read_label(struct labelled *l, const char *line)
{
    const char *value = strstr(line, ": ");
    if (!value)
        return false;
    value += 2;
    if (strncmp(line, "kind: ", 6) == 0)
        l->kind = xstrdup(value);
    else if (strncmp(line, "cause: ", 7) == 0)
        l->cause = xstrdup(value);
    else if (strncmp(line, "remedy: ", 8) == 0)
        l->remedy = xstrdup(value);
    else if (strncmp(line, "culprit: ", 9) == 0)
        l->culprit = atoi(value);
    else
        return false;
    return true;
}

static void read_log(struct labelled *l, const char *path)
{
    AUTO(strbuf) struct strbuf text = {0};
    CHECK_INT(file_read(&text, path, 1 << 20), 0);
    *l = (struct labelled){.first = -1, .culprit = -1};
    int rank = -1;
    char *rest = (char *)strbuf_str(&text);
    for (char *line; (line = strsep(&rest, "\n")) && (rest || *line);) {
        if (line[0] == '@')
            rank = read_end(l, line);
        else if (rank >= 0)
            strv_push(&l->lines[rank], xstrdup(line));
        else if (!read_label(l, line))
            FAIL("%s: '%s' is no label", path, line);
    }
    if (!l->kind || !l->cause || !l->remedy || l->culprit < 0 || l->first < 0)
        FAIL("%s: a label or a failed rank is missing", path);
    for (int i = 0; i < l->count; i++)
        l->ranks[i].lines = (const char *const *)l->lines[i];
}

static void free_log(struct labelled *l)
{
    free(l->kind);
    free(l->cause);
    free(l->remedy);
    for (int i = 0; i < RANKS_MAX; i++)
        strv_free(l->lines[i]);
}

static bool is_cause(const char *label, const struct first_cause *c)
{
    if (strcmp(label, "left") == 0)
        return c->left;
    if (strcmp(label, "-") == 0)
        return !c->known && !c->left;
    return c->known && !c->left && strstr(c->cause.what, label);
}

static struct tally *tally_of(struct tally *all, const char *kind)
{
    int i = 0;
    while (i < KINDS_MAX - 1 && all[i].kind && strcmp(all[i].kind, kind) != 0)
        i++;
    if (!all[i].kind)
        all[i].kind = xstrdup(kind);
    return &all[i];
}

/* Judges a log. Returns true if all three answers are right. */
static bool judge(const char *name, const struct labelled *l, struct tally *t)
{
    struct first_cause c;
    first_cause_find(&c, l->first, l->ranks, l->count);
    bool culprit = c.rank == l->culprit, cause = is_cause(l->cause, &c),
         remedy = strcmp(remedies[c.cause.remedy], l->remedy) == 0;
    t->logs++;
    t->culprit += culprit;
    t->cause += cause;
    t->remedy += remedy;
    t->all += culprit && cause && remedy;
    t->always += strcmp(l->remedy, "restart") == 0;
    if (!culprit || !cause || !remedy)
        printf("# %s: rank %d, '%s', %s; expected rank %d, '%s', %s\n", name, c.rank,
               c.left    ? "left"
               : c.known ? c.cause.what
                         : "-",
               remedies[c.cause.remedy], l->culprit, l->cause, l->remedy);
    first_cause_clear(&c);
    return culprit && cause && remedy;
}

static void print_table(const struct tally *all)
{
    for (int i = 0; i < KINDS_MAX && all[i].kind; i++)
        printf("| %s | %d | %d | %d | %d | %d | %d |\n", all[i].kind, all[i].logs, all[i].culprit,
               all[i].cause, all[i].remedy, all[i].all, all[i].always);
}

TEST(nine_of_ten_labelled_logs_get_the_right_rank_cause_and_remedy)
{
    struct tally all[KINDS_MAX] = {{0}};
    struct dirent **files;
    int n = scandir("tests/causes", &files, NULL, alphasort), logs = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        const char *name = files[i]->d_name, *end = strrchr(name, '.');
        if (end && strcmp(end, ".log") == 0) {
            AUTO(free) char *path = xasprintf("tests/causes/%s", name);
            struct labelled l;
            read_log(&l, path);
            wrong += !judge(name, &l, tally_of(all, l.kind));
            free_log(&l);
            logs++;
        }
        free(files[i]);
    }
    free(files);
    if (getenv("DROVER_CAUSES_TABLE"))
        print_table(all);
    for (int i = 0; i < KINDS_MAX; i++)
        free(all[i].kind);
    printf("# %d of %d logs are right\n", logs - wrong, logs);
    CHECK(logs >= LOGS_MIN);
    CHECK(wrong * 10 <= logs);
}
