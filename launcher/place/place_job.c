#include "launcher/place/place_job.h"

#include <errno.h>
#include <string.h>

#include "common/byte_size.h"
#include "common/duration.h"
#include "common/json.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "common/yaml.h"
#include "launcher/estimate/model_config.h"

/* The words of a file before the rest of the job follows from them. */
struct words {
    struct place_job job;
    char *type, *model_name, *config, *params, *precision, *optimizer, *strategy, *algorithm;
    char *gpus, *goal, *arrangement;
    char *memory, *recompute, *loss;
    int sequence_length;
    bool mixed_precision, distributed;
    uint64_t given; /* a bit by row of `keys` */
};

enum kind { TEXT, LIST, FLAG, INT, SHARE, DURATION };

struct key {
    const char *section, *name;
    enum kind kind;
    size_t offset; /* in struct words */
};

#define TASK "task"
#define POLICY "resource_policy"
#define SCHEDULER "scheduler"
#define KEY(section, name, kind, field)                    \
    {                                                      \
        section, name, kind, offsetof(struct words, field) \
    }

static const struct key keys[] = {
    KEY(TASK, "type", TEXT, type),
    KEY(TASK, "framework", TEXT, job.framework),
    KEY(TASK, "image", TEXT, job.image),
    KEY(TASK, "model_name", TEXT, model_name),
    KEY(TASK, "config", TEXT, config),
    KEY(TASK, "params", TEXT, params),
    KEY(TASK, "sequence_length", INT, sequence_length),
    KEY(TASK, "batch_size", INT, job.batch),
    KEY(TASK, "batch_size_per_gpu", INT, job.batch_per_gpu),
    KEY(TASK, "precision", TEXT, precision),
    KEY(TASK, "optimizer", TEXT, optimizer),
    KEY(TASK, "recompute", TEXT, recompute),
    KEY(TASK, "loss", TEXT, loss),
    KEY(TASK, "offload", FLAG, job.model.offload),
    KEY(TASK, "offload_params", FLAG, job.model.offload_params),
    KEY(TASK, "memory", TEXT, memory),
    KEY(TASK, "distributed", FLAG, distributed),
    KEY(TASK, "num_gpus", TEXT, gpus),
    KEY(TASK, "num_gpus_estimate", TEXT, gpus),
    KEY(POLICY, "memory_threshold", SHARE, job.memory_threshold),
    KEY(POLICY, "allow_mixed_precision", FLAG, mixed_precision),
    KEY(POLICY, "distributed_strategy", TEXT, strategy),
    KEY(POLICY, "gpu_type", TEXT, job.gpu_type),
    KEY(POLICY, "preferred_devices", LIST, job.preferred),
    KEY(POLICY, "excluded_devices", LIST, job.excluded),
    KEY(POLICY, "labels", LIST, job.labels),
    KEY(POLICY, "shared", FLAG, job.shared),
    KEY(POLICY, "mixed_models", FLAG, job.mixed_models),
    KEY(POLICY, "goal", TEXT, goal),
    KEY(POLICY, "arrangement", TEXT, arrangement),
    KEY(SCHEDULER, "algorithm", TEXT, algorithm),
    KEY(SCHEDULER, "timeout", DURATION, job.timeout_s),
};

static const char *const sections[] = {TASK, POLICY, SCHEDULER};

/* ---- values --------------------------------------------------------------------------------- */

/* Returns a scalar as text; NULL: it is a mapping, a list or null. The caller frees it. */
static char *scalar_text(const json_t *v)
{
    if (json_is_string(v))
        return xstrdup(json_string_value(v));
    return json_is_number(v) || json_is_boolean(v) ? json_line(v) : NULL;
}

static int read_list(char ***out, const json_t *v)
{
    AUTO(strv) char **list = NULL;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        char *text = scalar_text(json_is_array(v) ? json_array_get(v, i) : v);
        if (!text || !*text) {
            free(text);
            return -EINVAL;
        }
        strv_push(&list, text);
    }
    *out = TAKE(list);
    return 0;
}

/* Reads a value into the field of its key. Returns what the value must be, or NULL. */
static const char *read_value(const struct key *k, void *field, const json_t *v)
{
    AUTO(free) char *text = NULL;
    switch (k->kind) {
    case TEXT:
        free(*(char **)field);
        *(char **)field = scalar_text(v);
        return *(char **)field ? NULL : "a word";
    case LIST:
        return read_list(field, v) == 0 ? NULL : "a word or a list of words";
    case FLAG:
        *(bool *)field = json_is_true(v);
        return json_is_boolean(v) ? NULL : "true or false";
    case INT:
        *(int *)field = (int)json_integer_value(v);
        return json_is_integer(v) && json_integer_value(v) > 0 &&
                       json_integer_value(v) <= 1000000000
                   ? NULL
                   : "a number from 1 on";
    case SHARE:
        *(double *)field = json_number_value(v);
        return json_number_value(v) > 0 && json_number_value(v) <= 1 ? NULL : "a share, as 0.85";
    case DURATION:
        text = scalar_text(v);
        return text && duration_parse(field, text, NULL) == 0 ? NULL : "a duration, as 300 or 5m";
    }
    return "known";
}

