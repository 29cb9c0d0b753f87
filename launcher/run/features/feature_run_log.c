/* feature_run_log - implements --no-record and --name: the log of the run (jobs/run_log.h), which
 * `drover runs` shows.
 *
 * Nothing is written before the ranks have started. Once per second the loop writes what has
 * happened since. A log that cannot be written is given up with a warning. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/redact.h"
#include "launcher/io/metric_mapping.h"
#include "launcher/jobs/line_log.h"
#include "launcher/jobs/registry.h"
#include "launcher/jobs/run_log.h"
#include "launcher/jobs/run_store.h"
#include "launcher/node/cgroup.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"
#include "launcher/watch/host_sampler.h"

enum {
    FIRST_MS = 100,
    INTERVAL_MS = 1000,
    SAMPLE_MS = 10000,
    NAME_MAX_BYTES = 128,
    METRICS_MAX = 64,     /* that have a summary */
    ENV_MAX = 64 << 10,   /* bytes of all variables … */
    VALUE_MAX = 4 << 10,  /* … and of one of them */
    LINES_MAX = 64 << 10, /* bytes of the last lines of all ranks … */
    LINES_MIN = 2 << 10,  /* … but of each one at least these */
    DIFF_MAX = 256 << 10, /* bytes of changes that are not committed */
    FILES_MAX = 16,       /* of the command line, whose checksums are kept */
    LIBRARIES_MAX = 512,
    LIBRARIES_MS = 5000,  /* after which rank 0 has loaded most of its libraries */
    INQUIRY_MS = 2000,    /* time for an inquiry … */
    INQUIRY_END_MS = 200, /* … and when the job is over */
    TRIM_AFTER_MS = 5000  /* shorter runs remove old ones only sometimes */
};

/* A shell that finds out about the run while it runs: it may hang, drover does not. */
struct inquiry {
    struct child child; /* pid 0: it does not run */
    struct strbuf text;
    int64_t begin_ms;
    bool started;
};

struct record {
    FEATURE_STATE;
    struct run_log *log; /* NULL: none has begun, or it was given up */
    json_t *metrics;     /* by name: its last and best value, and their number … */
    bool has_new;        /* … which are not in the log yet */
    struct host_sampler *host;
    int64_t begin_ms, sampled_ms; /* clock_ms() */
    struct inquiry code, libraries;
    char *hang; /* what was found in this attempt; NULL: nothing */
    pid_t pid;  /* of rank 0; 0: it is on another node */
    bool has_facts;
};

/* ---- the program's code and libraries ------------------------------------------------------- */

static void start_inquiry(struct inquiry *q, char *const *argv)
{
    const struct child_opts o = {.argv = argv, .out = CHILD_PIPE, .group = true};
    q->started = true;
    q->begin_ms = clock_ms();
    if (child_start(&q->child, &o, NULL) < 0)
        return;
    (void)fcntl(q->child.out, F_SETPIPE_SZ, 2 * DIFF_MAX); /* else it takes a few seconds longer */
    (void)fcntl(q->child.out, F_SETFL, O_NONBLOCK);
}

/* Reads what an inquiry has written, and waits for more for `wait_ms`. Returns true when it is over
 * and has written all that it had to say. */
static bool read_inquiry(struct inquiry *q, int wait_ms)
{
    struct pollfd p = {.fd = q->child.out, .events = POLLIN};
    int64_t end_ms = clock_ms() + wait_ms;
    ssize_t n = -1;
    if (q->child.pid == 0)
        return false;
    do {
        char part[1 << 16];
        while ((n = read(q->child.out, part, sizeof part)) > 0)
            strbuf_add(&q->text, part, (size_t)n);
    } while (n < 0 && clock_ms() < end_ms && poll(&p, 1, (int)(end_ms - clock_ms())) > 0);
    if (n < 0 && wait_ms == 0 && clock_ms() - q->begin_ms <= INQUIRY_MS)
        return false;
    close(q->child.out);
    child_kill(-q->child.pid);
    q->child.pid = 0;
    return n == 0;
}

static void end_inquiry(struct inquiry *q)
{
    if (q->child.pid) {
        close(q->child.out);
        child_kill(-q->child.pid);
    }
    strbuf_free(&q->text);
}

/* Asks for checksums of the small files that the command names; and, after an empty line, looks
 * for a repository as git does, which would complain without one. */
