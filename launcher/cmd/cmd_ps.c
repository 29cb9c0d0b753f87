/* cmd_ps - `drover ps`: lists the running jobs of this user on this node. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "common/opt.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "launcher/cmd/commands.h"
#include "launcher/registry/registry.h"

struct ps_opts {
    bool json;
};

static const struct opt options[] = {
    OPT_FLAG(0, "json", "print one line of JSON per job", struct ps_opts, json),
    OPT_END,
};

/* Writes an age as "12s", "3m05s", "2h03m" or "4d02h". */
static void print_age(char *out, size_t size, int64_t s)
{
    int n = (int)(s < 0 ? 0 : s);
    if (n < 60)
        snprintf(out, size, "%ds", n);
    else if (n < 3600)
        snprintf(out, size, "%dm%02ds", n / 60, n % 60);
    else if (n < 86400)
        snprintf(out, size, "%dh%02dm", n / 3600, n / 60 % 60);
    else
        snprintf(out, size, "%dd%02dh", n / 86400, n / 3600 % 24);
}

static void print_table(const struct registry_list *l)
{
    int width = 3;
    for (size_t i = 0; i < l->count; i++)
        width = (int)strlen(l->at[i].id) > width ? (int)strlen(l->at[i].id) : width;
    printf("%-*s  %5s  %7s  %s\n", width, "JOB", "RANKS", "FOR", "COMMAND");
    for (size_t i = 0; i < l->count; i++) {
        const struct registry_job *j = &l->at[i];
        char age[24];
        print_age(age, sizeof age, (int64_t)time(NULL) - j->started_ms / 1000);
        char ranks[16] = "-"; /* a sweep has none of its own */
        if (j->kind != REGISTRY_SWEEP)
            snprintf(ranks, sizeof ranks, "%d", j->ranks);
        AUTO(strbuf) struct strbuf command = {0};
        utf8_add_line(&command, j->command);
        printf("%-*s  %5s  %7s  %s\n", width, j->id, ranks, age, strbuf_str(&command));
    }
}

int cmd_ps(int argc, char **argv)
{
    struct ps_opts o = {0};
    struct err e = {0};
    int rest = argc;
    int rc = opt_parse(options, &o, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        const struct opt_help help = {
            .program = "drover ps",
            .usage = "[--json]",
            .summary = "Lists your running jobs that were started on this node, the sweeps "
                       "that are coordinated here, and their trials.",
            .examples = "drover ps\ndrover ps --json"};
        opt_print_help(stdout, &help, options);
        return 0;
    }
    if (rc == 0 && rest < argc)
        rc = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[rest]);
    if (rc < 0) {
        err_print(&e, "drover ps");
        return EXIT_STATUS_USAGE;
    }
    struct registry_list l;
    registry_read(&l);
    for (size_t i = 0; o.json && i < l.count; i++) {
        AUTO(json) json_t *j = registry_json(&l.at[i]);
        AUTO(free) char *line = json_line(j);
        puts(line);
    }
    if (!o.json)
        print_table(&l);
    registry_end(&l);
    return 0;
}
