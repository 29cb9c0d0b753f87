#include "launcher/why/fact_changes.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/plural.h"
#include "common/strbuf.h"

/* ---- what is known of facts ----------------------------------------------------------------- */

enum {
    ANY_PROGRAM = 1, /* runs of other programs say how often it changes, too */
    CHOSEN = 2,      /* the user changes it on purpose: that it often changes excuses it less */
    MEASURED = 4     /* a number, which differs a little each time */
};

static const struct group {
    const char *name;
    unsigned is;
} groups[] = {{"variable", ANY_PROGRAM},
              {"node", ANY_PROGRAM},
              {"version", ANY_PROGRAM},
              {"command", CHOSEN},
              {"file", CHOSEN},
              {"git", CHOSEN},
              {"metric", MEASURED},
              {"speed", MEASURED},
              {"directory", 0},
              {"plan", 0},
              {"library", 0}};

/* Words of the names of variables that are different in every session, job or process. */
static const char volatile_words[] =
    "PID|PPID|SESSION|SESSIONNAME|ID|JOBID|PORT|SOCK|AGENT|TIME|TIMESTAMP|DATE|SHLVL|OLDPWD|"
    "TTY|DBUS|STREAM|DISPLAY|HOST|HOSTNAME|NODENAME|NODELIST|WINDOWID|UUID|SSH|STEPID|COOKIE|RUN|"
    "CLIENT|CONNECTION";

/* Which facts relate to which causes: words of the cause, and of a fact's name. */
static const struct relation {
    const char *what, *causes, *facts;
} relations[] = {
    {"GPU memory",
     "GPU memory|CUDA out of memory|OutOfMemoryError|cache blocks|ALLOC_FAILED|RESOURCE_EXHAUSTED",
     "batch|bs|mbs|seq|length|context|ctx|hidden|layers|heads|model|dim|width|depth|resolution|"
     "dtype|precision|bf16|fp16|checkpointing|recompute|zero|offload|shard|alloc|memory|gpus|"
     "CUDA_VISIBLE"},
    {"host memory",
     "host memory|SIGKILL|allocate memory|MemoryError|bad_alloc|drover was killed|shared memory|"
     "/dev/shm|bus error",
     "worker|memory|cache|prefetch|batch|data|pin|ranks|shm|buffer|malloc|offload"},
    {"files and paths",
     "No such file|FileNotFound|not found|does not find|open file|denied|NotADirectory|is missing|"
     "KeyError|does not exist|disk|No space|quota|file system",
     "dir|directory|path|file|data|root|HOME|PWD|config|checkpoint|ckpt|load|resume|save|git|word|"
     "input|output|cache|log|TMPDIR"},
    {"modules and libraries",
     "module|ImportError|shared library|libraries|symbol|package|newer CPU|C library",
     "PYTHON|PYTHONPATH|VIRTUAL_ENV|CONDA|PATH|LD|library|version|hardware|kernel|directory|PYENV"},
    {"the driver and CUDA", "driver|CUDA|device|kernel image|Xid|cuDNN|CUBLAS|GPU fault",
     "CUDA|NVIDIA|version|library libcu|library libnv|library libtorch|LD|gpus|hardware|GPU|device|"
     "TORCH"},
    {"NCCL and the network",
     "NCCL|gloo|network|interface|route|connect|collective|MASTER|port|RDMA|InfiniBand",
     "NCCL|GLOO|UCX|FI|OMPI|PMIX|MASTER|IFNAME|IB|library libnccl|version|driver|nodes|ranks|name|"
     "RDMA|SHARP"},
    {"what ranks wait for", "hangs|wait|timeout|timed out|idle",
     "NCCL|GLOO|ranks|nodes|worker|name|timeout|TORCH|IFNAME|library libnccl|gpus|batch|bucket"},
    {"options of the program", "argument|option|usage|Flags|ValueError|override",
     "command|file|config"},
    {"numbers of the training", "nan|finite|diverge|diverged|overflow",
     "lr|learning|dtype|precision|amp|fp16|bf16|tf32|seed|loss|scale|clip|eps|decay|warmup|batch|"
     "optim|data|init|metric"},
    {"speed", "slower|straggler",
     "OMP|MKL|worker|cpus|bind|gpus|ranks|nodes|name|hardware|NCCL|batch|compile|precision|dtype|"
     "tf32|TORCH|profile|debug|BLOCKING|prefetch|data|library|version|kernel"},
    {"the program's code", "Error|exception|assert", "git|file|command|library|version"},
};

