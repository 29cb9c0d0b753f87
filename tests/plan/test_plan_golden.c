/* Plans of recorded machines, case by case: tests/plan/cases/NAME.txt has a job's spec and, below
 * a line "---", the expected plan. README.md there explains the keys. DROVER_UPDATE_CASES=1
 * rewrites the expected part: read the difference before you keep it. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/strbuf.h"
#include "launcher/node/topo.h"
#include "launcher/plan/hostfile.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/plan_print.h"

struct plan_case {
    char *text; /* the whole file */
    const char *expected;
    char *machine;
    struct launch_spec spec;
    char **argv, **x, **env, **show;
    char **kept; /* strings that the spec borrows */
    struct hosts *hosts;
    const char *then; /* "1 dgx-a100": node 1 turns out to be that machine */
};

static const char *const maps[] = {"default", "slot", "core", "hwthread", "l3",
                                   "l2",      "l1",   "numa", "package",  "node"};

static char *read_file(const char *path)
{
    AUTO(file) FILE *f = fopen(path, "re");
    AUTO(strbuf) struct strbuf b = {0};
    char block[4096];
    size_t n;
    while (f && (n = fread(block, 1, sizeof block, f)) > 0)
        strbuf_add(&b, block, n);
    return f ? strbuf_take(&b) : NULL;
}

