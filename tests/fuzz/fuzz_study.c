/* Requests of `drover suggest` that are meant to break the search: the sessions of a corpus, with
 * values replaced, dropped, doubled and renamed. Each gets a reply or an error; an error has
 * changed nothing: without those requests the replies are the same. FUZZ_SEED=N takes other
 * changes than the usual ones. */
#include <inttypes.h>

#include "common/json.h"
#include "common/rng.h"
#include "common/strbuf.h"
#include "hpo/scheduler/study.h"
#include "tests/unit/test.h"

enum { SESSIONS = 400, LINES_MAX = 200 };

static const char corpus_file[] = "tests/fuzz/corpus/suggest.jsonl";
static json_t *corpus[LINES_MAX];
static size_t corpus_size;

static json_t *parse(const char *text)
{
    struct err e = {0};
    json_t *v = NULL;
    if (json_parse(&v, text, strlen(text), &e) < 0)
        FAIL("%s: %s", text, e.text);
    return v;
}

static void load_corpus(void)
{
    AUTO(file) FILE *f = fopen(corpus_file, "re");
    AUTO(free) char *line = NULL;
    size_t cap = 0;
    if (!f)
        FAIL("%s: %s (to be run from the repository's root)", corpus_file, strerror(errno));
    while (getline(&line, &cap, f) >= 0) {
        CHECK(corpus_size < LINES_MAX);
        corpus[corpus_size++] = parse(line);
    }
    CHECK(corpus_size > 30);
}

static void drop_corpus(void)
{
    while (corpus_size > 0)
        json_decref(corpus[--corpus_size]);
}

