#include "launcher/place/place_emit.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/json.h"
#include "common/python.h"
#include "common/utf8.h"

/* What starts several ranks inside a container, and the image if the file names none. */
static const struct framework {
    const char *name, *image;
    const char *launcher; /* NULL: mpirun; followed by the number of ranks */
    bool python;          /* the launcher takes a Python script, not a program */
} frameworks[] = {
    {"pytorch", "pytorch/pytorch:latest", "torchrun --nproc-per-node", true},
    {"paddlepaddle", "paddlepaddle/paddle:latest",
     "python3 -m paddle.distributed.launch "
     "--nproc_per_node",
     true},
    {"tensorflow", "tensorflow/tensorflow:latest-gpu", NULL, false},
};

/* ---- words ---------------------------------------------------------------------------------- */

static void add_words(struct strbuf *b, char *const *words)
{
    for (; words && *words; words++) {
        strbuf_putc(b, ' ');
        utf8_add_shell_word(b, *words);
    }
}

static const struct framework *find_framework(const struct place_job *j)
{
    for (size_t i = 0; j->framework && i < COUNT_OF(frameworks); i++)
        if (strcmp(frameworks[i].name, j->framework) == 0)
            return &frameworks[i];
    return NULL;
}

/* Returns the program with its launcher, as the words of a container; a strv. */
static char **container_words(const struct place_emit_job *m)
{
    const struct framework *f = find_framework(m->job);
    char *const *argv = m->argv;
    char **words = NULL;
    bool has_script = python_is_script(argv[0]) ||
                      (python_is_interpreter(argv[0]) && argv[1] && python_is_script(argv[1]));
    if (m->choice->count > 1 && f && f->launcher && has_script) {
        AUTO(free) char *launcher = xstrdup(f->launcher);
        for (char *rest = launcher, *one; (one = strsep(&rest, " "));)
            strv_push(&words, xstrdup(one));
        strv_push(&words, xasprintf("%d", m->choice->count));
        argv += python_is_interpreter(argv[0]);
    } else if (m->choice->count > 1) {
        strv_push(&words, xstrdup("mpirun"));
        strv_push(&words, xstrdup("-np"));
        strv_push(&words, xasprintf("%d", m->choice->count));
    } else if (python_is_script(argv[0])) {
        strv_push(&words, xstrdup("python3"));
    }
    for (; *argv; argv++)
        strv_push(&words, xstrdup(*argv));
    return words;
}

static int find_image(const char **out, const struct place_job *j, struct err *e)
{
    const struct framework *f = find_framework(j);
    *out = j->image ? j->image : f ? f->image : NULL;
    if (*out)
        return 0;
    err_set(e, -EINVAL, "the job file names no container image");
    return err_hint(e, "task: {image: pytorch/pytorch:latest}");
}

