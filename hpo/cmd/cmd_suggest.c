/* cmd_suggest - `drover suggest`: the search without a sweep. Requests and replies are JSON
 * objects, one per line. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/scheduler/study.h"

enum { LINE_MAX_BYTES = 16 << 20 };

/* Reads the next line of stdin into `b`; a longer line is cut one byte after the limit. Returns
 * false at the end of the input. */
static bool read_line(struct strbuf *b)
{
    int c = getc_unlocked(stdin);
    if (c == EOF)
        return false;
    strbuf_reset(b);
    for (; c != EOF && c != '\n'; c = getc_unlocked(stdin))
        if (b->len <= LINE_MAX_BYTES)
            strbuf_putc(b, (char)c);
    return true;
}

/* Python writes NaN and Infinity, which are not JSON. Outside strings they are replaced by the
 * strings that json_as_number() accepts. */
static void quote_numbers(struct strbuf *to, const struct strbuf *line)
{
    static const char *const words[][2] = {
        {"NaN", "\"nan\""}, {"Infinity", "\"inf\""}, {"-Infinity", "\"-inf\""}};
    bool in_string = false;
    for (const char *at = line->data, *end = at + line->len; at < end;) {
        size_t w = 0, n = 0;
        for (; !in_string && !n && w < COUNT_OF(words); w++)
            if (strncmp(at, words[w][0], strlen(words[w][0])) == 0)
                n = strlen(words[w][0]);
        if (n) {
            strbuf_puts(to, words[w - 1][1]);
        } else {
            n = in_string && *at == '\\' && at + 1 < end ? 2 : 1;
            in_string ^= *at == '"';
            strbuf_add(to, at, n);
        }
        at += n;
    }
}

static json_t *answer(struct study **s, const struct strbuf *line, struct err *e)
{
    if (line->len > LINE_MAX_BYTES) {
        err_set(e, -E2BIG, "the request line exceeds %d MiB", LINE_MAX_BYTES >> 20);
        err_hint(e, "send the results in several tell requests");
        return NULL;
    }
    AUTO(strbuf) struct strbuf quoted = {0};
    AUTO(json) json_t *request = NULL;
    const char *text = strbuf_str(line);
    if (strstr(text, "NaN") || strstr(text, "Infinity")) {
        quote_numbers(&quoted, line);
        line = &quoted;
    }
    if (json_parse(&request, strbuf_str(line), line->len, e) < 0)
        return NULL;
    return study_answer(s, request, e);
}

/* {"error": text} */
static json_t *error_json(const struct err *e)
{
    AUTO(free) char *text = xasprintf("%s%s%s", e->text, e->hint[0] ? "; try: " : "", e->hint);
    return json_pack("{s:s}", "error", text);
}

static int serve(void)
{
    AUTO(study) struct study *s = NULL;
    AUTO(strbuf) struct strbuf line = {0};
    while (read_line(&line)) {
        struct err e = {0};
        AUTO(json) json_t *done = answer(&s, &line, &e);
        AUTO(json) json_t *reply = done ? json_incref(done) : error_json(&e);
        AUTO(free) char *text = json_line(reply);
        if (puts(text) < 0 || fflush(stdout) != 0) {
            if (errno == EPIPE) /* the reader closed its end */
                return 0;
            log_error("stdout: %s", strerror(errno));
            return EXIT_STATUS_FAILED;
        }
    }
    if (!ferror(stdin))
        return 0;
    log_error("stdin: %s", strerror(errno));
    return EXIT_STATUS_FAILED;
}

static int run(char **no_words, void *into, struct err *e)
{
    signal(SIGPIPE, SIG_IGN);
    return serve();
}

int cmd_suggest(int argc, char **argv)
{
    static const struct opt none[] = {OPT_END};
    static const struct command command = {
        .help = {"drover suggest", "<requests >replies",
                 "Proposes hyperparameters to a program that runs the trials itself.\n"
                 "Requests come on stdin and replies on stdout, one JSON object per line.",
                 "echo '{\"op\":\"init\",\"space\":[...]}' | drover suggest"},
        .options = none,
        .unexpected_hint =
            "requests on stdin: echo '{\"op\":\"init\",\"space\":[…]}' | drover suggest",
        .run = run};
    return command_run(&command, NULL, argc, argv);
}
