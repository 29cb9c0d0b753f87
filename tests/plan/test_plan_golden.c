/* Plans of recorded machines, case by case: tests/plan/cases/NAME.txt says what is asked for and,
 * below a line "---", what the plan must be. README.md there tells the words. With
 * DROVER_UPDATE_CASES=1 the expected part is written anew: read the difference before you keep it.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "common/strbuf.h"
#include "launcher/plan.h"
#include "launcher/plan_show.h"
#include "launcher/topo.h"

struct plan_case {
    char *text; /* the whole file */
    const char *expected;
    char *machine;
    struct launch_spec spec;
    char **argv, **x, **env, **show;
    char **kept; /* strings that the spec borrows */
};

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

/* One line above "---". Returns false where it means nothing. */
static bool read_line(struct plan_case *c, const char *key, const char *value)
{
    static const char *const maps[] = {"default", "slot", "core",    "hwthread",
                                       "l3",      "numa", "package", "node"};
    static const char *const binds[] = {"default", "none", "core",   "hwthread",
                                        "l3",      "numa", "package"};
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
        s->no_pmix = true;
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
        return false;
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
    char **all[] = {c->argv, c->x, c->env, c->show, c->kept};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        strv_free(all[i]);
}

static void show_env(struct strbuf *b, char *const *env)
{
    for (size_t i = 0; env && env[i]; i++)
        strbuf_printf(b, "%s\n", env[i]);
}

/* What the case gets: its ranks, then what it asks to be shown; or the error. */
static void run_case(struct strbuf *b, const struct plan_case *c)
{
    struct err e = {0};
    AUTO(topo) struct topo *t = NULL;
    AUTO(plan) struct plan *p = NULL;
    AUTO(free) char *path = xasprintf("tests/plan/machines/%s.xml", c->machine);
    if (topo_load_file(&t, path, &e) < 0 || plan_make(&p, &c->spec, t, c->env, &e) < 0) {
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

static int is_case(const struct dirent *d)
{
    size_t len = strlen(d->d_name);
    return len > 4 && strcmp(d->d_name + len - 4, ".txt") == 0;
}

int main(int argc, char **argv)
{
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
