#include "launcher/why/run_facts.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/fnv_hash.h"
#include "launcher/jobs/history_command.h"

/* Takes over both texts. `text` NULL: the run does not have the fact. */
static void add(json_t *facts, char *name, char *text)
{
    if (text)
        json_object_set_new(facts, name, json_text(text));
    free(name);
    free(text);
}

static char *text_of(const json_t *value)
{
    return json_is_string(value) ? xstrdup(json_string_value(value))
           : value               ? json_line(value)
                                 : NULL;
}

static void add_members(json_t *facts, const char *group, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value)
        add(facts, xasprintf("%s %s", group, key), text_of(value));
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool is_option(const char *word)
{
    return word && word[0] == '-' && (isalpha((unsigned char)word[1]) || word[1] == '-');
}

/* Several values of an option are joined. */
static void add_option(json_t *facts, const char *option, size_t len, const char *value)
{
    char *name = xasprintf("command %.*s", (int)len, option);
    const char *before = json_string_value(json_object_get(facts, name));
    add(facts, name, before ? xasprintf("%s %s", before, value) : xstrdup(value));
}

/* "--lr 0.1", "--lr=0.1" and "lr=0.1" are options with a value; other words have a number. */
static void add_command(json_t *facts, const json_t *argv)
{
    int words = 0;
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        const char *next = json_string_value(json_array_get(argv, i + 1));
        const char *equals = i == 0 || !word || strpbrk(word, " \n") ? NULL : strchr(word, '=');
        if (equals && equals > word) {
            add_option(facts, word, (size_t)(equals - word), equals + 1);
        } else if (is_option(word)) {
            bool has_value = next && !is_option(next);
            add_option(facts, word, strlen(word), has_value ? next : "given");
            i += has_value;
        } else if (word) {
            add(facts, xasprintf("command word %d", words++), xstrdup(word));
        }
    }
}

char *run_facts_program(const json_t *meta)
{
    const json_t *argv = json_object_get(meta, "argv");
    struct history_command c = {0};
    AUTO(strv) char **words = NULL;
    for (size_t i = 0; json_is_string(json_array_get(argv, i)); i++)
        strv_push(&words, text_of(json_array_get(argv, i)));
    if (words)
        history_command_read(&c, words, NULL);
    const char *slash = c.program ? strrchr(c.program, '/') : NULL;
    char *program = xstrdup(slash ? slash + 1 : c.program ? c.program : "");
    history_command_end(&c);
    return program;
}

/* ---- the code ------------------------------------------------------------------------------- */

/* Adds for each changed file the number of its changed lines, and their hash. */
static void add_git(json_t *facts, const json_t *git)
{
    static const char begin[] = "diff --git ";
    AUTO(free) char *diff = text_of(json_object_get(git, "diff"));
    const char *path = NULL;
    uint64_t hash = FNV_HASH_INIT;
    int more = 0, less = 0;
    add(facts, xstrdup("git commit"), text_of(json_object_get(git, "commit")));
    for (char *rest = diff, *line; (line = strsep(&rest, "\n"));) {
        bool header = strncmp(line, "+++ ", 4) == 0 || strncmp(line, "--- ", 4) == 0;
        if (strncmp(line, begin, strlen(begin)) == 0) {
            const char *b = strstr(line, " b/");
            path = b ? b + 3 : line + strlen(begin);
            hash = FNV_HASH_INIT;
            more = less = 0;
        } else if ((*line == '+' || *line == '-') && !header && path) {
            hash = fnv_hash_text(hash, line);
            more += *line == '+';
            less += *line == '-';
            add(facts, xasprintf("git changes of %s", path),
                xasprintf("+%d -%d lines (%08x)", more, less, (unsigned)hash));
        }
    }
}

/* Adds libraries by the names that they have in all versions: libnccl of libnccl.so.2. */
static void add_libraries(json_t *facts, json_t *libraries)
{
    const char *path;
    json_t *code;
    json_object_foreach (libraries, path, code) {
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        const char *end = strstr(base, ".so");
        add(facts,
            xasprintf("library %.*s", (int)(end ? (size_t)(end - base) : strlen(base)), base),
            xasprintf("%s (%lld KiB of code)", path, json_integer_value(code) / 1024));
    }
}

/* ---- the plan and the speed ----------------------------------------------------------------- */

static void add_plan(json_t *facts, json_t *plan)
{
    json_t *nodes = json_object_get(plan, "nodes"), *node;
    size_t i;
    add_members(facts, "plan", plan);
    if (nodes)
        add(facts, xstrdup("plan nodes"), xasprintf("%zu", json_array_size(nodes)));
    json_array_foreach (nodes, i, node) {
        AUTO(free) char *group = xasprintf("plan node %zu", i);
        add_members(facts, group, node);
    }
}

/* Returns the seconds of a step; 0: unknown. */
static double step_s(const json_t *meta)
{
    const json_t *series = json_object_get(meta, "series");
    double at[2] = {0}, step[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        const json_t *report = json_array_get(series, i);
        if (json_as_number(&at[i], json_object_get(report, "at")) < 0 ||
            json_as_number(&step[i], json_object_get(json_object_get(report, "data"), "step")) < 0)
            return 0;
    }
    return step[1] > step[0] && at[1] > at[0] ? (at[1] - at[0]) / 1000 / (step[1] - step[0]) : 0;
}

static double duration_s(const json_t *meta)
{
    const json_t *begin = json_object_get(meta, "begin_ms"), *end = json_object_get(meta, "end_ms");
    return end ? (double)(json_integer_value(end) - json_integer_value(begin)) / 1000 : 0;
}

double run_facts_slowdown(const json_t *a, const json_t *b)
{
    bool steps = step_s(a) > 0 && step_s(b) > 0;
    double of_a = steps ? step_s(a) : duration_s(a), of_b = steps ? step_s(b) : duration_s(b);
    return of_a > 0 && of_b > 0 ? of_a / of_b : 0;
}

static void add_speed(json_t *facts, const json_t *meta)
{
    json_t *first = json_object_get(json_array_get(json_object_get(meta, "series"), 0), "data");
    json_t *value;
    const char *metric;
    double number;
    json_object_foreach (first, metric, value)
        if (json_as_number(&number, value) == 0 && strcmp(metric, "step") != 0)
            add(facts, xasprintf("metric %s at first", metric), xasprintf("%.6g", number));
    if (step_s(meta) > 0)
        add(facts, xstrdup("speed steps per second"), xasprintf("%.3g", 1 / step_s(meta)));
    if (duration_s(meta) > 0 && json_integer_value(json_object_get(meta, "status")) == 0)
        add(facts, xstrdup("speed seconds in all"), xasprintf("%.3g", duration_s(meta)));
}

json_t *run_facts_of(const json_t *meta)
{
    json_t *facts = json_object();
    add_command(facts, json_object_get(meta, "argv"));
    add_members(facts, "variable", json_object_get(meta, "environment"));
    add(facts, xstrdup("directory"), text_of(json_object_get(meta, "dir")));
    add_plan(facts, json_object_get(meta, "plan"));
    add_members(facts, "node", json_object_get(meta, "node"));
    add_members(facts, "version", json_object_get(meta, "versions"));
    add_members(facts, "file", json_object_get(meta, "files"));
    add_git(facts, json_object_get(meta, "git"));
    add_libraries(facts, json_object_get(meta, "libraries"));
    add_speed(facts, meta);
    return facts;
}
