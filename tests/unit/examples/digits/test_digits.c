/* The example's arithmetic: gradients against differences, optimizers against steps taken by hand,
 * and batches. */
#include <math.h>

#include "common/mem.h"
#include "examples/digits/data.h"
#include "examples/digits/formula.h"
#include "examples/digits/mlp.h"
#include "examples/kit/rng.h"
#include "tests/unit/test.h"

enum { ROWS = 7, IN = 6, CLASSES = 4 };

/* A small network with random weights, and a batch for it. */
struct small {
    struct mlp *m;
    size_t params;
    float *state; /* 3 x params */
    float x[ROWS * IN];
    int label[ROWS], sample[ROWS];
    struct mlp_batch batch;
};

static const struct mlp_config base = {.layers = 3,
                                       .width = {IN, 5, 8, CLASSES},
                                       .activation = MLP_TANH,
                                       .optimizer = MLP_SGD,
                                       .momentum = 0.9f,
                                       .seed = 3,
                                       .batch_max = ROWS};

static void small_open(struct small *s, const struct mlp_config *c)
{
    char why[256];
    CHECK(mlp_cpu.open(&s->m, c, why, sizeof why) == 0);
    s->params = mlp_params(c);
    s->state = xzalloc(3 * s->params * sizeof *s->state);
    for (size_t i = 0; i < s->params; i++)
        s->state[i] = rng_unit(11, i) - 0.5f;
    CHECK_INT(mlp_cpu.load(s->m, s->state), 0);
    for (int i = 0; i < ROWS * IN; i++)
        s->x[i] = 2 * rng_unit(12, (uint64_t)i) - 1;
    for (int i = 0; i < ROWS; i++) {
        s->label[i] = i % CLASSES;
        s->sample[i] = 100 + i;
    }
    s->batch = (struct mlp_batch){.x = s->x,
                                  .label = s->label,
                                  .sample = s->sample,
                                  .n = ROWS,
                                  .epoch = 2,
                                  .scale = 1.0f / ROWS};
}

static void small_close(struct small *s)
{
    mlp_cpu.close(s->m);
    free(s->state);
}

static double loss_at(struct small *s, size_t parameter, float moved)
{
    float kept = s->state[parameter], loss;
    s->state[parameter] += moved;
    CHECK_INT(mlp_cpu.load(s->m, s->state), 0);
    CHECK_INT(mlp_cpu.gradient(s->m, &s->batch), 0);
    CHECK_INT(mlp_cpu.get(s->m, s->params, &loss, 1), 0);
    s->state[parameter] = kept;
    return (double)loss;
}

/* `bias`: of the first hidden units, alternately positive and negative. */
static void check_gradient(const struct mlp_config *c, float bias)
{
    struct small s;
    small_open(&s, c);
    for (int j = 0; j < c->width[1]; j++)
        s.state[c->width[0] * c->width[1] + j] += j % 2 ? bias : -bias;
    CHECK_INT(mlp_cpu.load(s.m, s.state), 0);
    float *grad = xzalloc(s.params * sizeof *grad), h = 1e-2f;
    CHECK_INT(mlp_cpu.gradient(s.m, &s.batch), 0);
    CHECK_INT(mlp_cpu.get(s.m, 0, grad, s.params), 0);
    double size = 0;
    for (size_t i = 0; i < s.params; i++) {
        /* Richardson extrapolation removes the error of order h^2, so that floats keep enough
         * digits. */
        double coarse = (loss_at(&s, i, 2 * h) - loss_at(&s, i, -2 * h)) / (4 * (double)h);
        double fine = (loss_at(&s, i, h) - loss_at(&s, i, -h)) / (2 * (double)h);
        CHECK_NEAR(grad[i], (4 * fine - coarse) / 3, 1e-4);
        size = fmax(size, fabs((double)grad[i]));
    }
    CHECK(size > 0.05); /* else the tolerance would be meaningless */
    free(grad);
    small_close(&s);
}

TEST(gradients_agree_with_differences_for_tanh)
{
    check_gradient(&base, 0);
}

TEST(gradients_agree_with_differences_for_gelu_with_smoothing_and_dropout)
{
    struct mlp_config c = base;
    c.activation = MLP_GELU;
    c.label_smoothing = 0.2f;
    c.dropout = 0.3f;
    check_gradient(&c, 0);
}

TEST(gradients_agree_with_differences_for_relu_away_from_its_kink)
{
    struct mlp_config c = base;
    c.activation = MLP_RELU;
    c.layers = 2;
    c.width[1] = 8;
    c.width[2] = CLASSES;
    check_gradient(&c, 4); /* more than 6 inputs of at most 1 by weights of at most 0.5 give */
}

TEST(parts_of_a_batch_sum_to_its_gradient_with_the_same_masks)
{
    struct mlp_config c = base;
    c.dropout = 0.4f;
    struct small s;
    small_open(&s, &c);
    size_t n = s.params + 1; /* and the loss */
    float *whole = xzalloc(n * sizeof *whole), *part = xzalloc(n * sizeof *part);
    double *sum = xzalloc(n * sizeof *sum);
    CHECK_INT(mlp_cpu.gradient(s.m, &s.batch), 0);
    CHECK_INT(mlp_cpu.get(s.m, 0, whole, n), 0);
    static const int from[] = {0, 3, 3, ROWS}; /* the second part is empty */
    for (int p = 0; p < 3; p++) {
        struct mlp_batch b = s.batch;
        b.x += from[p] * IN;
        b.label += from[p];
        b.sample += from[p];
        b.n = from[p + 1] - from[p];
        CHECK_INT(mlp_cpu.gradient(s.m, &b), 0);
        CHECK_INT(mlp_cpu.get(s.m, 0, part, n), 0);
        for (size_t i = 0; i < n; i++)
            sum[i] += (double)part[i];
    }
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(sum[i], whole[i], 1e-6);
    free(whole);
    free(part);
    free(sum);
    small_close(&s);
}

