/* sample - text from the model of a checkpoint, one byte after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kit/checkpoint.h"
#include "../kit/rng.h"
#include "train.h"

/* Chooses a symbol with probability exp(logit / temperature) / sum. `u` is in [0, 1). */
static int choose(const float *logit, float temperature, float u)
{
    int best = 0;
    float p[MODEL_SYMBOLS], sum = 0;
    for (int i = 1; i < MODEL_SYMBOLS; i++)
        best = logit[i] > logit[best] ? i : best;
    if (temperature <= 0)
        return best;
    for (int i = 0; i < MODEL_SYMBOLS; i++)
        sum += p[i] = expf((logit[i] - logit[best]) / temperature);
    int at = 0;
    for (u *= sum; at < MODEL_SYMBOLS - 1 && u >= p[at]; at++)
        u -= p[at];
    return at;
}

/* Prints the bytes after the prompt. The model sees the last `context` of them. */
static int generate(struct model *m, const struct train_config *c)
{
    const char *prompt = c->prompt && *c->prompt ? c->prompt : "\n";
    size_t T = (size_t)m->c.context, n = strlen(prompt), total = n + (size_t)c->length;
    uint8_t *text = calloc(1, total + T), *window = m->ops->alloc(m->dev, T);
    float logit[MODEL_SYMBOLS];
    int ok = text && window;
    if (ok)
        memcpy(text, prompt, n);
    for (; ok && n < total; n++) {
        size_t from = n > T ? n - T : 0; /* bytes after position n have no effect on it */
        ok = m->ops->put(m->dev, window, text + from, T) == 0;
        model_forward(m, window, 1);
        ok = ok && m->ops->get(m->dev, logit, (float *)m->logits + (n - from - 1) * MODEL_SYMBOLS,
                               sizeof logit) == 0;
        text[n] = (uint8_t)choose(logit, c->temperature, rng_unit((uint64_t)c->seed, n));
    }
    if (ok)
        printf("%.*s\n", (int)total, (char *)text);
    m->ops->release(m->dev, window);
    free(text);
    return ok ? 0 : -1;
}

int sample(const struct train_config *c)
{
    struct checkpoint_head h;
    struct model m = {.ops = c->backend, .dev = c->dev};
    void *state = NULL;
    char why[1024] = "sample: there is no checkpoint (try: --checkpoint DIR)";
    int ok = c->checkpoint_dir && checkpoint_read(&h, &state, c->checkpoint_dir, TRAIN_CHECKPOINT,
                                                  0, why, sizeof why) > 0;
    if (ok)
        m.c = (struct model_config){.layers = (int)h.values[0],
                                    .channels = (int)h.values[1],
                                    .heads = (int)h.values[2],
                                    .context = (int)h.values[3]};
    if (ok) { /* with one rank, parameters have no padding */
        snprintf(why, sizeof why, "sample: out of memory");
        ok = model_open(&m, 1) == 0 && model_reserve(&m, 1) == 0 &&
             m.ops->put(m.dev, m.w, state, m.params * sizeof(float)) == 0 && generate(&m, c) == 0;
    }
    if (!ok)
        fprintf(stderr, "gpt: %s\n", why);
    model_close(&m);
    free(state);
    return ok ? 0 : 1;
}