static bool is_init(const json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    return op && strcmp(op, "init") == 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

static const char *const awkward[] = {"null",
                                      "true",
                                      "-1",
                                      "0",
                                      "1",
                                      "7",
                                      "2147483648",
                                      "9223372036854775807",
                                      "0.5",
                                      "1e308",
                                      "-1e-320",
                                      "-0.0",
                                      "\"\"",
                                      "\"nan\"",
                                      "\"x\"",
                                      "\"\\u00e9\\ud83d\\ude00\"",
                                      "{}",
                                      "[]",
                                      "[[[]]]",
                                      "[1,1,\"a\"]",
                                      "\"int\"",
                                      "\"cat\"",
                                      "\"bayes\"",
                                      "\"pruned\"",
                                      "\"ask\"",
                                      "\"grid\"",
                                      "[\"x < 1\"]",
                                      "\"layers ** layers <= (1\"",
                                      "{\"param\":\"x\",\"in\":[1]}"};
static const char *const keys[] = {"id",   "n",     "value", "values", "state", "step",
                                   "when", "param", "name",  "min",    "x",     ""};

static size_t value_count(json_t *v)
{
    size_t n = 1, i;
    const char *key;
    json_t *child;
    json_object_foreach (v, key, child)
        n += value_count(child);
    json_array_foreach (v, i, child)
        n += value_count(child);
    return n;
}

/* Value number `at` in v, counted from 0, v itself being that. Borrowed. */
static json_t *value_at(json_t *v, size_t at)
{
    size_t i;
    const char *key;
    json_t *child;
    if (at-- == 0)
        return v;
    json_object_foreach (v, key, child) {
        if (at < value_count(child))
            return value_at(child, at);
        at -= value_count(child);
    }
    json_array_foreach (v, i, child) {
        if (at < value_count(child))
            return value_at(child, at);
        at -= value_count(child);
    }
    return NULL;
}

/* An awkward value, or one from anywhere in the corpus: a new reference. */
static json_t *another(struct rng *r)
{
    json_t *line = corpus[rng_below(r, corpus_size)];
    if (rng_below(r, 3))
        return parse(awkward[rng_below(r, COUNT_OF(awkward))]);
    return json_deep_copy(value_at(line, rng_below(r, value_count(line))));
}

/* Changes one of the members or items of a value. */
static void change_one(json_t *v, struct rng *r)
{
    uint64_t how = rng_below(r, 4), n = json_object_size(v) + json_array_size(v);
    uint64_t which = n ? rng_below(r, n) : 0;
    if (json_is_array(v) && n && how == 0) {
        json_array_remove(v, which);
    } else if (json_is_array(v) && n && how == 1) {
        json_array_append_new(v, json_deep_copy(json_array_get(v, which)));
    } else if (json_is_array(v) && n) {
        json_array_set_new(v, which, another(r));
    } else if (json_is_object(v) && n) {
        void *at = json_object_iter(v);
        while (which--)
            at = json_object_iter_next(v, at);
        AUTO(free) char *key = xstrdup(json_object_iter_key(at));
        if (how == 1)
            json_object_set_new(v, keys[rng_below(r, COUNT_OF(keys))],
                                json_deep_copy(json_object_iter_value(at)));
        if (how < 2)
            json_object_del(v, key);
        else
            json_object_set_new(v, key, another(r));
    }
}

/* A copy of a request with one to three changes; a new reference. */
static json_t *changed(const json_t *request, struct rng *r)
{
    json_t *v = json_deep_copy(request);
    for (uint64_t n = 1 + rng_below(r, 3); n > 0; n--)
        change_one(value_at(v, rng_below(r, value_count(v))), r);
    return v;
}

/* ---- sessions ------------------------------------------------------------------------------- */

struct session {
    struct study *study;
    json_t *fine; /* pairs: a request that was carried out, and its reply */
    int refused;
};

static bool say(struct session *s, json_t *request, const char *what)
{
    struct err e = {0};
    AUTO(json) json_t *before = json_deep_copy(request);
    struct study *study = s->study;
    json_t *reply = study_answer(&s->study, request, &e);
    AUTO(free) char *text = json_line(before);
    if (!json_equal(before, request))
        FAIL("%s: the request was changed: %s", what, text);
    if (reply && (!json_is_object(reply) || !s->study))
        FAIL("%s: no reply to %s", what, text);
    if (!reply && (e.code != -EINVAL || !e.text[0] || s->study != study))
        FAIL("%s: %d '%s' for %s", what, e.code, e.text, text);
    s->refused += !reply;
    if (reply)
        json_array_append_new(s->fine, json_pack("[o,o]", json_deep_copy(before), reply));
    return reply != NULL;
}

/* What was carried out, once more: without the requests between. */
static void check_replay(const struct session *s, const char *what)
{
    AUTO(study) struct study *again = NULL;
    size_t i;
    json_t *pair;
    json_array_foreach (s->fine, i, pair) {
        struct err e = {0};
        json_t *request = json_array_get(pair, 0), *was = json_array_get(pair, 1);
        AUTO(json) json_t *reply = study_answer(&again, request, &e);
        AUTO(free) char *line = json_line(request), *old = json_line(was);
        AUTO(free) char *new = reply ? json_line(reply) : xstrdup(e.text);
        if (strcmp(new, old) != 0)
            FAIL("%s: request %zu, %s, got\n%s\nand without the errors before it\n%s", what, i,
                 line, old, new);
    }
}

/* The session that begins at line `from`, up to the next init. */
static void run_session(struct session *s, size_t from, struct rng *r, const char *what)
{
    bool began = false;
    for (size_t i = from; i < corpus_size && (i == from || !is_init(corpus[i])); i++) {
        AUTO(json) json_t *odd = changed(corpus[i], r);
        bool fine = rng_below(r, 2) && say(s, odd, what);
        began = began || (fine && is_init(odd));
        if (i == from && !began)
            CHECK(say(s, corpus[i], what)); /* what failed before it left no trace */
        else if (!fine)
            (void)say(s, corpus[i], what);
    }
}

TEST(a_changed_request_is_carried_out_or_changes_nothing)
{
    const char *wanted = getenv("FUZZ_SEED");
    uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : 1;
    size_t inits[LINES_MAX], init_count = 0, fine = 0, refused = 0;
    load_corpus();
    for (size_t i = 0; i < corpus_size; i++)
        if (is_init(corpus[i]))
            inits[init_count++] = i;
    CHECK(init_count > 0);
    for (size_t i = 0; i < SESSIONS; i++) {
        struct rng r;
        rng_seed(&r, seed, i);
        struct session s = {.fine = json_array()};
        char what[64];
        snprintf(what, sizeof what, "FUZZ_SEED=%" PRIu64 ", session %zu", seed, i);
        run_session(&s, inits[i % init_count], &r, what);
        check_replay(&s, what);
        fine += json_array_size(s.fine);
        refused += (size_t)s.refused;
        study_free(s.study);
        json_decref(s.fine);
    }
    printf("# FUZZ_SEED=%" PRIu64 ": %d sessions, %zu requests carried out, %zu refused\n", seed,
           SESSIONS, fine, refused);
    CHECK(fine > SESSIONS && refused > SESSIONS);
    drop_corpus();
}

TEST(the_sessions_that_are_changed_are_good)
{
    struct session s = {.fine = json_array()};
    load_corpus();
    for (size_t i = 0; i < corpus_size; i++) {
        if (is_init(corpus[i])) {
            study_free(s.study);
            s.study = NULL;
        }
        CHECK(say(&s, corpus[i], "the corpus"));
    }
    study_free(s.study);
    json_decref(s.fine);
    drop_corpus();
}