static void add_uuids(struct strbuf *b, const struct place_emit_job *m)
{
    for (int i = 0; i < m->choice->count; i++)
        strbuf_printf(b, "%s%s", i ? "," : "", m->gpus[m->choice->gpus[i]].now.gpu.uuid);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* The quotes inside of the value of --gpus belong to docker: it parses the value as CSV. */
static int emit_docker(struct strbuf *b, const struct place_emit_job *m, struct err *e)
{
    const char *image = NULL;
    int rc = find_image(&image, m->job, e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **words = container_words(m);
    strbuf_puts(b, "docker run --rm --gpus '\"device=");
    add_uuids(b, m);
    strbuf_puts(b, "\"' --ipc host --ulimit memlock=-1 --ulimit stack=67108864 "
                   "--volume \"$PWD:/workspace\" --workdir /workspace ");
    utf8_add_shell_word(b, image);
    add_words(b, words);
    strbuf_putc(b, '\n');
    return 0;
}

/* Slurm selects the GPUs by its own rules: the line asks for as many of the same kind. */
static int emit_sbatch(struct strbuf *b, const struct place_emit_job *m, struct err *e)
{
    AUTO(strbuf) struct strbuf wrap = {0};
    int n = m->choice->count;
    strbuf_puts(b, "sbatch --job-name ");
    utf8_add_shell_word(b, m->job->name);
    strbuf_printf(b, " --nodes 1 --ntasks-per-node %d --gres gpu:", n);
    if (m->job->gpu_type) {
        utf8_add_shell_word(b, m->job->gpu_type);
        strbuf_putc(b, ':');
    }
    strbuf_printf(b, "%d --wrap ", n);
    strbuf_printf(&wrap, "drover run -np %d --", n);
    add_words(&wrap, m->argv);
    utf8_add_shell_word(b, strbuf_str(&wrap));
    strbuf_putc(b, '\n');
    return 0;
}

/* A rank can use only one MIG instance, so with MIG each rank is a program of its own. */
static int emit_mpirun(struct strbuf *b, const struct place_emit_job *m, struct err *e)
{
    const struct place_choice *c = m->choice;
    bool mig = m->gpus[c->gpus[0]].mig;
    strbuf_puts(b, "mpirun");
    for (int i = 0; i < (mig ? c->count : 1); i++) {
        strbuf_printf(b, "%s -np %d -x CUDA_VISIBLE_DEVICES=", i ? " :" : "", mig ? 1 : c->count);
        if (mig)
            strbuf_puts(b, m->gpus[c->gpus[i]].now.gpu.uuid);
        else
            add_uuids(b, m);
        if (python_is_script(m->argv[0]))
            strbuf_puts(b, " python3");
        add_words(b, m->argv);
    }
    strbuf_putc(b, '\n');
    return 0;
}

/* Appends a name of Kubernetes: lower-case letters, digits and '-', at most 63 of them. */
static void add_k8s_name(struct strbuf *b, const char *name)
{
    size_t start = b->len;
    for (; *name && b->len - start < 63; name++)
        if (isalnum((unsigned char)*name))
            strbuf_putc(b, (char)tolower((unsigned char)*name));
        else if (b->len > start && b->data[b->len - 1] != '-')
            strbuf_putc(b, '-');
    while (b->len > start && b->data[b->len - 1] == '-')
        b->data[--b->len] = '\0';
    if (b->len == start)
        strbuf_puts(b, "job");
}

/* Appends a string as YAML reads it: JSON strings are YAML. */
static void add_k8s_string(struct strbuf *b, const char *text)
{
    AUTO(json) json_t *value = json_text(text);
    AUTO(free) char *line = json_line(value);
    strbuf_puts(b, line);
}

/* The node label is that of NVIDIA's GPU feature discovery: the model with '-' for spaces. */
static int emit_k8s(struct strbuf *b, const struct place_emit_job *m, struct err *e)
{
    const char *image = NULL;
    int rc = find_image(&image, m->job, e);
    if (rc < 0)
        return rc;
    AUTO(strv) char **words = container_words(m);
    AUTO(free) char *model = xstrdup(m->gpus[m->choice->gpus[0]].now.gpu.name);
    for (char *c = model; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    strbuf_puts(b, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ");
    add_k8s_name(b, m->job->name);
    strbuf_puts(b,
                "\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n      restartPolicy: Never\n"
                "      nodeSelector:\n        nvidia.com/gpu.product: ");
    add_k8s_string(b, model);
    strbuf_puts(b, "\n      containers:\n        - name: job\n          image: ");
    add_k8s_string(b, image);
    strbuf_puts(b, "\n          command:\n");
    for (char **w = words; *w; w++) {
        strbuf_puts(b, "            - ");
        add_k8s_string(b, *w);
        strbuf_putc(b, '\n');
    }
    strbuf_printf(b,
                  "          resources:\n            limits:\n              nvidia.com/gpu: "
                  "\"%d\"\n",
                  m->choice->count);
    return 0;
}

static const struct {
    const char *name;
    int (*emit)(struct strbuf *b, const struct place_emit_job *m, struct err *e);
} programs[] = {
    {"docker", emit_docker},
    {"sbatch", emit_sbatch},
    {"mpirun", emit_mpirun},
    {"k8s", emit_k8s},
};

bool place_emit_queues(const char *program)
{
    return strcmp(program, "sbatch") == 0 || strcmp(program, "k8s") == 0;
}

int place_emit(struct strbuf *out, const char *program, const struct place_emit_job *m,
               struct err *e)
{
    if (!m->argv || !m->argv[0]) {
        err_set(e, -EINVAL, "--emit: the command is missing");
        return err_hint(e, "drover place JOB.yaml --emit docker -- python3 train.py");
    }
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        if (strcmp(programs[i].name, program) == 0)
            return programs[i].emit(out, m, e);
    err_set(e, -EINVAL, "--emit: unknown program '%s'", program);
    return err_hint(e, "docker, sbatch, mpirun, k8s");
}
