/* test_estimate - documented values of the formulas, and properties that hold for all options. */
#include "launcher/estimate/estimate.h"

#include <math.h>

#include "common/rng.h"
#include "launcher/estimate/estimate_internal.h"
#include "tests/unit/test.h"

static const double GIB = 1 << 30;

static struct estimate estimate(const struct estimate_opts *o)
{
    struct estimate s = {0};
    struct err e = {0};
    if (estimate_job(&s, o, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

/* The model of DeepSpeed's documentation of memory needs, on 8 GPUs. */
static struct estimate_opts deepspeed(int zero)
{
    struct estimate_opts o = estimate_opts_default();
    o.model = (struct model_shape){
        .kind = MODEL_PARAMS_ONLY, .params = 2851000000, .largest_layer = 32000000};
    o.precision = ESTIMATE_FP16;
    o.ranks = 8;
    o.zero = zero;
    return o;
}

/* Sums the parts that the model and the optimizer need without a batch: parameters, gradients,
 * optimizer state, master weights. */
static void model_states(const struct estimate *s, uint64_t *low_bytes, uint64_t *high_bytes)
{
    *low_bytes = *high_bytes = 0;
    for (int k = ESTIMATE_PARAMETERS; k <= ESTIMATE_MASTER_WEIGHTS; k++) {
        *low_bytes += s->part[k].low_bytes;
        *high_bytes += s->part[k].high_bytes;
    }
}

TEST(model_states_are_those_that_deepspeed_documents)
{
    static const struct {
        int zero;
        bool offload, offload_params;
        int64_t bytes;
        const char *gib;
    } cases[] = {
        {2, false, false, 4 * INT64_C(2851000000) + 2 * INT64_C(2851000000), "15.93"},
        {2, true, false, 2 * INT64_C(2851000000), "5.31"},
        {3, false, false, 4 * 32000000 + 18 * INT64_C(2851000000) / 8, "6.09"},
        {3, true, false, 4 * 32000000 + 2 * INT64_C(2851000000) / 8, "0.78"},
        {3, true, true, 4 * 32000000, "0.12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct estimate_opts o = deepspeed(cases[i].zero);
        o.offload = cases[i].offload;
        o.offload_params = cases[i].offload_params;
        struct estimate s = estimate(&o);
        uint64_t low = 0, high = 0;
        char gib[32];
        model_states(&s, &low, &high);
        snprintf(gib, sizeof gib, "%.2f", (double)high / GIB);
        CHECK_INT(high, cases[i].bytes);
        CHECK_STR(gib, cases[i].gib);
        CHECK(low <= high);
    }
}

TEST(the_low_end_is_that_of_the_zero_paper)
{
    static const double bytes_per_param[] = {16, 4 + 12.0 / 8, 2 + 14.0 / 8, 16.0 / 8};
    for (int zero = 0; zero <= 3; zero++) {
        struct estimate_opts o = deepspeed(zero);
        struct estimate s = estimate(&o);
        uint64_t low = 0, high = 0;
        model_states(&s, &low, &high);
        double live = zero == 3 ? 2 * 32e6 : 0;
        CHECK_NEAR((double)low, bytes_per_param[zero] * 2851e6 + live, 8);
    }
}

TEST(bytes_per_parameter_are_those_of_the_precision_and_the_optimizer)
{
    static const struct {
        enum estimate_precision precision;
        enum estimate_optimizer optimizer;
        bool no_master;
        double low, high;
    } cases[] = {
        {ESTIMATE_FP32, ESTIMATE_ADAMW, false, 16, 16},
        {ESTIMATE_FP32, ESTIMATE_SGD, false, 8, 8},
        {ESTIMATE_FP32, ESTIMATE_MOMENTUM, false, 12, 12},
        {ESTIMATE_BF16, ESTIMATE_ADAM, false, 16, 18},
        {ESTIMATE_BF16, ESTIMATE_ADAM_8BIT, false, 10, 12},
        {ESTIMATE_BF16, ESTIMATE_LION, false, 12, 14},
        {ESTIMATE_BF16, ESTIMATE_ADAMW, true, 8, 8},
        {ESTIMATE_BF16, ESTIMATE_ADAFACTOR, false, 8, 10.01},
        {ESTIMATE_FP8, ESTIMATE_ADAMW, false, 15, 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct estimate_opts o = deepspeed(0);
        o.precision = cases[i].precision;
        o.optimizer = cases[i].optimizer;
        o.no_master = cases[i].no_master;
        struct estimate s = estimate(&o);
        uint64_t low = 0, high = 0;
        model_states(&s, &low, &high);
        CHECK_NEAR((double)low / 2851e6, cases[i].low, 1e-6);
        CHECK_NEAR((double)high / 2851e6, cases[i].high, 1e-6);
    }
}

/* The check of arXiv:2205.05198's formulas: s 2048, b 1, h 4096, a 32, 32 layers. */
static struct estimate_opts korthikanti(void)
{
    struct estimate_opts o = estimate_opts_default();
    o.model = (struct model_shape){
        .layers = 32, .hidden = 4096, .heads = 32, .vocab = 51200, .dropout = true, .tied = true};
    o.seq = 2048;
    return o;
}

static double activations_gib(const struct estimate_opts *o)
{
    return (double)estimate(o).part[ESTIMATE_ACTIVATIONS].low_bytes / GIB;
}

TEST(activations_are_those_of_the_paper)
{
    struct estimate_opts o = korthikanti();
    CHECK_NEAR(activations_gib(&o), 8.5, 1e-9);
    o.full_attention = true;
    CHECK_NEAR(activations_gib(&o), 28.5, 1e-9);
    o.recompute = true;
    CHECK_NEAR(activations_gib(&o), 0.5, 1e-9);
    /* s b h (10 + 24 / t + 5 a s / (h t)) without sequence parallelism, all / t with it */
    o.recompute = false;
    o.tp = 8;
    o.no_master = true; /* norms in 16 bit, as in the paper */
    struct estimate s = estimate(&o);
    double sbh = 2048.0 * 4096 * 32;
    CHECK((double)s.part[ESTIMATE_ACTIVATIONS].high_bytes >= sbh * (10 + 3 + 80 / 8.0));
    CHECK_NEAR((double)s.part[ESTIMATE_ACTIVATIONS].low_bytes, sbh * (34 + 80) / 8, 1);
}

TEST(fp32_keeps_four_bytes_and_masks_of_one)
{
    struct estimate_opts o = korthikanti();
    o.precision = ESTIMATE_FP32;
    CHECK_NEAR(activations_gib(&o), 8.5 * 66 / 34, 1e-9);
}

TEST(a_batch_has_the_activations_of_its_sequences)
{
    struct estimate_opts o = korthikanti();
    double one = activations_gib(&o);
    o.batch = 7;
    CHECK_NEAR(activations_gib(&o), 7 * one, 1e-6);
    struct estimate s = estimate(&o);
    CHECK_INT(s.part[ESTIMATE_LOGITS].low_bytes, 7LL * 2048 * 51200 * 4);
    CHECK_NEAR((double)s.part[ESTIMATE_LOGITS].expected_bytes, 7.0 * 2048 * 51200 * 12.2, 1);
    CHECK_NEAR((double)s.part[ESTIMATE_LOGITS].high_bytes, 7.0 * 2048 * 51200 * 14.5, 1);
}

/* s 512, no dropout, pure bf16, scaled_dot_product_attention: bytes per token, width and layer that
 * PyTorch's tracker of tensors has for transformers, without a mask of padding. */
TEST(activations_are_those_that_transformers_keeps)
{
    const struct {
        const char *name;
        struct model_shape m;
        double bytes;
    } cases[] = {
        {"gpt2",
         {.hidden = 768, .heads = 12, .fused_qkv = true, .positions = 1, .act = MODEL_ACT_GELU_NEW},
         56.1},
        {"opt", {.hidden = 768, .heads = 12, .positions = 1, .act = MODEL_ACT_RELU}, 24.1},
        {"bert", {.hidden = 768, .heads = 12, .positions = 1}, 32.1},
        {"pythia", {.hidden = 2048, .heads = 8, .fused_qkv = true}, 36.0},
        {"llama 3.2",
         {.hidden = 2048, .heads = 32, .kv_heads = 8, .gated = true, .rms = true},
         53.1},
        {"qwen 3",
         {.hidden = 1024,
          .heads = 16,
          .kv_heads = 8,
          .head_dim = 128,
          .intermediate = 3072,
          .gated = true,
          .rms = true,
          .qk_norm = MODEL_QK_HEAD},
         70.1},
        {"gemma",
         {.hidden = 2048,
          .heads = 8,
          .kv_heads = 1,
          .head_dim = 256,
          .intermediate = 16384,
          .gated = true,
          .rms = true,
          .norm32 = true},
         88.5},
        {"gemma 3",
         {.hidden = 1152,
          .heads = 4,
          .kv_heads = 1,
          .head_dim = 256,
          .intermediate = 6912,
          .gated = true,
          .rms = true,
          .norm32 = true,
          .norms = 4,
          .qk_norm = MODEL_QK_HEAD},
         97.4},
        {"mixtral",
         {.hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .intermediate = 14336,
          .gated = true,
          .rms = true,
          .experts = 8,
          .experts_per_token = 2},
         85.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct estimate_opts o = estimate_opts_default();
        o.model = cases[i].m;
        o.model.layers = 4;
        o.model.vocab = 100;
        o.seq = 512;
        o.no_master = true;
        struct estimate s = estimate(&o);
        double per = (double)s.part[ESTIMATE_ACTIVATIONS].expected_bytes / 512 / 4 / o.model.hidden;
        if (fabs(per / cases[i].bytes - 1) > 0.01)
            FAIL("%s: %.2f, not %.2f", cases[i].name, per, cases[i].bytes);
    }
}

TEST(eager_attention_keeps_scores_and_their_copies)
{
    /* gpt2, autocast, s 512: 132 without and 142 with dropout, without the casts of weights */
    struct estimate_opts o = estimate_opts_default();
    o.model = (struct model_shape){.layers = 1,
                                   .hidden = 768,
                                   .heads = 12,
                                   .fused_qkv = true,
                                   .vocab = 100,
                                   .positions = 512,
                                   .act = MODEL_ACT_GELU_NEW};
    o.seq = 512;
    o.full_attention = true;
    double unit = 512.0 * 768;
    CHECK_NEAR((double)estimate(&o).part[ESTIMATE_ACTIVATIONS].expected_bytes / unit, 132, 1);
    o.model.dropout = true;
    CHECK_NEAR((double)estimate(&o).part[ESTIMATE_ACTIVATIONS].expected_bytes / unit, 142, 1);
    o.selective = true;
    CHECK((double)estimate(&o).part[ESTIMATE_ACTIVATIONS].expected_bytes / unit < 90);
}

TEST(the_estimate_is_the_largest_phase)
{
    struct estimate_opts o = korthikanti();
    o.batch = 8;
    struct estimate s = estimate(&o);
    CHECK_INT(s.expected_bytes, s.phase[ESTIMATE_FORWARD].expected_bytes);
    o.recompute = true;
    o.seq = 16; /* little to keep: all gradients are more */
    s = estimate(&o);
    CHECK(s.phase[ESTIMATE_FORWARD].expected_bytes < s.phase[ESTIMATE_BACKWARD].expected_bytes);
    CHECK_INT(s.expected_bytes, s.phase[ESTIMATE_BACKWARD].expected_bytes);
    o.foreach = true;
    s = estimate(&o);
    CHECK_INT(s.expected_bytes, s.phase[ESTIMATE_STEP].expected_bytes);
    /* With several micro-batches gradients exist when the activations peak. */
    o = korthikanti();
    o.batch = 8;
    uint64_t one = estimate(&o).expected_bytes;
    o.accumulate = 1;
    CHECK_INT(estimate(&o).expected_bytes, one);
    o.accumulate = 2;
    s = estimate(&o);
    CHECK_INT(s.expected_bytes, one + s.part[ESTIMATE_GRADIENTS].expected_bytes);
}

TEST(ranks_that_divide_the_tokens_divide_the_states_too)
{
    struct estimate_opts o = korthikanti();
    o.ranks = 8;
    o.zero = 2;
    struct estimate one = estimate(&o);
    o.cp = 8;
    struct estimate all = estimate(&o);
    for (int k = ESTIMATE_PARAMETERS; k <= ESTIMATE_MASTER_WEIGHTS; k++)
        CHECK_INT(all.part[k].high_bytes, one.part[k].high_bytes);
    CHECK_INT(all.part[ESTIMATE_COLLECTIVE_BUFFERS].high_bytes,
              one.part[ESTIMATE_COLLECTIVE_BUFFERS].high_bytes);
}

TEST(formulas_say_what_is_trained)
{
    struct estimate_opts o = korthikanti();
    o.ranks = 8;
    o.lora_rank = 8;
    for (o.zero = 0; o.zero <= 3; o.zero++) {
        struct estimate s = estimate(&o);
        CHECK_HAS(s.part[ESTIMATE_PARAMETERS].formula, "2 P, frozen");
        for (int k = ESTIMATE_GRADIENTS; k <= ESTIMATE_COLLECTIVE_BUFFERS; k++)
            if (k <= ESTIMATE_MASTER_WEIGHTS || k >= ESTIMATE_TEMPORARIES)
                CHECK(strchr(s.part[k].formula, 'T') && !strstr(s.part[k].formula, " P"));
    }
}

TEST(a_frozen_model_has_gradients_and_state_of_its_adapters_only)
{
    struct estimate_opts o = korthikanti();
    o.lora_rank = 8;
    o.lora_targets = ESTIMATE_LORA_Q | ESTIMATE_LORA_V;
    struct estimate s = estimate(&o);
    double t = 8.0 * 2 * 32 * (4096 + 4096);
    CHECK_NEAR(estimate_trainable(&s.o), t, 1e-6);
    CHECK_NEAR((double)s.part[ESTIMATE_OPTIMIZER_STATE].high_bytes, 8 * t, 8);
    CHECK_NEAR((double)s.part[ESTIMATE_GRADIENTS].high_bytes, 4 * t, 8);
    CHECK_NEAR((double)s.part[ESTIMATE_PARAMETERS].low_bytes, 2 * ((double)s.o.model.params + t),
               8);
    o.four_bit = true;
    double quarter = (double)estimate(&o).part[ESTIMATE_PARAMETERS].low_bytes;
    CHECK(quarter < 0.35 * (double)s.part[ESTIMATE_PARAMETERS].low_bytes);
}

TEST(losses_in_parts_need_less)
{
    struct estimate_opts o = korthikanti();
    uint64_t eager = estimate(&o).part[ESTIMATE_LOGITS].expected_bytes;
    o.loss = ESTIMATE_LOSS_CHUNKED;
    CHECK_INT(estimate(&o).part[ESTIMATE_LOGITS].expected_bytes, eager / 8);
    o.loss = ESTIMATE_LOSS_FUSED;
    CHECK(estimate(&o).part[ESTIMATE_LOGITS].expected_bytes < eager / 10);
}

TEST(a_model_without_an_output_over_a_vocabulary_has_no_logits)
{
    struct estimate_opts o = korthikanti();
    o.model.no_logits = true;
    CHECK_INT(estimate(&o).part[ESTIMATE_LOGITS].high_bytes, 0);
}

TEST(the_sequence_is_the_models_context_up_to_2048)
{
    struct estimate_opts o = korthikanti();
    o.seq = 0;
    o.model.context = 512;
    CHECK_INT(estimate(&o).o.seq, 512);
    o.model.context = 131072;
    CHECK_INT(estimate(&o).o.seq, 2048);
}

TEST(a_number_of_parameters_alone_assumes_usual_shapes)
{
    struct estimate_opts known = korthikanti(), guessed = korthikanti();
    struct estimate k = estimate(&known);
    guessed.model = (struct model_shape){.kind = MODEL_PARAMS_ONLY, .params = k.o.model.params};
    struct estimate g = estimate(&guessed);
    CHECK(g.low_bytes <= k.low_bytes && k.high_bytes <= g.high_bytes);
    CHECK((double)g.high_bytes < 1.2 * (double)k.high_bytes);
}

TEST(options_that_exclude_each_other_are_named)
{
    const struct {
        struct estimate_opts change;
        int code;
        const char *says;
    } cases[] = {
        {{.batch = 0}, -ERANGE, "batch: 0"},
        {{.batch = 1, .ranks = 6, .tp = 4}, -EINVAL, "6 ranks: not a multiple of 4 x 1"},
        {{.batch = 1, .tp = 3}, -EINVAL, "tensor parallelism 3: the model has 32 heads"},
        {{.batch = 1, .pp = 64}, -EINVAL, "pipeline parallelism 64: the model has 32 layers"},
        {{.batch = 1, .zero = 4}, -ERANGE, "ZeRO stage: 4"},
        {{.batch = 1, .precision = ESTIMATE_FP32, .no_master = true}, -EINVAL, "fp32"},
        {{.batch = 1, .zero = 2, .offload = true, .offload_params = true}, -EINVAL, "stage 3"},
        {{.batch = 1, .fused_step = true, .accumulate = 2}, -EINVAL, "2 micro-batches: "},
        {{.batch = 1, .seq = 4096}, -EINVAL, "sequence length 4096: the model has 1024 positions"},
        {{.batch = 1, .model.layers = -1}, -ERANGE, "model: layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct estimate_opts o = cases[i].change;
        o.model = korthikanti().model;
        o.model.layers = cases[i].change.model.layers ? -1 : o.model.layers;
        o.model.positions = o.model.context = 1024;
        o.tp = o.tp ? o.tp : 1;
        o.pp = o.pp ? o.pp : 1;
        struct estimate s = {.low_bytes = 7};
        struct err e = {0};
        CHECK_INT(estimate_job(&s, &o, &e), cases[i].code);
        CHECK_HAS(e.text, cases[i].says);
        CHECK_INT(s.low_bytes, 7);
    }
}

/* Random options. Small numbers are frequent, so that most combinations are valid. */
static struct estimate_opts random_opts(struct rng *r)
{
    struct estimate_opts o = estimate_opts_default();
    o.model = (struct model_shape){.layers = 1 + (int)rng_below(r, 48),
                                   .heads = 1 << rng_below(r, 6),
                                   .vocab = 1 + (int)rng_below(r, 150000),
                                   .gated = rng_below(r, 2),
                                   .dropout = rng_below(r, 2),
                                   .tied = rng_below(r, 2),
                                   .experts = rng_below(r, 4) ? 0 : 8};
    o.model.hidden = o.model.heads * 64;
    if (rng_below(r, 4) == 0)
        o.model = (struct model_shape){.kind = MODEL_PARAMS_ONLY,
                                       .params = 1 + (int64_t)(1e11 * rng_unit(r))};
    o.batch = 1 + (int)rng_below(r, 64);
    o.seq = 1 + (int)rng_below(r, 8192);
    o.precision = (enum estimate_precision)rng_below(r, ESTIMATE_PRECISIONS);
    o.optimizer = (enum estimate_optimizer)rng_below(r, ESTIMATE_OPTIMIZERS);
    o.tp = 1 << rng_below(r, 3);
    o.pp = 1 << rng_below(r, 3);
    o.ranks = o.tp * o.pp * (1 << rng_below(r, 5));
    o.zero = (int)rng_below(r, 4);
    o.recompute = rng_below(r, 2);
    o.full_attention = rng_below(r, 2);
    o.offload = rng_below(r, 2);
    o.loss = (enum estimate_loss)rng_below(r, ESTIMATE_LOSSES);
    o.accumulate = (int)rng_below(r, 3);
    o.cp = 1 << rng_below(r, 2);
    o.ranks *= o.cp;
    o.lora_rank = o.model.kind == MODEL_PARAMS_ONLY || rng_below(r, 3) ? 0 : 16;
    o.four_bit = o.lora_rank && rng_below(r, 2);
    o.fused_step = rng_below(r, 8) == 0;
    o.foreach = rng_below(r, 2);
    o.selective = rng_below(r, 4) == 0;
    return o;
}

TEST(ranges_are_ordered_and_the_total_is_the_largest_phase)
{
    struct rng r;
    rng_seed(&r, 39, 0);
    int valid = 0;
    for (int i = 0; i < 20000; i++) {
        struct estimate_opts o = random_opts(&r);
        struct estimate s = {0};
        if (estimate_job(&s, &o, NULL) < 0)
            continue;
        valid++;
        uint64_t low = 0, high = 0;
        for (int k = 0; k < ESTIMATE_PARTS; k++) {
            CHECK(s.part[k].low_bytes <= s.part[k].high_bytes);
            CHECK(s.part[k].low_bytes <= s.part[k].expected_bytes + 1);
            CHECK(s.part[k].expected_bytes <= s.part[k].high_bytes + 1);
            CHECK(s.part[k].formula[0] != '\0');
        }
        for (int p = 0; p < ESTIMATE_PHASES; p++) {
            low = low > s.phase[p].low_bytes ? low : s.phase[p].low_bytes;
            high = high > s.phase[p].high_bytes ? high : s.phase[p].high_bytes;
            CHECK(s.phase[p].low_bytes <= s.phase[p].expected_bytes);
            CHECK(s.phase[p].expected_bytes <= s.phase[p].high_bytes);
        }
        CHECK_INT(s.low_bytes, low);
        CHECK_INT(s.high_bytes, high);
    }
    CHECK(valid > 10000);
}

/* Changes the options so that the job needs no more memory. */
static void reduce(struct estimate_opts *o, int how)
{
    if (how == 0)
        o->batch = (o->batch + 1) / 2;
    else if (how == 1)
        o->seq = (o->seq / o->cp + 1) / 2 * o->cp;
    else if (how == 2)
        o->full_attention = false;
    else if (how == 3)
        o->offload = true;
    else if (o->zero > 0 && o->ranks > o->tp * o->pp * o->cp)
        o->ranks *= 2;
}

TEST(less_of_something_never_needs_more_memory)
{
    struct rng r;
    rng_seed(&r, 40, 0);
    for (int i = 0; i < 20000; i++) {
        struct estimate_opts o = random_opts(&r), less = o;
        struct estimate a = {0}, b = {0};
        reduce(&less, i % 5);
        if (estimate_job(&a, &o, NULL) < 0)
            continue;
        CHECK_INT(estimate_job(&b, &less, NULL), 0);
        CHECK(b.low_bytes <= a.low_bytes && b.high_bytes <= a.high_bytes);
    }
}

/* What a job never needs more memory for: more ranks for a sequence, a higher ZeRO stage (its
 * states), an optimizer that steps in the backward pass, and recomputation. */
TEST(what_saves_memory_never_needs_more)
{
    struct rng r;
    rng_seed(&r, 41, 0);
    int compared[4] = {0};
    for (int i = 0; i < 4000; i++) {
        struct estimate_opts o = random_opts(&r), less = o;
        struct estimate a = {0}, b = {0};
        int how = i % 4;
        if (how == 0)
            less.cp = o.cp * 2;
        else if (how == 1)
            less.zero++;
        else if (how == 2)
            less.fused_step = true;
        else {
            o.selective = false;
            o.model.layers = 1 + i / 4 % 4; /* with few layers there is little to save */
            o.pp = 1;
            less = o;
            less.recompute = true;
        }
        if (estimate_job(&a, &o, NULL) < 0 || estimate_job(&b, &less, NULL) < 0)
            continue;
        compared[how]++;
        if (how != 1) {
            if (b.low_bytes > a.low_bytes || b.expected_bytes > a.expected_bytes ||
                b.high_bytes > a.high_bytes)
                FAIL("job %d: %.3f to %.3f GiB, not more than %.3f to %.3f", i,
                     (double)b.low_bytes / GIB, (double)b.high_bytes / GIB,
                     (double)a.low_bytes / GIB, (double)a.high_bytes / GIB);
            continue;
        }
        for (int k = ESTIMATE_GRADIENTS; k <= ESTIMATE_MASTER_WEIGHTS; k++)
            for (int end = 0; end < 3; end++)
                CHECK(estimate_end(&b.part[k], end) <= estimate_end(&a.part[k], end));
    }
    for (int how = 0; how < 4; how++)
        CHECK(compared[how] > 100);
}

TEST(words_are_read_and_near_words_suggested)
{
    enum estimate_precision p = ESTIMATE_FP32;
    struct estimate_opts t = estimate_opts_default();
    CHECK_INT(estimate_precision_parse(&p, "fp8", NULL), 0);
    CHECK_INT(p, ESTIMATE_FP8);
    CHECK_STR(estimate_precision_name(p), "fp8");
    CHECK_INT(estimate_optim_parse(&t, "lion", NULL), 0);
    CHECK_STR(estimate_optimizer_name(t.optimizer), "lion");
    CHECK_INT(estimate_optim_parse(&t, "paged_adamw_8bit", NULL), 0);
    CHECK(t.optimizer == ESTIMATE_ADAM_8BIT && t.paged && !t.foreach);
    CHECK_INT(estimate_optim_parse(&t, "adamw_torch", NULL), 0);
    CHECK(t.optimizer == ESTIMATE_ADAMW && !t.paged && t.foreach);
    unsigned targets = 0;
    CHECK_INT(estimate_lora_parse(&targets, "q_proj,v,mlp", NULL), 0);
    CHECK_INT(targets, ESTIMATE_LORA_Q | ESTIMATE_LORA_V | ESTIMATE_LORA_MLP);
    CHECK_INT(estimate_lora_parse(&targets, "q,x", &(struct err){0}), -EINVAL);
    struct err e = {0};
    CHECK_INT(estimate_precision_parse(&p, "bf61", &e), -EINVAL);
    CHECK_STR(e.hint, "bf16");
    CHECK_INT(p, ESTIMATE_FP8);
}
