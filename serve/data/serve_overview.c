#include "serve/data/serve_overview.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "hpo/cmd/sweep_output.h"
#include "hpo/cmd/sweep_print.h"
#include "hpo/reader/sweep_insight.h"
#include "hpo/spec/spec_outcomes.h"
#include "serve/data/serve_sweep_file.h"

enum { IMPORTANCE_MS = 5000, FILES_MAX = 200 };

/* Returns the command that runs a trial again; NULL: it cannot be made. */
static json_t *command_json(const struct sweep_reader *v, size_t trial)
{
    AUTO(strbuf) struct strbuf b = {0};
    const struct run_message_opts m = {v->spec, v->dir->name, v->dir->path, "."};
    return sweep_print_trial_command(&b, &m, v->columns, trial, SWEEP_PRINT_FOR_OTHERS, NULL) == 0
               ? json_text(strbuf_str(&b))
               : json_null();
}

static json_t *best_json(const struct sweep_reader *v)
{
    int best = sweep_columns_best(v->columns);
    if (best < 0)
        return json_null();
    return json_pack("{s:i,s:f,s:o,s:o}", "id", best, "value",
                     sweep_columns_score(v->columns, (size_t)best), "params",
                     sweep_columns_params_json(v->columns, (size_t)best), "command",
                     command_json(v, (size_t)best));
}

static json_t *counts_json(const struct sweep_reader *v)
{
    json_t *counts = json_object();
    const int *states = v->columns->states;
    for (int i = 0; i < TRIAL_STATES; i++)
        json_object_set_new(counts, trial_state_name((enum trial_state)i), json_integer(states[i]));
    return counts;
}

