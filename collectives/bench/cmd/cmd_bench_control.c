#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "collectives/bench/analysis/transport_control.h"
#include "common/child.h"
#include "common/log.h"
#include "common/own_process.h"

enum { CONTROL_WAIT_S = 60 };

/* The options of the control run follow those of the user: the last one counts. */
static char **line_of(const char *program, char *const *argv, const struct cmd_bench_opts *o,
                      const struct transport_control_run *r)
{
    char **line = NULL;
    strv_push(&line, xstrdup(program));
    for (size_t i = 1; argv[i]; i++)
        strv_push(&line, xstrdup(argv[i]));
    if (r->small && o->bench.max_bytes > TRANSPORT_CONTROL_BYTES) {
        uint64_t least = o->bench.min_bytes < TRANSPORT_CONTROL_BYTES ? o->bench.min_bytes
                                                                      : TRANSPORT_CONTROL_BYTES;
        strv_push(&line, xstrdup("-b"));
        strv_push(&line, xasprintf("%" PRIu64, least));
        strv_push(&line, xstrdup("-e"));
        strv_push(&line, xasprintf("%" PRIu64, TRANSPORT_CONTROL_BYTES));
    }
    if (o->bench.wait_ms > CONTROL_WAIT_S * 1000) {
        strv_push(&line, xstrdup("-T"));
        strv_push(&line, xasprintf("%d", CONTROL_WAIT_S));
    }
    for (int i = 0; i < r->disabled; i++) {
        strv_push(&line, xstrdup("-x"));
        strv_push(&line, xstrdup(transport_control_env[i]));
    }
    return line;
}

void cmd_bench_control(char *const *argv, const struct cmd_bench_opts *o)
{
    AUTO(free) char *program = NULL;
    AUTO(strbuf) struct strbuf text = {0};
    struct transport_control t = {0};
    struct transport_control_run r;
    if (own_process_dir_above(&program, 0, NULL) < 0)
        return;
    log_warn("the run failed: control runs look for the transport of NCCL that is at fault");
    setenv(CMD_BENCH_CONTROL_ENV, "1", true);
    while (transport_control_next(&t, &r)) {
        AUTO(strv) char **line = line_of(program, argv, o, &r);
        struct child_result done = {.status = -1};
        (void)child_run(&done, &(struct child_opts){.argv = line}, NULL); /* -1: it did not start */
        transport_control_add(&t, done.status == 0 || done.status == 1);  /* 1: it was slow */
    }
    unsetenv(CMD_BENCH_CONTROL_ENV);
    transport_control_text(&text, &t);
    log_error("%s", strbuf_str(&text));
}