TEST(huge_inputs_give_finite_losses)
{
    struct mlp_config c = base;
    c.activation = MLP_RELU;
    struct small s;
    small_open(&s, &c);
    for (int i = 0; i < ROWS * IN; i++)
        s.x[i] *= 1e6f;
    float loss;
    CHECK_INT(mlp_cpu.gradient(s.m, &s.batch), 0);
    CHECK_INT(mlp_cpu.get(s.m, s.params, &loss, 1), 0);
    CHECK(isfinite(loss) && loss > 0);
    small_close(&s);
}

/* A weight of 1 after `steps` steps along a gradient of 0.5. */
static double stepped(enum mlp_optimizer o, float decay, int steps)
{
    struct mlp_config c = base;
    c.optimizer = o;
    c.weight_decay = decay;
    struct small s;
    small_open(&s, &c);
    s.state[0] = 1;
    CHECK_INT(mlp_cpu.load(s.m, s.state), 0);
    for (int t = 1; t <= steps; t++) {
        float g = 0.5f;
        CHECK_INT(mlp_cpu.put(s.m, 0, &g, 1), 0);
        CHECK_INT(mlp_cpu.update(s.m, 0.1f, t), 0);
    }
    CHECK_INT(mlp_cpu.save(s.m, s.state), 0);
    double w = (double)s.state[0];
    small_close(&s);
    return w;
}

TEST(optimizers_take_the_steps_that_a_hand_finds)
{
    CHECK_NEAR(stepped(MLP_SGD, 0, 2), 1 - 2 * 0.1 * 0.5, 1e-6);
    CHECK_NEAR(stepped(MLP_SGD, 0.2f, 1), 1 - 0.1 * (0.5 + 0.2), 1e-6);
    CHECK_NEAR(stepped(MLP_MOMENTUM, 0, 2), 1 - 0.1 * 0.5 - 0.1 * (0.9 * 0.5 + 0.5), 1e-6);
    /* A constant gradient moves Adam by lr each step, whatever its size. */
    CHECK_NEAR(stepped(MLP_ADAM, 0, 3), 1 - 3 * 0.1, 1e-5);
    CHECK_NEAR(stepped(MLP_ADAM, 0.2f, 1), 1 - 0.1, 1e-5);
    CHECK_NEAR(stepped(MLP_ADAMW, 0.2f, 1), 1 * (1 - 0.1 * 0.2) - 0.1, 1e-5);
}

TEST(dropout_leaves_out_its_part_of_the_units)
{
    enum { N = 20000 };
    int left_out = 0;
    for (uint64_t i = 0; i < N; i++)
        left_out += rng_unit(formula_mask_key(1, 5, 0), i) < 0.3f;
    CHECK_NEAR(left_out / (double)N, 0.3, 4 * sqrt(0.3 * 0.7 / N));
    CHECK(formula_mask_key(1, 5, 0) != formula_mask_key(1, 5, 1));
    CHECK(formula_mask_key(1, 5, 0) != formula_mask_key(1, 6, 0));
}

TEST(an_epoch_visits_every_sample_once_in_an_order_of_its_own)
{
    enum { N = 1000 };
    int first[N], second[N], seen[N] = {0}, same = 0;
    data_shuffle(first, N, 7, 1);
    data_shuffle(second, N, 7, 2);
    for (int i = 0; i < N; i++) {
        seen[first[i]]++;
        same += first[i] == second[i];
    }
    for (int i = 0; i < N; i++)
        CHECK_INT(seen[i], 1);
    CHECK(same < N / 50);
}

TEST(a_shift_moves_columns_and_fills_with_paper)
{
    float x[DATA_PIXELS], out[DATA_PIXELS];
    for (int i = 0; i < DATA_PIXELS; i++)
        x[i] = (float)(i + 1);
    struct data d = {.n = 1, .x = x};
    int ways[3] = {0};
    for (int epoch = 0; epoch < 60; epoch++) {
        data_image(out, &d, 0, 1, 9, epoch);
        int right = out[9] < x[9] ? 1 : out[9] > x[9] ? -1 : 0;
        ways[right + 1]++;
        for (int i = 0; i < DATA_PIXELS; i++) {
            int from = i % DATA_SIDE - right;
            CHECK_NEAR(out[i], from < 0 || from >= DATA_SIDE ? 0 : x[i - right], 0);
        }
    }
    CHECK(ways[0] > 5 && ways[1] > 5 && ways[2] > 5);
    data_image(out, &d, 0, 0, 9, 1);
    CHECK(memcmp(out, x, sizeof x) == 0);
}

TEST(a_line_that_is_no_image_is_named)
{
    char path[] = "/tmp/test_digits_XXXXXX", why[256];
    FILE *f = fdopen(mkstemp(path), "w");
    for (int line = 0; line < 3; line++)
        for (int i = 0; i <= DATA_PIXELS; i++)
            fprintf(f, "%d%c", line == 2 && i == 9 ? 17 : 3, i < DATA_PIXELS ? ',' : '\n');
    fclose(f);
    struct data train = {0}, test = {0};
    CHECK(data_read(&train, &test, path, why, sizeof why) < 0);
    CHECK_HAS(why, "line 3");
    data_free(&train);
    data_free(&test);
    unlink(path);
}
