#include "hpo/worker/run_result.h"

#include <string.h>

#include "common/mem.h"
#include "common/utf8.h"
#include "launcher/watch/first_cause.h"

enum { LINE_SHOWN_MAX = 300, ERROR_MAX = 1000 };

/* What is printed when memory is exhausted, by PyTorch, its older versions, JAX and TensorFlow,
 * CUDA, C++, NumPy and Python. */
static const char *const oom_words[] = {
    "CUDA out of memory",
    "OutOfMemoryError",
    "RESOURCE_EXHAUSTED: Out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "std::bad_alloc",
    "_ArrayMemoryError",
    "MemoryError",
    "Cannot allocate memory",
};

char *run_result_utf8(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);
    while (len > max || (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80))
        len--;
    AUTO(free) char *cut = xstrndup(text, len);
    struct strbuf b = {0};
    utf8_add(&b, cut);
    return strbuf_take(&b);
}

static bool shows_oom(const char *const *lines)
{
    for (; lines && *lines; lines++)
        for (size_t i = 0; i < COUNT_OF(oom_words); i++)
            if (strstr(*lines, oom_words[i]))
                return true;
    return false;
}

/* The last line that is not blank; NULL: none. */
static const char *last_line(const char *const *lines)
{
    const char *last = NULL;
    for (; lines && *lines; lines++)
        if ((*lines)[strspn(*lines, " \t\r")])
            last = *lines;
    return last;
}

/* Appends the cause as `drover run` has it, unless `out` has it already. */
static void add_cause(struct strbuf *out, const struct job_end *end)
{
    AUTO(strbuf) struct strbuf why = {0};
    struct first_cause c;
    if (end->ranks_count == 0)
        return;
    first_cause_find(&c, end->first_failed, end->ranks, end->ranks_count);
    first_cause_write(&why, &c, end->ranks_count, 0);
    if (c.rank != end->first_failed)
        strbuf_printf(out, "; cause: rank %d%s", c.rank, why.len ? ": " : "");
    else if (why.len && !strstr(strbuf_str(out), strbuf_str(&why)))
        strbuf_puts(out, "; cause: ");
    else
        strbuf_reset(&why);
    AUTO(free) char *shown = run_result_utf8(strbuf_str(&why), LINE_SHOWN_MAX);
    strbuf_puts(out, shown);
    first_cause_clear(&c);
}

static void describe(struct strbuf *out, const struct job_end *end)
{
    const struct rank_end *r = &end->first;
    if (r->rank > 0)
        strbuf_printf(out, "rank %d: ", r->rank);
    if (r->start_error[0])
        strbuf_puts(out, r->start_error);
    else if (r->oom_killed)
        strbuf_puts(out, "killed by the kernel: out of memory");
    else if (r->signal)
        strbuf_printf(out, "signal %d (%s)", r->signal, strsignal(r->signal));
    else if (r->mpi_fault)
        strbuf_printf(out, "exit status 0 %s", job_mpi_fault_text(r->mpi_fault));
    else
        strbuf_printf(out, "exit status %d", r->status);
    const char *line = last_line(end->last_lines);
    if (line && !r->start_error[0]) {
        AUTO(free) char *shown = run_result_utf8(line, LINE_SHOWN_MAX);
        strbuf_printf(out, ": %s", shown);
    }
    add_cause(out, end);
}

json_t *run_result_json(const struct job_end *end, bool preempted)
{
    AUTO(strbuf) struct strbuf error = {0};
    bool failed = end->first_failed >= 0;
    if (failed)
        describe(&error, end);
    else if (end->broken && !end->stopped)
        strbuf_puts(&error, end->broken);
    bool oom = failed && (end->first.oom_killed || shows_oom(end->last_lines));
    int signal = failed ? end->first.signal : 0;
    int status = signal || end->status < 0 || end->status > 255 ? -1 : end->status;
    json_t *j =
        json_pack("{s:i,s:i,s:b,s:f,s:b}", "status", status, "signal", signal, "oom", oom,
                  "seconds", end->seconds > 0 ? end->seconds : 0.0, "stopped", end->stopped);
    if (error.len) {
        AUTO(free) char *text = run_result_utf8(strbuf_str(&error), ERROR_MAX);
        json_object_set_new(j, "error", json_string(text));
    }
    if (preempted)
        json_object_set_new(j, "preempted", json_true());
    return j;
}

json_t *run_result_not_started(const char *error, bool preempted)
{
    AUTO(free)
    char *text = run_result_utf8(error ? error : "stopped before it was started", ERROR_MAX);
    json_t *j = json_pack("{s:i,s:i,s:b,s:f,s:b,s:b,s:s}", "status", -1, "signal", 0, "oom", 0,
                          "seconds", 0.0, "stopped", !error, "not_started", 1, "error", text);
    if (preempted)
        json_object_set_new(j, "preempted", json_true());
    return j;
}

void run_result_text(struct strbuf *out, const json_t *result)
{
    const char *error = json_string_value(json_object_get(result, "error"));
    if (json_is_true(json_object_get(result, "oom")))
        strbuf_puts(out, "out of memory: ");
    if (error)
        strbuf_puts(out, error);
    else if (json_is_true(json_object_get(result, "stopped")))
        strbuf_puts(out, "stopped");
    else
        strbuf_printf(out, "exit status %d",
                      (int)json_integer_value(json_object_get(result, "status")));
    if (json_is_true(json_object_get(result, "preempted")))
        strbuf_puts(out, "; it returns to the queue");
}

void run_result_blame_node(json_t *result, int node, const char *cause)
{
    json_object_set_new(result, "node_fault", json_integer(node));
    if (!cause)
        return;
    const char *error = json_string_value(json_object_get(result, "error"));
    AUTO(free) char *both = xasprintf("%s%s%s", cause, error ? "; " : "", error ? error : "");
    AUTO(free) char *text = run_result_utf8(both, ERROR_MAX);
    json_object_set_new(result, "error", json_string(text));
}