static void start_code(struct record *r)
{
    static const char script[] =
        "cd \"$0\" && [ $# = 0 ] || "
        "find -L \"$@\" -maxdepth 0 -type f -size -16384 -exec cksum {} +; echo; "
        "until [ -e .git ]; do [ \"$PWD\" = / ] && exit; cd ..; done; "
        "git rev-parse HEAD && git diff --no-ext-diff HEAD | head -c 262145";
    const struct plan *p = r->run->plan;
    AUTO(strv) char **argv = NULL;
    strv_push(&argv, xstrdup("sh"));
    strv_push(&argv, xstrdup("-c"));
    strv_push(&argv, xstrdup(script));
    strv_push(&argv, xstrdup(p->wdir ? p->wdir : "."));
    for (char *const *w = p->argv; *w && strv_len(argv) < FILES_MAX + 4; w++) {
        const char *equals = strchr(*w, '='), *word = equals ? equals + 1 : *w;
        if (isalnum((unsigned char)*word) || *word == '/' || *word == '.')
            strv_push(&argv, xstrdup(word));
    }
    start_inquiry(&r->code, argv);
}

static void put_git(struct record *r, const char *text)
{
    const char *diff = strchr(text, '\n');
    if (!diff)
        return; /* no commit */
    size_t len = strlen(++diff);
    AUTO(strbuf) struct strbuf shown = {0};
    AUTO(free) char *cut = xstrndup(diff, len > DIFF_MAX ? DIFF_MAX : len);
    redact_text(&shown, cut);
    run_log_put(r->log, "git",
                json_pack("{s:o, s:b, s:b, s:o}", "commit",
                          json_text_of(text, (size_t)(diff - text) - 1), "dirty", len > 0, "cut",
                          len > DIFF_MAX, "diff", json_text(strbuf_str(&shown))));
}

static void read_code(struct record *r, int wait_ms)
{
    if (!read_inquiry(&r->code, wait_ms))
        return;
    json_t *files = json_object();
    char *rest = r->code.text.data, *line;
    while ((line = strsep(&rest, "\n")) && *line) { /* CHECKSUM SIZE NAME */
        char *size = strchr(line, ' '), *name = size ? strchr(size + 1, ' ') : NULL;
        if (name)
            json_object_set_new(files, name + 1, json_text_of(line, (size_t)(name - line)));
    }
    run_log_put(r->log, "files", files);
    put_git(r, rest ? rest : "");
}

/* Asks for the code of libraries that rank 0 has mapped. */
static void start_libraries(struct record *r)
{
    AUTO(free) char *path = xasprintf("/proc/%d/maps", (int)r->pid);
    char *argv[] = {(char *)"grep", (char *)"-a", (char *)" r-xp .*/.*\\.so", path, NULL};
    start_inquiry(&r->libraries, argv);
}

/* Keeps the path of each library, and the bytes of its code: another version has others. */
static void read_libraries(struct record *r, int wait_ms)
{
    if (!read_inquiry(&r->libraries, wait_ms))
        return;
    json_t *all = json_object();
    char *rest = r->libraries.text.data, *line;
    while ((line = strsep(&rest, "\n")) && json_object_size(all) < LIBRARIES_MAX) {
        unsigned long long from, to;
        const char *path = strchr(line, '/');
        if (path && sscanf(line, "%llx-%llx", &from, &to) == 2)
            json_object_set_new(all, path, json_integer((json_int_t)(to - from)));
    }
    run_log_put(r->log, "libraries", all);
}

/* ---- what the run is ------------------------------------------------------------------------ */

static void add_variables(json_t *all, char *const *v)
{
    size_t bytes = 0;
    for (; v && *v && bytes < ENV_MAX; v++) {
        const char *value = strchr(*v, '=');
        if (!value || value == *v)
            continue;
        AUTO(free) char *name = xstrndup(*v, (size_t)(value - *v));
        json_object_set_new(
            all, name, redact_json(name, json_text_of(value + 1, strnlen(value + 1, VALUE_MAX))));
        bytes += strlen(*v);
    }
}

static json_t *words_json(char *const *argv)
{
    json_t *words = json_array();
    size_t bytes = 0;
    AUTO(strv) char **shown = redact_argv(argv);
    for (char **w = shown; w && *w && (bytes += strlen(*w)) < ENV_MAX; w++)
        json_array_append_new(words, json_text(*w));
    return words;
}

static json_t *node_json(void)
{
    struct utsname system;
    struct rlimit files;
    struct statvfs shm;
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t limit = cgroup_memory("");
    json_t *node =
        json_pack("{s:I}", "memory_bytes", (json_int_t)(limit && limit < memory ? limit : memory));
    if (uname(&system) == 0)
        json_object_set_new(node, "kernel", json_text(system.release));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        json_object_set_new(node, "open_files", json_integer((json_int_t)files.rlim_cur));
    if (statvfs("/dev/shm", &shm) == 0)
        json_object_set_new(node, "shm_bytes",
                            json_integer((json_int_t)(shm.f_blocks * shm.f_frsize)));
    return node;
}

