#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/plan/env.h"
#include "launcher/remote/launchers/launcher_failure.h"
#include "launcher/remote/remote_launcher.h"

enum { AT_ONCE = 64 }; /* ssh processes that connect at the same time */

/* Returns the value of Open MPI's parameter for the program that replaces ssh ("agent"), or for its
 * arguments ("args"); NULL: not set. As with mpirun, the command line has precedence over the
 * environment, and its last word over earlier ones. PRRTE calls these parameters plm_ssh_*. */
static const char *find_param(const char *what, char *const *args, char *const *env)
{
    static const char *const prefixes[] = {"OMPI_MCA_plm_rsh", "OMPI_MCA_plm_ssh",
                                           "PRTE_MCA_plm_rsh", "PRTE_MCA_plm_ssh"};
    const char *value = NULL;
    for (size_t i = 0; i < COUNT_OF(prefixes) && !value; i++) {
        AUTO(free) char *name = xasprintf("%s_%s", prefixes[i], what);
        value = env_get(env, name);
    }
    AUTO(free) char *rsh = xasprintf("plm_rsh_%s", what);
    AUTO(free) char *ssh = xasprintf("plm_ssh_%s", what);
    for (size_t i = 0; i + 1 < strv_len(args); i++)
        if (strcmp(args[i], rsh) == 0 || strcmp(args[i], ssh) == 0)
            value = args[i + 1];
    return value;
}

/* Returns the words of the program that the user gives instead of ssh; NULL: there is none. Of
 * Open MPI's list of alternatives ("ssh : rsh") the first counts. Open MPI knows no quotes,
 * either. */
static char **user_program(char *const *args, char *const *env)
{
    const char *value = find_param("agent", args, env);
    char **words = NULL;
    if (value)
        remote_launcher_push(&words, "%.*s", (int)strcspn(value, ":"), value);
    return words;
}

static char *ssh_program_for(char *const *args, char *const *env)
{
    AUTO(strv) char **words = user_program(args, env);
    return words ? xstrdup(words[0]) : NULL;
}

static bool is_ssh(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "ssh") == 0;
}

/* Returns the command for the login shell of the node, which may be any shell. `env` sets the
 * variable in csh and fish, too, and its messages are the same under each of them. */
static char *shell_command(const struct remote_launcher_opts *o)
{
    struct strbuf b = {0};
    strbuf_printf(&b, "exec env %s=%d '", REMOTE_ENV_NODE, o->node);
    for (const char *c = o->drover; *c; c++)
        if (*c == '\'')
            strbuf_puts(&b, "'\\''");
        else
            strbuf_putc(&b, *c);
    strbuf_printf(&b, "' %s %s", REMOTE_AGENT_COMMAND, REMOTE_AGENT_ENV_OPTION);
    return strbuf_take(&b);
}

/* Arguments of ssh. The first value of an option counts, so the user's precede them. ssh asks
 * nothing (BatchMode), and its connection is for this job only: it forwards no ports, and other
 * sessions do not depend on it (ControlMaster). A host that drops packets is reported before the
 * start limit is reached (ConnectTimeout). The agent's control connection notices if the connection
 * is lost later. */
#define OPTIONS \
    "-T -o BatchMode=yes -o ConnectTimeout=20 -o ControlMaster=no -o ClearAllForwardings=yes"

/* Builds the command line for one node. The agent of this machine is started without ssh. */
static int ssh_argv(char ***argv, char ***env, const struct remote_launcher_opts *o, struct err *e)
{
    const struct plan_node *node = &o->plan->nodes[o->node];
    if (node->here) {
        strv_push(argv, xstrdup(o->drover));
        remote_launcher_push(argv, REMOTE_AGENT_COMMAND " " REMOTE_AGENT_ENV_OPTION);
        return 0;
    }
    AUTO(strv) char **words = user_program(o->engine_args, *env);
    const char *at = strrchr(node->name, '@'), *args = find_param("args", o->engine_args, *env);
    strv_push(argv, xstrdup(o->program));
    for (size_t i = 1; i < strv_len(words); i++)
        strv_push(argv, xstrdup(words[i]));
    remote_launcher_push(argv, "%s %s", args ? args : "", is_ssh(o->program) ? OPTIONS : "");
    if (at) {
        strv_push(argv, xstrdup("-l"));
        strv_push(argv, xstrndup(node->name, (size_t)(at - node->name)));
    }
    if (node->port)
        remote_launcher_push(argv, "-p %d", node->port);
    strv_push(argv, xstrdup(at ? at + 1 : node->name));
    strv_push(argv, shell_command(o));
    return 0;
}

static const char *const env_prefixes[] = {NULL}; /* sshd's variables do not reach the ranks */
static const char *const node_env[] = {REMOTE_ENV_NODE, NULL};

const struct remote_launcher remote_launcher_ssh = {.word = "ssh",
                                                    .program = "ssh",
                                                    .program_for = ssh_program_for,
                                                    .package = "openssh-client",
                                                    .env_prefixes = env_prefixes,
                                                    .node_env = node_env,
                                                    .argv = ssh_argv,
                                                    .find_failure = launcher_failure_find,
                                                    .lingers = true,
                                                    .per_node = true,
                                                    .at_once = AT_ONCE,
                                                    .env_on_stdin = true};
