/* Sweep files that try to break the reader: a corpus, and 20,000 random changes of it. FUZZ_SEED=N
 * selects other changes than the default ones. */
#include <dirent.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "tests/unit/test.h"

enum { MUTATIONS = 20000, SEEDS_MAX = 100, GROWN_MAX = 16384 };

static const char corpus_dir[] = "tests/fuzz/corpus/yaml";
static struct strbuf corpus[SEEDS_MAX];
static char **names;
static int corpus_size;

static void load_corpus(void)
{
    struct dirent **entries = NULL;
    int n = scandir(corpus_dir, &entries, NULL, alphasort); /* sorted, so that a seed means the
                                                               same everywhere */
    if (n < 0)
        FAIL("%s: %s (to be run from the repository's root)", corpus_dir, strerror(errno));
    for (int i = 0; i < n && corpus_size < SEEDS_MAX; i++) {
        AUTO(free) struct dirent *entry = entries[i];
        if (entry->d_name[0] == '.')
            continue;
        AUTO(free) char *path = xasprintf("%s/%s", corpus_dir, entry->d_name);
        AUTO(file) FILE *f = fopen(path, "re");
        CHECK(f);
        struct strbuf *b = &corpus[corpus_size];
        for (int c; (c = getc(f)) != EOF;)
            strbuf_putc(b, (char)c);
        strv_push(&names, xstrdup(entry->d_name));
        corpus_size++;
    }
    free(entries);
    CHECK(corpus_size >= 25);
}

static void drop_corpus(void)
{
    while (corpus_size > 0)
        strbuf_free(&corpus[--corpus_size]);
    strv_free(TAKE(names));
}

/* Reads the text and checks what the reader promises. Returns whether it was accepted. */
static bool try(const struct strbuf *text, const char *what)
{
    struct err e = {0};
    struct yaml_doc *d = NULL;
    int rc = yaml_read(&d, strbuf_str(text), text->len, "in", "command", &e);
    if (rc < 0) {
        int line = 0, column = 0;
        if (d || e.code != rc || (rc != -EINVAL && rc != -E2BIG) ||
            sscanf(e.text, "in:%d:%d: ", &line, &column) != 2 || line < 1 || column < 1)
            FAIL("%s: %d, '%s'", what, rc, e.text);
        return false;
    }
    AUTO(free) char *line = json_line(yaml_root(d));
    json_t *back = NULL;
    if (json_parse(&back, line, strlen(line), &e) < 0 || !json_equal(back, yaml_root(d)))
        FAIL("%s: is not the same after JSON: %s", what, e.text);
    if (yaml_error_at(d, "/a/0/b~1/~", &e, -EDOM, "%s", line) != -EDOM)
        FAIL("%s: a wrong code for a path", what);
    json_decref(back);
    yaml_doc_free(d);
    return true;
}

TEST(no_file_of_the_corpus_does_harm)
{
    load_corpus();
    int accepted = 0;
    for (int i = 0; i < corpus_size; i++)
        accepted += try(&corpus[i], names[i]);
    printf("# %d files, %d accepted\n", corpus_size, accepted);
    CHECK(accepted >= 5 && accepted < corpus_size - 5);
    drop_corpus();
}

/* Replaces `cut` bytes at `at` by the `len` bytes of `with`. */
static void splice(struct strbuf *b, size_t at, size_t cut, const char *with, size_t len)
{
    AUTO(strbuf) struct strbuf whole = {0};
    strbuf_add(&whole, strbuf_str(b), at);
    strbuf_add(&whole, with, len);
    strbuf_add(&whole, strbuf_str(b) + at + cut, b->len - at - cut);
    struct strbuf old = *b;
    *b = whole;
    whole = old;
}

static void mutate(struct strbuf *b, struct rng *r)
{
    static const char *const tokens[] = {
        "&a ",  "*a ",   "<<: ", "- ",     ": ",     "? ",    "[",      "]",           "{",
        "}",    ",",     "\n",   "  ",     "\t",     "\r",    "!!str ", "!",           "|\n",
        ">-\n", "\"",    "'",    "\\x4",   "---\n",  "...\n", "#",      "%YAML 1.1\n", "\xff",
        "\xc3", "0x1_f", "1e-4", "12:3",   "017",    "_",     ".inf",   "yes",         "~",
        "\"\"", "a",     "a: ",  "- - - ", "[[[[[[", "{a: ",  "\\",     "\xef\xbb\xbf"};
    size_t at = rng_below(r, b->len + 1), left = b->len - at;
    size_t some = left ? rng_below(r, left < 32 ? left + 1 : 32) : 0;
    const struct strbuf *other = &corpus[rng_below(r, (uint64_t)corpus_size)];
    size_t from = rng_below(r, other->len + 1);
    const char *token = tokens[rng_below(r, COUNT_OF(tokens))];
    switch (rng_below(r, 6)) {
    case 0:
        if (left)
            b->data[at] = (char)(b->data[at] ^ (1 << rng_below(r, 8)));
        break;
    case 1:
        splice(b, at, some, "", 0);
        break;
    case 2: { /* repeats what is at this position */
        AUTO(free) char *again = xstrndup(strbuf_str(b) + at, some);
        splice(b, at, 0, again, strlen(again));
        break;
    }
    case 3: /* the head of this text, the tail of another */
        splice(b, at, left, strbuf_str(other) + from, other->len - from);
        break;
    default:
        splice(b, at, rng_below(r, 2) ? 0 : some, token, strlen(token));
    }
}

TEST(no_random_change_of_the_corpus_does_harm)
{
    const char *wanted = getenv("FUZZ_SEED");
    uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : 1;
    load_corpus();
    int accepted = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        struct rng r;
        rng_seed(&r, seed, (uint64_t)i);
        AUTO(strbuf) struct strbuf b = {0};
        const struct strbuf *base = &corpus[rng_below(&r, (uint64_t)corpus_size)];
        strbuf_add(&b, strbuf_str(base), base->len);
        for (uint64_t k = 1 + rng_below(&r, 8); k > 0 && b.len < GROWN_MAX; k--)
            mutate(&b, &r);
        char what[64];
        snprintf(what, sizeof what, "FUZZ_SEED=%llu, change %d", (unsigned long long)seed, i);
        accepted += try(&b, what);
    }
    printf("# FUZZ_SEED=%llu: %d changes, %d accepted\n", (unsigned long long)seed, MUTATIONS,
           accepted);
    CHECK(accepted > MUTATIONS / 20 && accepted < MUTATIONS * 19 / 20);
    drop_corpus();
}