/* ---- keys ----------------------------------------------------------------------------------- */

static const struct key *find_key(const char *section, const char *name)
{
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (strcmp(keys[i].name, name) == 0 && (!section || strcmp(keys[i].section, section) == 0))
            return &keys[i];
    return NULL;
}

static bool is_section(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(sections); i++)
        if (strcmp(sections[i], name) == 0)
            return true;
    return false;
}

static int unknown_key(const struct yaml_doc *d, const char *path, const char *section,
                       const char *name, struct err *e)
{
    const char *names[COUNT_OF(keys) + COUNT_OF(sections)];
    const struct key *elsewhere = find_key(NULL, name);
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (!section || strcmp(keys[i].section, section) == 0)
            names[n++] = keys[i].name;
    for (size_t i = 0; !section && i < COUNT_OF(sections); i++)
        names[n++] = sections[i];
    yaml_error_at(d, path, e, -EINVAL, "unknown key '%s'%s%s", name, section ? " in " : "",
                  section ? section : "");
    const char *near = opt_suggest(name, names, n);
    if (elsewhere)
        err_hint(e, "%s: {%s: …}", elsewhere->section, name);
    else if (near)
        err_hint(e, "%s", near);
    return -EINVAL;
}

/* Reads the keys of the file (`section` is NULL) or of one of its sections. */
static int read_keys(struct words *w, const struct yaml_doc *d, const json_t *map,
                     const char *section, struct err *e)
{
    const char *name;
    json_t *v;
    if (!json_is_object(map)) {
        AUTO(free) char *path = section ? xasprintf("/%s", section) : xstrdup("");
        return yaml_error_at(d, path, e, -EINVAL, "%s must be a mapping, not %s",
                             section ? section : "a job file", json_type_name(map));
    }
    json_object_foreach ((json_t *)map, name, v) {
        AUTO(free)
        char *path = section ? xasprintf("/%s/%s", section, name) : xasprintf("/%s", name);
        const struct key *k = find_key(section, name);
        if (!k && !section && is_section(name)) {
            if (read_keys(w, d, v, name, e) < 0)
                return -EINVAL;
            continue;
        }
        if (!k)
            return unknown_key(d, path, section, name, e);
        if (w->given & UINT64_C(1) << (k - keys))
            return yaml_error_at(d, path, e, -EINVAL, "%s is given twice", name);
        w->given |= UINT64_C(1) << (k - keys);
        const char *wanted = read_value(k, (char *)w + k->offset, v);
        if (wanted)
            return yaml_error_at(d, path, e, -EINVAL, "%s must be %s", name, wanted);
    }
    return 0;
}

/* ---- what follows from the words ------------------------------------------------------------ */

