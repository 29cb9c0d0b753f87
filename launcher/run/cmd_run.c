#include "launcher/run/cmd_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/log.h"
#include "common/opt.h"
#include "launcher/jobs/commands.h"
#include "launcher/node/topo.h"
#include "launcher/place/placement.h"
#include "launcher/plan/plan_print.h"
#include "launcher/run/run_options_internal.h"
#include "launcher/run/run_session.h"

static int print_plan(struct run_options *o, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(plan) struct plan *p = NULL;
    AUTO(placement) struct placement *placed = NULL;
    const struct placement_opts place = run_options_placement(o);
    if (o->place && placement_preview(&placed, &place, e) < 0)
        return e->code;
    if (placed)
        o->spec.gpus = placed->gpus;
    int rc = topo_load(&t, e);
    rc = rc < 0 ? rc : plan_make(&p, &o->spec, t, environ, e);
    if (placed)
        o->spec.gpus = NULL; /* the placement ends here */
    if (rc < 0)
        return rc;
    run_options_log_ignored(o, p->engine);
    if (o->rdzv)
        log_warn("this plan shows one node; the rendezvous at %s:%d assigns its ranks",
                 o->rdzv->host, o->rdzv->port);
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *j = o->json ? plan_print_json(p) : NULL;
    AUTO(free) char *line = j ? json_line(j) : NULL;
    if (line)
        strbuf_printf(&b, "%s\n", line);
    else
        plan_print(&b, p);
    fputs(strbuf_str(&b), stdout);
    return 0;
}

/* Sets TERM=dumb for the ranks, unless drover's stdout is a terminal or the user sets TERM. The
 * ranks' stdout is a pty even if drover's stdout is a file or a pipe, in which colour codes would
 * be noise. */
static void set_terminal(struct run_options *o)
{
    bool by_user = o->spec.node.no_pty || isatty(STDOUT_FILENO);
    for (size_t i = 0; o->env && o->env[i]; i++)
        by_user |= strncmp(o->env[i], "TERM", 4) == 0 && (!o->env[i][4] || o->env[i][4] == '=');
    if (!by_user)
        strv_push(&o->env, xstrdup("TERM=dumb"));
    o->spec.env = o->env;
}

int cmd_run_job(struct run_options *o, int parsed, struct err *e)
{
    const struct feature_run run = run_options_features(o);
    int status = 0;
    if (parsed < 0)
        err_print(e, o->program);
    if (parsed != 0)
        return parsed == OPT_HELP ? 0 : EXIT_STATUS_USAGE;
    if (o->verbose)
        log_set_level(LOG_INFO);
    if (!o->dry_run)
        set_terminal(o);
    int rc = o->dry_run ? print_plan(o, e) : run_mpmd_check_scripts(o, e);
    if (rc == 0)
        rc = feature_admit(&status, &run, e);
    if (rc == 0 && status == 0 && !o->dry_run)
        rc = run_session(&status, o, e);
    if (rc == -EBUSY || rc == -ECANCELED) /* no GPUs became free, or the preflight has failed */
        status = EXIT_STATUS_FAILED;
    if (rc < 0)
        err_print(e, o->program);
    return rc < 0 && status == 0 ? EXIT_STATUS_USAGE : status;
}

int cmd_run(int argc, char **argv)
{
    /* True if drover was called as mpirun or mpiexec, whose lines have no tags. */
    bool link = strcmp(argv[0], "run") != 0;
    struct run_options o;
    struct err e = {0};
    int rc = run_options_parse(&o, log_program(), argc, argv, &e);
    if (link && o.style.tag == CONSOLE_TAG_AUTO)
        o.style.tag = CONSOLE_TAG_NONE;
    int status = cmd_run_job(&o, rc, &e);
    run_options_free(&o);
    return status;
}