static json_t *plan_json(const struct plan *p)
{
    json_t *nodes = json_array();
    for (int i = 0; i < p->node_count; i++) {
        json_t *gpus = json_array(), *cpus = json_array();
        for (int k = 0; k < p->nodes[i].local_size; k++) {
            const struct plan_rank *rank = &p->ranks[p->nodes[i].ranks[k]];
            if (rank->gpu >= 0)
                json_array_append_new(gpus, json_integer(rank->gpu));
            if (rank->cpus)
                json_array_append_new(cpus, json_text(rank->cpus));
        }
        json_array_append_new(nodes, json_pack("{s:o, s:i, s:o, s:o, s:o*}", "name",
                                               json_text(p->nodes[i].name), "ranks",
                                               p->nodes[i].local_size, "gpus", gpus, "cpus", cpus,
                                               "hardware", json_text(p->nodes[i].hardware)));
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "engine", p->engine, "ranks", p->world_size,
                     "first_rank", p->first_rank, "gpus", plan_hardware_gpus(p), "nodes", nodes);
}

static void put_facts(struct record *r)
{
    const struct plan *p = r->run->plan;
    run_log_put(r->log, "plan", plan_json(p)); /* other nodes tell their GPUs when they connect */
    if (r->has_facts)
        return;
    r->has_facts = true;
    AUTO(strbuf) struct strbuf command = {0};
    AUTO(free) char *dir = get_current_dir_name(), *place = registry_place();
    AUTO(free) char *driver = file_line("/proc/driver/nvidia/version");
    json_t *variables = json_object();
    add_variables(variables, environ);
    add_variables(variables, r->run->spec->env); /* -x */
    redact_command(&command, p->argv);
    run_log_put(r->log, "name", json_text(r->run->set->run_log.name));
    run_log_put(r->log, "job", json_text(p->job_id));
    run_log_put(r->log, "command", json_text(strbuf_str(&command)));
    run_log_put(r->log, "dir", json_text(p->wdir ? p->wdir : dir));
    run_log_put(r->log, "begin_ms", json_integer(clock_ms_of(CLOCK_REALTIME)));
    run_log_put(r->log, "process",
                json_pack("{s:o, s:i, s:I}", "place", json_text(place), "pid", (int)getpid(),
                          "start", (json_int_t)registry_own_start()));
    run_log_put(r->log, "environment", variables);
    run_log_put(r->log, "argv", words_json(p->argv));
    run_log_put(r->log, "node", node_json());
    run_log_put(r->log, "versions",
                json_pack("{s:s, s:o*}", "drover", DROVER_VERSION, "driver", json_text(driver)));
}

/* ---- metrics -------------------------------------------------------------------------------- */

static bool falls(const char *name)
{
    static const char *const words[] = {"loss", "err", "perplexity", "ppl",  "nll",
                                        "bpc",  "mse", "mae",        "time", "latency"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static void summarise(struct record *r, const char *name, double value)
{
    json_t *m = json_object_get(r->metrics, name);
    double best;
    if (!m && json_object_size(r->metrics) < METRICS_MAX) {
        m = json_pack("{s:o, s:o, s:i}", "last", json_null(), "best", json_number(value), "count",
                      0);
        json_object_set_new(r->metrics, name, m);
    }
    if (!m || json_as_number(&best, json_object_get(m, "best")) < 0)
        return;
    json_t *count = json_object_get(m, "count");
    json_object_set_new(m, "last", json_number(value));
    if (!isfinite(best) || (falls(name) ? value < best : value > best))
        json_object_set_new(m, "best", json_number(value));
    json_integer_set(count, json_integer_value(count) + 1);
    r->has_new = true;
}

static void on_report(void *arg, int rank, const char *text, size_t len)
{
    struct record *r = arg;
    json_t *report = r->log ? metric_mapping_read(text, len) : NULL, *value;
    const char *name;
    if (!report)
        return;
    json_object_foreach (report, name, value) {
        double number;
        if (json_as_number(&number, value) == 0 && strcmp(name, "step") != 0)
            summarise(r, name, number);
    }
    run_log_add(r->log, "report", r->run->plan->first_rank + rank, report);
}

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && isspace((unsigned char)text[i]))
        i++;
    if (from == LAUNCH_STDOUT && i < len && text[i] == '{')
        on_report(arg, rank, text, len);
    return true;
}