/* Returns the index of `word` in `names`; NULL is the first one. */
static int choose(const char *key, const char *word, const char *const *names, size_t n,
                  struct err *e)
{
    AUTO(strbuf) struct strbuf all = {0};
    for (size_t i = 0; i < n; i++) {
        if (!word || strcmp(names[i], word) == 0)
            return (int)i;
        strbuf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = opt_suggest(word, names, n);
    err_set(e, -EINVAL, "%s: unknown word '%s'", key, word);
    return err_hint(e, "%s: %s", key, near ? near : strbuf_str(&all));
}

static int set_goal(struct words *w, struct err *e)
{
    static const char *const goals[] = {"cost", "performance"};
    static const char *const arrangements[] = {"anywhere", "pack", "spread"};
    int goal = choose("goal", w->goal, goals, COUNT_OF(goals), e);
    int arrangement =
        goal < 0 ? goal
                 : choose("arrangement", w->arrangement, arrangements, COUNT_OF(arrangements), e);
    w->job.goal = (enum place_goal)goal;
    w->job.arrangement = (enum place_arrangement)arrangement;
    return arrangement < 0 ? arrangement : 0;
}

static int set_count(struct words *w, struct err *e)
{
    struct place_job *j = &w->job;
    bool is_auto = w->gpus && strcmp(w->gpus, "auto") == 0;
    int n = 0;
    if (w->gpus && !is_auto && opt_int(&n, "num_gpus", w->gpus, 1, PLACE_GPUS_MAX, e) < 0) {
        err_hint(e, "num_gpus: 2, or auto");
        return -EINVAL;
    }
    if (n == 1 && w->distributed) {
        err_set(e, -EINVAL, "distributed: true with one GPU");
        return err_hint(e, "distributed: false");
    }
    j->gpus_min = n ? n : w->distributed ? 2 : 1;
    j->gpus_max = n ? n : is_auto || w->distributed ? PLACE_GPUS_MAX : 1;
    if (j->batch && j->batch_per_gpu)
        return err_set(e, -EINVAL, "batch_size and batch_size_per_gpu exclude each other");
    return 0;
}

/* Finds the model by its files, its number of parameters or its name. An unknown name is a note:
 * the file may be for another program, which knows the model. */
static int find_model(struct words *w, struct err *e)
{
    struct place_job *j = &w->job;
    struct model_shape named;
    struct err unknown;
    char *files[] = {w->config, NULL};
    bool known = w->model_name && model_config_named(&named, w->model_name, &unknown) == 0;
    const struct model_config_opts o = {.params = w->params,
                                        .name = known && !w->config ? w->model_name : NULL,
                                        .files = w->config ? files : NULL};
    j->has_model = o.params || o.name || o.files;
    if (j->has_model)
        return model_config_find(&j->model.model, &o, e);
    if (!w->memory)
        strv_push(
            &j->notes,
            xasprintf("%s%s%s, so memory is not estimated; try: params: 7B, config: "
                      "FILE.json or memory: 24G in the job file",
                      w->model_name ? "model_name: unknown model '" : "the file names no model",
                      w->model_name ? w->model_name : "", w->model_name ? "'" : ""));
    return 0;
}

static int set_model(struct words *w, struct err *e)
{
    static const char *const types[] = {"training", "finetuning", "inference"};
    static const struct {
        const char *word;
        int zero;
    } strategies[] = {{"none", 0},  {"ddp", 0},   {"horovod", 0}, {"zero1", 1},
                      {"zero2", 2}, {"zero3", 3}, {"fsdp", 3}};
    const char *names[COUNT_OF(strategies)];
    struct place_job *j = &w->job;
    for (size_t i = 0; i < COUNT_OF(strategies); i++)
        names[i] = strategies[i].word;
    int type = choose("type", w->type, types, COUNT_OF(types), e);
    int strategy =
        type < 0 ? type : choose("distributed_strategy", w->strategy, names, COUNT_OF(names), e);
    if (strategy < 0 || find_model(w, e) < 0)
        return -EINVAL;
    if (w->memory && byte_size_parse(&j->memory_bytes, w->memory, e) < 0)
        return err_wrap(e, "memory");
    if (w->memory && j->memory_bytes == 0)
        return err_set(e, -EINVAL, "memory: %s: not more than 0", w->memory);
    if (type == 2 && j->has_model) {
        j->has_model = false;
        strv_push(&j->notes, xstrdup("type: inference is not estimated; memory: 24G gives what "
                                     "the job needs per GPU"));
    }
    j->model.seq = w->sequence_length;
    j->model.zero = strategies[strategy].zero;
    j->model.precision = w->mixed_precision ? ESTIMATE_FP16 : ESTIMATE_FP32;
    if (w->precision && estimate_precision_parse(&j->model.precision, w->precision, e) < 0)
        return err_wrap(e, "precision");
    if (w->optimizer && estimate_optim_parse(&j->model, w->optimizer, e) < 0)
        return err_wrap(e, "optimizer");
    if (w->loss && estimate_loss_parse(&j->model.loss, w->loss, e) < 0)
        return err_wrap(e, "loss");
    /* A truth value is that of the blocks. */
    const char *recompute = !w->recompute                        ? "none"
                            : strcmp(w->recompute, "true") == 0  ? "block"
                            : strcmp(w->recompute, "false") == 0 ? "none"
                                                                 : w->recompute;
    return estimate_recompute_parse(&j->model, recompute, e) < 0 ? err_wrap(e, "recompute") : 0;
}

/* ---- the file ------------------------------------------------------------------------------- */

static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return xstrndup(name, strcspn(name, "."));
}

int place_job_read(struct place_job **out, const char *path, struct err *e)
{
    AUTO(yaml_doc) struct yaml_doc *d = NULL;
    AUTO(place_job) struct place_job *j = xzalloc(sizeof *j);
    struct words w = {
        .job = {.name = name_of(path), .memory_threshold = 0.9, .model = estimate_opts_default()}};
    int rc = yaml_read_file(&d, path, e);
    if (rc == 0)
        rc = read_keys(&w, d, yaml_root(d), NULL, e);
    if (rc == 0 && w.algorithm)
        strv_push(&w.job.notes, xasprintf("algorithm: %s has no effect: the choice is one score, "
                                          "which --dry-run explains",
                                          w.algorithm));
    if (rc == 0 && (set_goal(&w, e) < 0 || set_count(&w, e) < 0 || set_model(&w, e) < 0)) {
        err_wrap(e, "%s", path);
        rc = -EINVAL;
    }
    char *texts[] = {w.type,        w.model_name, w.config,    w.params, w.precision,
                     w.optimizer,   w.strategy,   w.algorithm, w.gpus,   w.goal,
                     w.arrangement, w.memory,     w.recompute, w.loss};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        free(texts[i]);
    *j = w.job;
    if (rc == 0)
        *out = TAKE(j);
    return rc;
}

void place_job_free(struct place_job *j)
{
    if (!j)
        return;
    char *texts[] = {j->name, j->framework, j->image, j->gpu_type};
    char **lists[] = {j->preferred, j->excluded, j->labels, j->notes};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        strv_free(lists[i]);
    history_jobs_end(&j->earlier);
    free(j);
}