/* Returns true if a word of the text begins with `word`, or is it, in any case: "error" of
 * "KeyError", too. */
static bool has_word(const char *text, const char *word, size_t len, bool whole)
{
    for (const char *at = text; *at; at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]) ||
                      !isalnum((unsigned char)*word) ||
                      (islower((unsigned char)at[-1]) && isupper((unsigned char)*at));
        if (begins && strncasecmp(at, word, len) == 0 &&
            !(whole && isalnum((unsigned char)at[len])))
            return true;
    }
    return false;
}

/* The same for one of the words "a|b". */
static bool has_any(const char *text, const char *words, bool whole)
{
    for (size_t len; *words; words += len + (words[len] == '|')) {
        len = strcspn(words, "|");
        if (has_word(text, words, len, whole))
            return true;
    }
    return false;
}

static const char *relation_of(const char *cause, const char *fact)
{
    for (size_t i = 0; i < COUNT_OF(relations); i++)
        if (has_any(cause, relations[i].causes, false) && has_any(fact, relations[i].facts, false))
            return relations[i].what;
    return NULL;
}

/* Returns true if a text has the word. A short word means nothing, nor does that of a bare option.
 */
static bool is_told(const char *text, const char *word)
{
    return word && strlen(word) >= 4 && strcmp(word, "given") != 0 &&
           has_word(text, word, strlen(word), true);
}

static const struct group *group_of(const char *fact)
{
    size_t len = strcspn(fact, " ");
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (strlen(groups[i].name) == len && strncmp(fact, groups[i].name, len) == 0)
            return &groups[i];
    return &groups[0];
}

/* A log that has nothing of a group does not say that the run did without. */
static bool has_group(json_t *facts, const struct group *g)
{
    const char *name;
    json_t *value;
    json_object_foreach (facts, name, value)
        if (group_of(name) == g)
            return true;
    return false;
}

/* ---- how rare a change is ------------------------------------------------------------------- */

struct change {
    const char *fact, *good, *bad;
    const struct group *group;
    double score;
    char *why;
};

/* What the earlier runs say about a fact. */
struct past {
    int runs;         /* that may have it */
    int moved, fresh; /* those in which it changed; to a value that no earlier one had */
    int with;         /* those that had the bad value */
};

static const char *value_of(const json_t *facts, const char *fact)
{
    return json_string_value(json_object_get(facts, fact));
}

static bool differs(const struct group *g, const char *a, const char *b)
{
    if (!a || !b)
        return a != b && !(g->is & MEASURED);
    double x = strtod(a, NULL), y = strtod(b, NULL);
    return (g->is & MEASURED) ? !(fabs(x - y) <= 0.1 * fmax(fabs(x), fabs(y))) : strcmp(a, b) != 0;
}

static struct past look_back(const struct fact_question *q, const struct change *c)
{
    struct past p = {0};
    const char **seen = xcalloc(q->earlier_count + 1, sizeof *seen);
    for (size_t i = 0; i < q->earlier_count; i++) {
        const struct fact_history *h = &q->earlier[i];
        if (!(h->same_program || c->group->is & ANY_PROGRAM) || !has_group(h->facts, c->group))
            continue;
        const char *value = value_of(h->facts, c->fact);
        bool moved = p.runs > 0 && differs(c->group, seen[p.runs - 1], value), known = false;
        for (int k = 0; moved && k < p.runs; k++)
            known |= !differs(c->group, seen[k], value);
        p.moved += moved;
        p.fresh += moved && !known;
        p.with += !differs(c->group, value, c->bad);
        seen[p.runs++] = value;
    }
    free(seen);
    return p;
}