/* ---- samples -------------------------------------------------------------------------------- */

static void set_fact(json_t *o, const char *key, const struct gpu_sample *s, enum gpu_fact f)
{
    int64_t value;
    if (gpu_sample_get(&value, s, f))
        json_object_set_new(o, key, json_integer(value));
}

static void sample_gpus(struct record *r)
{
    AUTO(job_monitor_reading) struct job_monitor_reading gpus;
    job_monitor_latest(r->run->gpus, &gpus);
    for (int i = 0; i < gpus.count; i++) {
        static const struct {
            const char *key;
            enum gpu_fact fact;
        } facts[] = {{"busy", GPU_FACT_BUSY},           {"memory", GPU_FACT_MEMORY_USED},
                     {"power_mw", GPU_FACT_POWER},      {"sm_mhz", GPU_FACT_SM_CLOCK},
                     {"celsius", GPU_FACT_TEMPERATURE}, {"throttle", GPU_FACT_THROTTLE}};
        int node = gpus.nodes[i];
        json_t *o = json_pack("{s:o, s:o}", "gpu", json_text(gpus.samples[i].gpu.uuid), "node",
                              node == JOB_MONITOR_HERE ? json_null()
                                                       : json_text(r->run->plan->nodes[node].name));
        for (size_t k = 0; k < COUNT_OF(facts); k++)
            set_fact(o, facts[k].key, &gpus.samples[i], facts[k].fact);
        run_log_add(r->log, "sample", RUN_LOG_NO_RANK, o);
    }
}

/* The counters are those since the machine's start. */
static void sample_host(struct record *r)
{
    struct host_sample h;
    if (!r->host)
        r->host = host_sampler_open(NULL, "");
    host_sampler_read(r->host, &h);
    run_log_add(r->log, "sample", RUN_LOG_NO_RANK,
                json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "cpu_s", h.cpu_s, "cpu_busy_s",
                          h.cpu_busy_s, "cpu_wait_s", h.cpu_wait_s, "disk_read_bytes",
                          (json_int_t)h.disk_read_bytes, "disk_written_bytes",
                          (json_int_t)h.disk_written_bytes, "net_received_bytes",
                          (json_int_t)h.net_received_bytes, "net_sent_bytes",
                          (json_int_t)h.net_sent_bytes));
}

/* ---- writing -------------------------------------------------------------------------------- */

static void commit(struct record *r, bool last)
{
    struct err e = {0};
    if (r->log && r->has_new)
        run_log_put(r->log, "metrics", json_incref(r->metrics));
    r->has_new = false;
    int rc = r->log ? run_log_commit(r->log, last, &e) : 0;
    if (rc == 0)
        return;
    /* Containers may have no home and no SQLite; the user of one has chosen that. */
    log_line(rc == -ENOPKG || rc == -ENOENT ? LOG_INFO : LOG_WARN,
             "%s; the log of this run ends here", e.text);
    run_log_close(TAKE(r->log));
}

static void on_timer(uv_timer_t *t)
{
    struct record *r = t->data;
    int64_t now_ms = clock_ms();
    if (!r->log)
        return;
    if (!r->code.started)
        start_code(r);
    read_code(r, 0);
    if (!r->libraries.started && r->pid && now_ms - r->begin_ms >= LIBRARIES_MS)
        start_libraries(r);
    read_libraries(r, 0);
    if (now_ms - r->sampled_ms >= SAMPLE_MS) {
        sample_gpus(r);
        sample_host(r);
        r->sampled_ms = now_ms;
    }
    commit(r, false);
}

static void on_event(void *state, const char *event, json_t *fields)
{
    struct record *r = state;
    if (!r->log || strcmp(event, "lines") == 0)
        return;
    const char *verdict = json_string_value(json_object_get(fields, "verdict"));
    if (strcmp(event, "hang") == 0 && verdict) {
        free(r->hang);
        r->hang = xasprintf("%s: the job hangs: %s\n", r->run->program, verdict);
    }
    json_t *all = json_pack("{s:s}", "event", event);
    if (fields)
        json_object_update(all, fields);
    run_log_add(r->log, "event", RUN_LOG_NO_RANK, redact_json(NULL, all));
}