static json_t *objectives_json(const struct spec *spec)
{
    json_t *list = json_array();
    for (int i = 0; i < spec->metric_count; i++) {
        json_t *o = json_pack("{s:s,s:b}", "name", spec->metrics[i].name, "maximize",
                              spec->metrics[i].maximize);
        if (spec->metrics[i].has_target)
            json_object_set_new(o, "target", json_real(spec->metrics[i].target));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *importance_json(struct serve_sweep *s)
{
    int64_t now = clock_ms(), seq = s->reader->columns->seq;
    bool fresh =
        s->importance && (s->importance_seq == seq || now < s->importance_ms + IMPORTANCE_MS);
    if (!fresh) {
        json_decref(s->importance);
        s->importance = sweep_reader_importance_ranges(s->reader, READER_RESAMPLES);
        s->importance_seq = seq;
        s->importance_ms = now;
    }
    return json_incref(s->importance);
}

static json_t *insight_json(const struct serve_sweep *s)
{
    json_t *list = json_array();
    AUTO(strv)
    char **said = sweep_insight(s->reader->columns, s->importance, clock_ms_of(CLOCK_REALTIME));
    for (size_t i = 0; i < strv_len(said); i++)
        json_array_append_new(list, json_text(said[i]));
    return list;
}

json_t *serve_overview_json(struct serve_sweep *s)
{
    const struct sweep_reader *v = s->reader;
    const struct spec *spec = v->spec;
    struct lockfile_owner owner = sweep_dir_owner(v->dir);
    json_t *o = json_pack("{s:s, s:s?, s:s, s:o, s:i, s:s?, s:b, s:o}", "name", v->dir->name,
                          "description", spec->description, "method", spec->method->name, "counts",
                          counts_json(v), "total_wanted", sweep_reader_counts(v).total_wanted,
                          "metric", spec->metrics[0].name, "maximize", spec->metrics[0].maximize,
                          "objectives", objectives_json(spec));
    sweep_reader_set_status(v, o);
    json_object_set_new(o, "value", json_string(spec->value_last ? "last" : "best"));
    json_object_set_new(o, "best", best_json(v));
    json_t *importance = importance_json(s);
    json_object_set_new(o, "insight", insight_json(s));
    json_object_set_new(o, "workers", sweep_reader_workers(v));
    json_object_set_new(o, "resources",
                        json_pack("{s:i,s:i,s:f,s:i}", "nodes", spec->need.nodes, "ranks",
                                  spec->need.ranks, "gpus", spec->need.gpus, "cpus",
                                  spec->need.cpus));
    json_object_set(o, "early_terminate",
                    spec->early_terminate ? spec->early_terminate : json_null());
    json_object_set(o, "constraints", spec->constraints ? spec->constraints : json_null());
    json_t *outcomes = spec_outcomes_json(&spec->outcomes);
    json_object_set_new(o, "outcome_constraints", outcomes ? outcomes : json_null());
    AUTO(free) char *file = serve_sweep_file(v->dir->file);
    json_object_set_new(o, "file", json_text(file));
    json_object_set_new(o, "coordinator",
                        owner.held
                            ? json_pack("{s:i,s:s}", "pid", (int)owner.pid, "host", owner.host)
                            : json_null());
    json_object_set_new(o, "seq", json_integer(v->columns->seq));
    json_object_set_new(o, "epoch", json_integer(s->epoch));
    json_object_set_new(o, "now_ms", json_integer(clock_ms_of(CLOCK_REALTIME)));
    o = redact_json(NULL, o);
    json_object_set_new(o, "importance", importance); /* it has no values of parameters */
    return o;
}

void serve_overview_columns(struct strbuf *out, struct serve_sweep *s, int64_t since)
{
    const struct sweep_reader *v = s->reader;
    json_t *states = json_array();
    for (int i = 0; i < TRIAL_STATES; i++)
        json_array_append_new(states, json_string(trial_state_name((enum trial_state)i)));
    json_t *head =
        json_pack("{s:s,s:I,s:s?,s:b,s:o,s:o}", "name", v->dir->name, "epoch", (json_int_t)s->epoch,
                  "metric", v->spec->metrics[0].name, "maximize", v->spec->metrics[0].maximize,
                  "states", states, "objectives", objectives_json(v->spec));
    if (v->spec->when)
        json_object_set(head, "when", v->spec->when);
    if (v->spec->constraints)
        json_object_set(head, "constraints", v->spec->constraints);
    serve_columns_body(out, s->columns, since, head);
}

/* ---- one trial ------------------------------------------------------------------------------ */

static int check_trial(const struct serve_sweep *s, int trial, struct err *e)
{
    if ((size_t)trial < s->reader->columns->count)
        return 0;
    return err_set(e, -ENOENT, "sweep '%s': there is no trial %d", s->reader->dir->name, trial);
}

static json_t *files_json(const char *dir)
{
    json_t *list = json_array();
    AUTO(dir) DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *f; d && (f = readdir(d)) && json_array_size(list) < FILES_MAX;) {
        struct stat st;
        if (f->d_name[0] == '.' || fstatat(dirfd(d), f->d_name, &st, 0) < 0)
            continue;
        json_array_append_new(list,
                              json_pack("{s:o,s:I,s:b}", "name", json_text(f->d_name), "bytes",
                                        (json_int_t)st.st_size, "dir", S_ISDIR(st.st_mode)));
    }
    return list;
}

json_t *serve_overview_trial(const struct serve_sweep *s, int trial, struct err *e)
{
    if (check_trial(s, trial, e) < 0)
        return NULL;
    AUTO(free) char *dir = sweep_output_dir(s->reader, (size_t)trial);
    json_t *o = sweep_print_trial_json(s->reader->columns, (size_t)trial);
    json_object_set_new(o, "output", dir ? json_text(dir) : json_null());
    json_object_set_new(o, "command", command_json(s->reader, (size_t)trial));
    json_object_set_new(o, "files", files_json(dir));
    return redact_json(NULL, o);
}

int serve_overview_log(struct strbuf *out, off_t *size, const struct serve_sweep *s, int trial,
                       const char *stream, size_t max, struct err *e)
{
    int rc = check_trial(s, trial, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *dir = sweep_output_dir(s->reader, (size_t)trial);
    AUTO(free) char *path = xasprintf("%s/%s", dir ? dir : "", stream);
    /* Trials write this directory: a link or a pipe in it must not lead elsewhere or wait. */
    AUTO(fd) int fd = dir ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    struct stat st;
    if (!dir || (fd < 0 && errno == ENOENT))
        return err_set(e, -ENODATA, "trial %d: there is no %s", trial, stream);
    if (fd < 0)
        return err_set(e, -errno, "trial %d: %s: %s", trial, stream, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, -ENODATA, "trial %d: %s is not a file", trial, stream);
    off_t from = st.st_size > (off_t)max ? st.st_size - (off_t)max : 0;
    strbuf_reserve(out, (size_t)(st.st_size - from) + 1);
    ssize_t n = pread(fd, out->data + out->len, (size_t)(st.st_size - from), from);
    if (n < 0)
        return err_set(e, -errno, "trial %d: %s: %s", trial, stream, strerror(errno));
    out->len += (size_t)n;
    out->data[out->len] = 0;
    *size = st.st_size;
    return 0;
}
