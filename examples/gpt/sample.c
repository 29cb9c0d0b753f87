/* sample - text from the model of a checkpoint, one token after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/checkpoint.h"
#include "../kit/rng.h"
#include "train.h"

enum { BYTES = 256 };

/* What a text consists of: the tokens so far, and memory for the probabilities of the next one. */
struct text {
    uint16_t *token;
    float *logit;
    size_t n; /* number of tokens */
};

/* Chooses one of n tokens with probability exp(logit / temperature) / sum. Overwrites the logits
 * with these. `u` is in [0, 1). */
static int choose(float *logit, int n, float temperature, float u)
{
    int best = 0, at = 0;
    float sum = 0;
    for (int i = 1; i < n; i++)
        best = logit[i] > logit[best] ? i : best;
    if (temperature <= 0)
        return best;
    float top = logit[best];
    for (int i = 0; i < n; i++)
        sum += logit[i] = expf((logit[i] - top) / temperature);
    for (u *= sum; at < n - 1 && u >= logit[at]; at++)
        u -= logit[at];
    return at;
}

/* Reads the prompt into x->token, which has room for one token per character. Returns 0, or -1 with
 * the error in `why`. */
static int read_prompt(struct text *x, const char *prompt, int vocabulary, char *why,
                       size_t why_size)
{
    if (vocabulary == BYTES) {
        for (; *prompt; prompt++)
            x->token[x->n++] = (uint8_t)*prompt;
        return 0;
    }
    const char *at = prompt;
    for (char *end; *at; at = end + strspn(end, " ,")) {
        unsigned long v = strtoul(at, &end, 10);
        if (end == at || v >= (unsigned long)vocabulary)
            break;
        x->token[x->n++] = (uint16_t)v;
    }
    if (x->n > 0 && !*at)
        return 0;
    snprintf(why, why_size,
             "sample: --prompt '%s': expected tokens, numbers from 0 to %d, since the model is not "
             "one of bytes (try: --prompt='%d')",
             prompt, vocabulary - 1, vocabulary - 1);
    return -1;
}

/* Adds `length` tokens. The model sees the last `context` of them. Returns 0 or -1. */
static int generate(struct text *x, struct model *m, const struct train_config *c)
{
    size_t T = (size_t)m->c.context, V = (size_t)m->c.vocabulary;
    size_t row = (size_t)ops_padded(m->c.vocabulary), total = x->n + (size_t)c->length;
    uint16_t *window = m->ops->alloc(m->dev, T * sizeof *window);
    int ok = window != NULL;
    for (; ok && x->n < total; x->n++) {
        size_t from = x->n > T ? x->n - T : 0; /* tokens after position n have no effect on it */
        ok = m->ops->put(m->dev, window, x->token + from, T * sizeof *window) == 0;
        model_forward(m, window, 1);
        ok = ok && m->ops->get(m->dev, x->logit, (float *)m->logits + (x->n - from - 1) * row,
                               V * sizeof *x->logit) == 0;
        float u = rng_unit((uint64_t)c->seed, x->n);
        x->token[x->n] = (uint16_t)choose(x->logit, m->c.vocabulary, c->temperature, u);
    }
    m->ops->release(m->dev, window);
    return ok ? 0 : -1;
}

/* Prints bytes as they are, 0 too, and other tokens as numbers. */
static void print(const struct text *x, int vocabulary)
{
    for (size_t i = 0; i < x->n; i++)
        if (vocabulary == BYTES)
            putchar(x->token[i]);
        else
            printf("%s%u", i > 0 ? " " : "", (unsigned)x->token[i]);
    putchar('\n');
}

/* Opens the model of a checkpoint. Returns 0, or -1 with the error in `why`. */
static int open_model(struct model *m, const struct train_config *c, char *why, size_t why_size)
{
    struct checkpoint_head h = {0};
    void *state = NULL;
    snprintf(why, why_size, "sample: there is no checkpoint (try: --checkpoint DIR)");
    if (!c->checkpoint_dir ||
        checkpoint_read(&h, &state, c->checkpoint_dir, TRAIN_CHECKPOINT, why, why_size) <= 0)
        return -1;
    m->c = (struct model_config){.layers = atoi(checkpoint_get(&h, "layers")),
                                 .channels = atoi(checkpoint_get(&h, "channels")),
                                 .heads = atoi(checkpoint_get(&h, "heads")),
                                 .context = atoi(checkpoint_get(&h, "context")),
                                 .vocabulary = atoi(checkpoint_get(&h, "vocabulary"))};
    snprintf(why, why_size, "sample: out of memory");
    int ok = model_open(m, 1) == 0 && model_reserve(m, 1) == 0; /* one rank: no padding */
    if (ok && h.bytes < m->params * sizeof(float))
        ok = (snprintf(why, why_size, "sample: the checkpoint is of another model"), 0);
    ok = ok && m->ops->put(m->dev, m->w, state, m->params * sizeof(float)) == 0 &&
         m->ops->wait(m->dev) == 0;
    free(state);
    return ok ? 0 : -1;
}

int sample(const struct train_config *c)
{
    struct model m = {.ops = c->backend, .dev = c->dev};
    struct text x = {0};
    char why[1024];
    int ok = open_model(&m, c, why, sizeof why) == 0;
    if (ok) {
        const char *prompt = c->prompt ? c->prompt : "";
        if (m.c.vocabulary == BYTES && !*prompt)
            prompt = "\n";
        x.token = calloc(strlen(prompt) + (size_t)c->length + (size_t)m.c.context, sizeof *x.token);
        x.logit = calloc((size_t)m.c.vocabulary, sizeof *x.logit);
        ok = x.token && x.logit && read_prompt(&x, prompt, m.c.vocabulary, why, sizeof why) == 0;
        if (ok && generate(&x, &m, c) < 0)
            ok = (snprintf(why, sizeof why, "sample: %s", m.ops->info(m.dev)->error), 0);
    }
    if (ok)
        print(&x, m.c.vocabulary);
    else
        fprintf(stderr, "gpt: %s\n", why);
    model_close(&m);
    free(x.token);
    free(x.logit);
    return ok ? 0 : 1;
}