/* ---- the run -------------------------------------------------------------------------------- */

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    const char *name = set->run_log.name;
    size_t len = name ? strlen(name) : 1;
    for (const char *c = name; c && *c; c++)
        if (iscntrl((unsigned char)*c) || *c == '/')
            len = 0;
    if (len == 0 || len > NAME_MAX_BYTES)
        return err_set(e, -EINVAL,
                       "--name '%s': a name has 1 to %d bytes, without '/' and control characters",
                       name, NAME_MAX_BYTES);
    spec->node.reports |= !set->run_log.off;
    return !set->run_log.off;
}

static void attach(void *state)
{
    struct record *r = state;
    if (r->begin_ms == 0) {
        r->begin_ms = clock_ms();
        r->metrics = json_object();
        r->log = run_log_new(r->run->plan->job_id);
    }
    if (r->log)
        uv_timer_start(r->timer, on_timer, FIRST_MS, INTERVAL_MS);
}

/* Keeps the last lines of each rank, without secrets. */
static void put_lines(struct record *r)
{
    int n = r->run->lines ? line_log_ranks(r->run->lines) : 0;
    for (int i = 0; i < n; i++) {
        AUTO(strbuf) struct strbuf b = {0};
        size_t max = n > LINES_MAX / LINES_MIN ? LINES_MIN : (size_t)(LINES_MAX / n);
        uint64_t at = 0;
        line_log_read(r->run->lines, i, &at, &b);
        line_log_read_partial(r->run->lines, i, at, &b);
        if (b.len > max) {
            strbuf_consume(&b, b.len - max);
            const char *whole = strchr(strbuf_str(&b), '\n');
            strbuf_consume(&b, whole ? (size_t)(whole + 1 - b.data) : 0);
        }
        if (b.len > 0)
            run_log_add(r->log, "lines", r->run->plan->first_rank + i,
                        json_pack("{s:o}", "text", redact_json(NULL, json_text(strbuf_str(&b)))));
    }
}

static void ended(void *state, const struct job_end *end, int status)
{
    struct record *r = state;
    AUTO(strbuf) struct strbuf why = {0};
    if (!r->log)
        return;
    AUTO(free) char *hang = TAKE(r->hang);
    strbuf_puts(&why, hang ? hang : "");
    feature_explain(r->run, &why);
    strbuf_puts(&why, strbuf_str(&r->run->failure));
    run_log_put(r->log, "plan",
                plan_json(r->run->plan)); /* the GPUs of other nodes are known now */
    run_log_put(r->log, "cause", redact_json(NULL, json_text(strbuf_str(&why))));
    run_log_put(r->log, "failed_rank",
                end->first_failed < 0 ? json_null()
                                      : json_integer(r->run->plan->first_rank + end->first_failed));
    put_lines(r);
}

static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct record *r = arg;
    if (!r->log || rank != 0)
        return;
    r->pid = pid;
    put_facts(r);
}

static void finish(void *state, int status)
{
    struct record *r = state;
    const unsigned by_user = 1U << FEATURE_CAUSE_SIGNAL | 1U << FEATURE_CAUSE_OUTPUT;
    if (!r->log)
        return;
    if (!r->code.started && status)
        start_code(r);
    read_code(r, INQUIRY_END_MS);
    read_libraries(r, INQUIRY_END_MS);
    run_log_put(r->log, "status", json_integer(status));
    run_log_put(r->log, "by_user", json_boolean(r->run->causes & by_user));
    run_log_put(r->log, "end_ms", json_integer(clock_ms_of(CLOCK_REALTIME)));
    run_log_put(r->log, "restarts", json_integer(r->run->attempt));
    commit(r, true);
    if (r->log && status && !r->run->quiet && !(r->run->causes & by_user))
        fprintf(stderr, "  try: drover runs show %s\n", run_log_id(r->log));
    if (clock_ms() - r->begin_ms >= TRIM_AFTER_MS || r->begin_ms % 32 == 0)
        run_store_trim();
}

static void close_log(void *state)
{
    struct record *r = state;
    end_inquiry(&r->code);
    end_inquiry(&r->libraries);
    run_log_close(r->log);
    host_sampler_close(r->host);
    free(r->hang);
    json_decref(r->metrics);
}

const struct feature feature_run_log = {
    .options = {OPT_STR(0, "name", "NAME", "name of the run in drover runs",
                        struct feature_settings, run_log.name),
                OPT_FLAG(0, "no-record", "keep no log of the run for drover runs",
                         struct feature_settings, run_log.off)},
    .check = check,
    .size = sizeof(struct record),
    .attach = attach,
    .events = {.line = on_line, .report = on_report, .rank_started = on_rank_started},
    .record = on_event,
    .ended = ended,
    .finish = finish,
    .close = close_log,
};