static int word_in(const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static const char *keep(struct plan_case *c, const char *value)
{
    strv_push(&c->kept, xstrdup(value));
    return c->kept[strv_len(c->kept) - 1];
}

/* "aa slots=4; bb": the lines of a host file, separated by semicolons. */
static bool read_hosts(struct plan_case *c, const char *value)
{
    AUTO(free) char *text = xstrdup(value);
    struct err e = {0};
    for (char *p = text; (p = strchr(p, ';'));)
        *p = '\n';
    if (hostfile_parse(&c->hosts, "hosts", text, &e) < 0) {
        printf("# %s\n", e.text);
        return false;
    }
    c->spec.hosts = c->hosts;
    return true;
}

/* "4:node". */
static bool read_ppr(struct launch_spec *s, const char *value)
{
    const char *of = value + strspn(value, "0123456789");
    s->map_by = PLAN_MAP_PPR;
    s->ppr = atoi(value);
    s->ppr_of = (enum plan_map)word_in(of + (*of == ':'), maps, COUNT_OF(maps));
    return (int)s->ppr_of >= 0;
}

/* Keys for jobs over several nodes only. */
static bool read_node_line(struct plan_case *c, const char *key, const char *value)
{
    struct launch_spec *s = &c->spec;
    struct host *here = NULL;
    if (strcmp(key, "hosts") == 0)
        return read_hosts(c, value);
    if (strcmp(key, "ppr") == 0)
        return read_ppr(s, value);
    if (strcmp(key, "here") == 0 && c->hosts && (here = hosts_find(c->hosts, value)))
        here->here = true;
    else if (strcmp(key, "per-node") == 0)
        s->per_node = atoi(value);
    else if (strcmp(key, "rank-by") == 0)
        return (int)(s->rank_by = (enum plan_map)word_in(value, maps, COUNT_OF(maps))) >= 0;
    else if (strcmp(key, "then") == 0)
        c->then = keep(c, value);
    else
        return false;
    return true;
}

/* Reads one line above "---". Returns false if the key is unknown. */
static bool read_line(struct plan_case *c, const char *key, const char *value)
{
    static const char *const binds[] = {"default", "none", "core", "hwthread", "l3",
                                        "l2",      "l1",   "numa", "package"};
    struct launch_spec *s = &c->spec;
    if (strcmp(key, "machine") == 0)
        c->machine = xstrdup(value);
    else if (strcmp(key, "ranks") == 0)
        s->ranks = atoi(value);
    else if (strcmp(key, "cpus-per-rank") == 0)
        s->cpus_per_rank = atoi(value);
    else if (strcmp(key, "cpus") == 0)
        s->cpus = keep(c, value);
    else if (strcmp(key, "gpus") == 0)
        s->gpus = keep(c, value);
    else if (strcmp(key, "oversubscribe") == 0)
        s->oversubscribe = true;
    else if (strcmp(key, "no-pmix") == 0)
        s->node.no_pmix = true;
    else if (strcmp(key, "x") == 0)
        strv_push(&c->x, xstrdup(value));
    else if (strcmp(key, "env") == 0)
        strv_push(&c->env, xstrdup(value));
    else if (strcmp(key, "show") == 0)
        strv_push(&c->show, xstrdup(value));
    else if (strcmp(key, "map") == 0)
        return (int)(s->map_by = (enum plan_map)word_in(value, maps, COUNT_OF(maps))) >= 0;
    else if (strcmp(key, "bind") == 0)
        return (int)(s->bind_to = (enum plan_bind)word_in(value, binds, COUNT_OF(binds))) >= 0;
    else
        return read_node_line(c, key, value);
    return true;
}

static bool read_case(struct plan_case *c, const char *path)
{
    c->text = read_file(path);
    char *split = c->text ? strstr(c->text, "---\n") : NULL;
    if (!split) {
        printf("# %s: no line '---'\n", path);
        return false;
    }
    c->expected = split + 4;
    AUTO(free) char *head = xstrndup(c->text, (size_t)(split - c->text));
    char *save = NULL;
    for (char *line = strtok_r(head, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (line[0] == '#')
            continue;
        char *value = line + strcspn(line, ":");
        if (*value)
            *value++ = '\0';
        value += strspn(value, " ");
        if (!read_line(c, line, value)) {
            printf("# %s: '%s: %s' means nothing\n", path, line, value);
            return false;
        }
    }
    strv_push(&c->argv, xstrdup("./train"));
    c->spec.argv = c->argv;
    c->spec.env = c->x;
    return c->machine != NULL;
}

static void free_case(struct plan_case *c)
{
    free(c->text);
    free(c->machine);
    hosts_free(c->hosts);
    char **all[] = {c->argv, c->x, c->env, c->show, c->kept};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        strv_free(all[i]);
}

static void show_env(struct strbuf *b, char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        strbuf_printf(b, "%s\n", env[i]);
}

static struct topo *machine(const char *name, struct err *e)
{
    struct topo *t = NULL;
    AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", name);
    return topo_load_file(&t, path, e) < 0 ? NULL : t;
}

static int plan_of(struct plan **p, const struct plan_case *c, struct err *e)
{
    AUTO(topo) struct topo *t = machine(c->machine, e);
    int rc = t ? plan_make(p, &c->spec, t, c->env, e) : -EINVAL;
    if (rc < 0 || !c->then)
        return rc;
    const char *name = c->then + strspn(c->then, "0123456789 ");
    AUTO(topo) struct topo *its = machine(name, e);
    return its ? plan_set_node(*p, atoi(c->then), &c->spec, its, c->env, e) : -EINVAL;
}

/* Appends the result of the case: its ranks, then the variables that it shows; or the error. */
static void run_case(struct strbuf *b, const struct plan_case *c)
{
    struct err e = {0};
    AUTO(plan) struct plan *p = NULL;
    if (plan_of(&p, c, &e) < 0) {
        strbuf_printf(b, "error: %s\n", e.text);
        if (e.hint[0])
            strbuf_printf(b, "  try: %s\n", e.hint);
        return;
    }
    plan_print_ranks(b, p);
    for (size_t i = 0; c->show && c->show[i]; i++) {
        if (strcmp(c->show[i], "job") == 0)
            show_env(b, p->env);
        else if (atoi(c->show[i]) < p->world_size)
            show_env(b, p->ranks[atoi(c->show[i])].env);
    }
}

static void update(const char *path, const struct plan_case *c, const char *got)
{
    AUTO(file) FILE *f = fopen(path, "we");
    if (f)
        fprintf(f, "%.*s%s", (int)(c->expected - c->text), c->text, got);
}

static void print_comment(const char *title, const char *text)
{
    printf("# %s\n", title);
    while (*text) {
        int len = (int)strcspn(text, "\n");
        printf("#   %.*s\n", len, text);
        text += len + (text[len] != '\0');
    }
}

static bool passes(const char *path)
{
    struct plan_case c = {0};
    AUTO(strbuf) struct strbuf got = {0};
    bool ok = read_case(&c, path);
    if (ok) {
        run_case(&got, &c);
        if (getenv("DROVER_UPDATE_CASES"))
            update(path, &c, strbuf_str(&got));
        else if (strcmp(c.expected, strbuf_str(&got)) != 0) {
            print_comment("expected", c.expected);
            print_comment("got", strbuf_str(&got));
            ok = false;
        }
    }
    free_case(&c);
    return ok;
}

/* Prints the plan of each given case file, for test_plan_agrees.py, which compares it with
 * mpirun's mapping. */
static int show_plans(char **paths)
{
    for (; *paths; paths++) {
        struct plan_case c = {0};
        AUTO(strbuf) struct strbuf got = {0};
        bool ok = read_case(&c, *paths);
        if (ok)
            run_case(&got, &c);
        free_case(&c);
        if (!ok)
            return 1;
        printf("%s\n%s\n", *paths, strbuf_str(&got));
    }
    return 0;
}

static int is_case(const struct dirent *d)
{
    size_t len = strlen(d->d_name);
    return len > 4 && strcmp(d->d_name + len - 4, ".txt") == 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--show") == 0)
        return show_plans(argv + 2);
    struct dirent **names = NULL;
    int n = scandir("tests/plan/cases", &names, is_case, alphasort), failed = 0, number = 0;
    for (int i = 0; i < n; i++) {
        if (argc < 2 || strstr(names[i]->d_name, argv[1])) {
            AUTO(free) char *path = xasprintf("tests/plan/cases/%s", names[i]->d_name);
            bool ok = passes(path);
            failed += !ok;
            printf("%s %d - %.*s\n", ok ? "ok" : "not ok", ++number,
                   (int)strlen(names[i]->d_name) - 4, names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
    if (number == 0)
        printf("not ok %d - no case was found: run this from the project's root\n", ++number);
    printf("1..%d\n", number);
    return failed != 0 || n <= 0;
}