static void judge(struct change *c, const struct fact_question *q)
{
    const struct past p = look_back(q, c);
    const char *relation = relation_of(q->cause, c->fact);
    const char *slash = strrchr(c->fact, '/'), *blank = strrchr(c->fact, ' ');
    const char *name = slash ? slash + 1 : blank ? blank + 1 + strspn(blank + 1, "-") : c->fact;
    bool told = is_told(q->text, name) || is_told(q->text, c->bad) || is_told(q->text, c->good);
    bool unstable = c->group == &groups[0] && has_any(name, volatile_words, true);
    double weight = unstable ? 1.8 : 0.5; /* of two more runs, in how many it changes */
    double pairs = 2 + fmax(0, p.runs - 1);
    double moves = (p.moved + weight) / pairs, news = (p.fresh + weight) / pairs;
    double rarity = -log(p.with > 0 ? moves : news) * (c->group->is & MEASURED ? 0.5 : 1);
    double bonus = (relation ? 2 : 0) + (told ? 2.5 : 0);
    AUTO(strbuf) struct strbuf why = {0};
    c->score = (rarity + bonus * (c->group->is & CHOSEN ? 1 : 1 - moves)) * (p.with > 0 ? 0.5 : 1);
    strbuf_puts(&why, told ? "the cause names it; " : "");
    if (relation)
        strbuf_printf(&why, "relates to %s; ", relation);
    if (p.with > 0 || p.runs > 1)
        strbuf_printf(&why, "%d of %d good runs %s", p.with > 0 ? p.with : p.moved, p.runs,
                      p.with > 0 ? "had this value, too" : "changed it");
    else
        strbuf_puts(&why, unstable ? "most runs differ in it" : "too few good runs to tell more");
    c->why = strbuf_take(&why);
}

/* ---- the ranking ---------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : strcmp(x->fact, y->fact);
}

/* One event, such as another installation, changes many facts of a group: the first ones tell. */
static void spread_groups(struct change *at, size_t count)
{
    double factor[COUNT_OF(groups)] = {0}; /* 0: 1 */
    for (size_t i = 0; i < count; i++) {
        double *f = &factor[at[i].group - groups];
        *f = *f > 0 ? *f * 0.9 : 1;
        at[i].score *= *f;
    }
}

json_t *fact_changes_find(const struct fact_question *q)
{
    AUTO(json) json_t *either = json_copy(q->good), *changes = json_array();
    struct change *at =
        xcalloc(json_object_size(q->good) + json_object_size(q->bad) + 1, sizeof *at);
    size_t count = 0;
    const char *fact;
    json_t *value;
    json_object_update(either, q->bad);
    json_object_foreach (either, fact, value) {
        struct change *c = &at[count];
        *c = (struct change){.fact = fact,
                             .good = value_of(q->good, fact),
                             .bad = value_of(q->bad, fact),
                             .group = group_of(fact)};
        if (!differs(c->group, c->good, c->bad) || !has_group(q->good, c->group) ||
            !has_group(q->bad, c->group))
            continue;
        judge(c, q);
        count++;
    }
    qsort(at, count, sizeof *at, by_score);
    spread_groups(at, count);
    qsort(at, count, sizeof *at, by_score);
    for (size_t i = 0; i < count; i++) {
        struct change *c = &at[i];
        json_array_append_new(changes,
                              json_pack("{s:s, s:s?, s:s?, s:f, s:s}", "fact", c->fact, "good",
                                        c->good, "bad", c->bad, "score", c->score, "why", c->why));
        free(c->why);
    }
    free(at);
    return TAKE(changes);
}
