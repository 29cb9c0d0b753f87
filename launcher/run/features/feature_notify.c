/* feature_notify - implements --notify URL|COMMAND: tells it the sentence that drover prints, when
 * the first rank fails, when the job hangs, and when it ends. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/run/features/feature.h"

enum {
    SENT_MAX = 16, /* a job that restarts may hang again */
    TEXT_MAX = 4000,
    END_MS = 10000, /* in which what was started must end */
    NAP_NS = 20000000
};

struct notify {
    FEATURE_STATE;
    pid_t sent[SENT_MAX];
    int count;
    bool failed; /* the first failure is told */
};

static bool is_url(const char *to)
{
    return strncmp(to, "http://", 7) == 0 || strncmp(to, "https://", 8) == 0;
}

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    const char *to = set->notify;
    if (to && (!*to || (strstr(to, "://") && !is_url(to) && !strpbrk(to, " \t")))) {
        err_set(e, -EINVAL, "--notify '%s': neither a command nor a URL of http or https", to);
        return err_hint(e, "--notify https://ntfy.sh/TOPIC");
    }
    return to != NULL;
}

/* Appends a line of curl's configuration: NAME = "VALUE". */
static void add_setting(struct strbuf *b, const char *name, const char *value)
{
    strbuf_printf(b, "%s = \"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            strbuf_putc(b, '\\');
        strbuf_putc(b, *value == '\n' || *value == '\r' ? ' ' : *value);
    }
    strbuf_puts(b, "\"\n");
}

/* Writes what curl reads, so that the URL, which may contain a token, is on no command line. Slack
 * reads the text in the body; ntfy makes its message of it, as the headers say. */
static void write_request(struct strbuf *b, const char *url, const char *event, const char *text)
{
    AUTO(json) json_t *body = json_pack("{s:o}", "text", json_text(text));
    AUTO(free) char *line = json_line(body);
    AUTO(free) char *title = xasprintf("Title: drover: %s", event);
    const char *const settings[][2] = {{"url", url},
                                       {"data-binary", line},
                                       {"header", "Content-Type: application/json"},
                                       {"header", title},
                                       {"header", "Template: yes"},
                                       {"header", "Message: {{.text}}"},
                                       {"max-time", "10"},
                                       {"output", "/dev/null"}};
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        add_setting(b, settings[i][0], settings[i][1]);
    strbuf_puts(b, "silent\nfail\n");
}

static void tell(struct notify *n, const char *event, int status, const char *text)
{
    const char *to = n->run->set->notify;
    AUTO(free) char *cut = xstrndup(text, TEXT_MAX);
    AUTO(strbuf) struct strbuf in = {0};
    AUTO(strv) char **env = strv_copy(environ);
    char *curl[] = {(char *)"curl", (char *)"-K", (char *)"-", NULL};
    char *shell[] = {(char *)"sh", (char *)"-c", (char *)to, NULL};
    struct child c;
    struct err e = {0};
    if (n->count == SENT_MAX)
        return;
    if (is_url(to))
        write_request(&in, to, event, cut);
    else
        strbuf_puts(&in, cut);
    strv_push(&env, xasprintf("DROVER_NOTIFY_EVENT=%s", event));
    strv_push(&env, xasprintf("DROVER_NOTIFY_STATUS=%d", status));
    strv_push(&env, xasprintf("DROVER_NOTIFY_JOB=%s", n->run->plan->job_id));
    strv_push(&env, xasprintf("DROVER_NOTIFY_TEXT=%s", cut));
    const struct child_opts o = {
        .argv = is_url(to) ? curl : shell, .env = env, .in = CHILD_PIPE, .group = true};
    if (child_start(&c, &o, &e) < 0) {
        log_warn("--notify: %s; nothing is sent", e.text);
        return;
    }
    (void)file_write_all(c.in, in.data, in.len); /* fits into a pipe; it need not read it */
    close(c.in);
    n->sent[n->count++] = c.pid;
}

static void on_event(void *state, const char *event, json_t *fields)
{
    struct notify *n = state;
    const char *verdict = json_string_value(json_object_get(fields, "verdict"));
    if (strcmp(event, "hang") == 0) {
        AUTO(free)
        char *text = xasprintf("%s: the job hangs: %s\n", n->run->program, verdict ? verdict : "");
        tell(n, "hang", 0, text);
    }
}

static void on_rank_ended(void *arg, const struct rank_end *r)
{
    struct notify *n = arg;
    int status = job_rank_status(r);
    if (n->failed || status == 0 || r->told_to_stop)
        return;
    AUTO(strbuf) struct strbuf b = {0};
    n->failed = true;
    strbuf_printf(&b, "%s: ", n->run->program);
    feature_write_rank(&b, n->run->plan, r->rank);
    strbuf_printf(&b, r->signal ? " was ended by signal %d" : " exited with status %d",
                  r->signal ? r->signal : status);
    strbuf_printf(&b, " after %.1f s\n", r->seconds);
    tell(n, "failure", status, strbuf_str(&b));
}

/* Waits for what was started, but not long, and then ends it. */
static void await(struct notify *n)
{
    int64_t end_ms = clock_ms() + END_MS;
    for (int i = 0; i < n->count; i++) {
        int how = 0;
        pid_t rc;
        while ((rc = waitpid(n->sent[i], &how, WNOHANG)) == 0 && clock_ms() < end_ms)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        const char *what = is_url(n->run->set->notify) ? "curl" : "the command";
        if (rc == 0) {
            child_kill(-n->sent[i]);
            log_warn("--notify: %s took more than 10 s and was ended", what);
        } else if (rc > 0 && how != 0) {
            log_warn("--notify: %s ended with status %d", what,
                     WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how));
        }
    }
    n->count = 0;
}

static void finish(void *state, int status)
{
    struct notify *n = state;
    AUTO(strbuf) struct strbuf b = {0};
    if (!n->run->plan)
        return;
    feature_explain(n->run, &b);
    strbuf_puts(&b, strbuf_str(&n->run->failure));
    if (b.len == 0)
        strbuf_printf(&b, "%s: the job has ended with status %d\n", n->run->program, status);
    tell(n, "end", status, strbuf_str(&b));
    await(n);
}

const struct feature feature_notify = {
    .options = {OPT_STR(0, "notify", "URL|COMMAND",
                        "tell it a failure, a hang and the end of the job", struct feature_settings,
                        notify)},
    .check = check,
    .size = sizeof(struct notify),
    .events = {.rank_ended = on_rank_ended},
    .record = on_event,
    .finish = finish,
};
