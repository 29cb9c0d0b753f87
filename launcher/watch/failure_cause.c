#include "launcher/watch/failure_cause.h"

#include <ctype.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/watch/failure_table.h"

/* ---- lines ---------------------------------------------------------------------------------- */

struct said {
    const char *text;
    enum failure_trust trust;
};

/* What a rank has said. Its texts are borrowed. */
struct speech {
    struct said *at; /* its lines, its error file, and why it could not be started */
    size_t count;
    struct failure_cause raised; /* the last error of drover's programs; NULL: none … */
    const char *exception;       /* … and of Python */
    bool alike;                  /* FAILURE_EXCEPTION is FAILURE_RAISED */
};

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool has_one(const char *text, const char *const *of)
{
    while (*of && !strstr(text, *of))
        of++;
    return *of;
}

/* Returns the trust in a line, whatever the others say. The program has survived what it was warned
 * of; NCCL names its errors WARN. */
static enum failure_trust trust_in(const char *line)
{
    static const char *const notes[] = {
        "NCCL INFO", "NCCL TRACE", "Warning:", "warning:", "WARNING",
        ": warn: ",  ": info: ",   "<warn>",   "<info>",   NULL};
    static const char *const errors[] = {"NCCL WARN", "*** An error occurred in MPI_",
                                         "Fatal error in ", NULL};
    const char *log = starts(line, "[rank") && strstr(line, "]:[") ? strstr(line, "]:[") + 2 : line;
    if (has_one(line, errors))
        return FAILURE_RAISED;
    bool noted = has_one(line, notes) || (log[0] == '[' && (log[1] == 'W' || log[1] == 'I') &&
                                          isdigit((unsigned char)log[2]));
    return noted ? FAILURE_NEVER : FAILURE_LINE;
}

/* Returns true if a line names an exception: "ValueError: bad", "torch.cuda.SomeError",
 * "KeyboardInterrupt". */
static bool is_exception(const char *line)
{
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return name > 0 && (line[name] == '\0' || (line[name] == ':' && line[name + 1] == ' '));
}

/* Returns true if an exception only says that a process has failed, which has said why itself. */
static bool is_of_a_child(const char *exception)
{
    static const char *const children[] = {"CalledProcessError", "ChildFailedError",
                                           "ProcessExitedException", NULL};
    return has_one(exception, children);
}

/* Returns true if a line belongs to the exception of the line before: NCCL's result, and the error
 * that precedes it. */
static bool continues(const char *line, const char *before)
{
    return starts(line, "nccl") || starts(line, "Last error:") || starts(before, "Last error:");
}

static const char *without_rank(const char *line) /* PyTorch's prefix */
{
    const char *end = starts(line, "[rank") ? strstr(line, "]: ") : NULL;
    return end ? end + 3 : line;
}

/* Trusts the exception that ends the last traceback, and those that led to it. The program has
 * survived the earlier ones. */
static void find_exceptions(struct speech *s, size_t lines)
{
    bool in_traceback = false, leads = false; /* the lines of a traceback are indented */
    const char *ended = NULL;                 /* the line before belongs to this exception */
    for (size_t i = 0; i < lines; i++) {
        const char *line = without_rank(s->at[i].text);
        leads |= strstr(line, "bove exception") != NULL;
        in_traceback |= starts(line, "SyntaxError: ") || starts(line, "IndentationError: ") ||
                        starts(line, "TabError: "); /* Python prints no traceback for them */
        if (starts(line, "Traceback (most recent call last):")) {
            in_traceback = true;
        } else if (in_traceback && line[0] != ' ' && line[0] != '\0') {
            in_traceback = false;
            ended = is_exception(line) && !is_of_a_child(line) ? line : NULL;
            for (size_t k = 0; ended && !leads && k < i; k++)
                if (s->at[k].trust == FAILURE_EXCEPTION)
                    s->at[k].trust = FAILURE_LINE;
            s->exception = ended ? ended : s->exception;
            leads = false;
        } else if (!ended || !continues(line, without_rank(s->at[i - 1].text))) {
            ended = NULL;
        }
        if (ended)
            s->at[i].trust = FAILURE_EXCEPTION;
    }
}

/* Returns the message in the line of Rust, Go, Julia, Fortran or C++ that says why the program
 * ends; NULL: it is no such line. Rust writes the message into the next line. */
static const char *message_of(const char *line, const char *next)
{
    static const char *const before[] = {
        "panic: ", "fatal error: ", "ERROR: LoadError: ", "Fortran runtime error: ", "  what():  "};
    for (size_t i = 0; i < COUNT_OF(before); i++)
        if (starts(line, before[i]))
            return line + strlen(before[i]);
    const char *at = starts(line, "thread '") ? strstr(line, "' panicked at ") : NULL;
    return at && at[strlen("' panicked at ")] == '\'' ? at + strlen("' panicked at ")
           : at                                       ? next
                                                      : NULL;
}

/* Finds the last error of a program of drover with its advice, as err_print() prints them. */
static void find_error(struct speech *s, size_t lines)
{
    static const char advice[] = "  try: ";
    for (size_t i = 1; i < lines; i++) {
        const char *line = s->at[i - 1].text;
        if (starts(line, "drover ") && strstr(line, ": ") && starts(s->at[i].text, advice))
            s->raised = (struct failure_cause){.what = strstr(line, ": ") + 2,
                                               .advice = s->at[i].text + sizeof advice - 1};
    }
}

/* Exceptions and what NCCL, CUDA and MPI raised are trusted alike, if a signal has ended the rank,
 * which may have survived the exception, or if the exception is one of NCCL's errors, which says
 * less than NCCL's own lines. The caller frees s->at. */
static void hear(struct speech *s, const struct rank_end *r, const char *const *lines,
                 const char *written)
{
    size_t n = 0;
    while (lines && lines[n])
        n++;
    *s = (struct speech){.at = xcalloc(n + 2, sizeof *s->at), .count = n};
    for (size_t i = 0; i < n; i++)
        s->at[i] = (struct said){lines[i], trust_in(lines[i])};
    find_exceptions(s, n);
    bool in_python = s->exception; /* it may survive how a process of its own ends */
    for (size_t i = 0; i < n && (r->signal || !in_python); i++) {
        const char *message = message_of(lines[i], lines[i + 1]);
        if (message)
            s->at[i] = (struct said){s->exception = message, FAILURE_EXCEPTION};
    }
    find_error(s, n);
    if (written) {
        s->at[s->count++] = (struct said){written, FAILURE_EXCEPTION};
        s->exception = written;
    }
    if (r->start_status)
        s->at[s->count++] = (struct said){r->start_error, FAILURE_FACT};
    s->alike = r->signal || (s->exception && strstr(s->exception, "NCCL error"));
    for (size_t i = 0; i < s->count; i++)
        if (s->alike && s->at[i].trust == FAILURE_EXCEPTION)
            s->at[i].trust = FAILURE_RAISED;
}

/* ---- causes --------------------------------------------------------------------------------- */

/* Returns the trust in a row, or FAILURE_NEVER if it does not match. */
static enum failure_trust match(const struct failure_row *p, const struct rank_end *r,
                                const struct speech *s)
{
    enum failure_trust best = FAILURE_NEVER;
    if ((p->signal && job_rank_status(r) != 128 + p->signal) ||
        (p->status && r->status != p->status) || (p->mpi_fault && r->mpi_fault != p->mpi_fault) ||
        (p->oom_killed && !r->oom_killed) || (p->started && r->start_status != 0))
        return best;
    if (!p->texts[0])
        return p->trust;
    for (size_t i = 0; i < s->count; i++)
        if (s->at[i].trust < best && has_one(s->at[i].text, p->texts))
            best = s->at[i].trust;
    return best == FAILURE_NEVER || best < p->trust ? best : p->trust;
}

/* What no restart cures: names of exceptions, and texts of those that have common names. */
enum failure_remedy failure_cause_remedy(const char *error)
{
    static const char *const names[] = {"NameError",
                                        "UnboundLocalError",
                                        "SyntaxError",
                                        "IndentationError",
                                        "TabError",
                                        "ImportError",
                                        "ModuleNotFoundError",
                                        "AttributeError",
                                        "TypeError",
                                        "NotImplementedError",
                                        "FileNotFoundError",
                                        "NotADirectoryError",
                                        "IsADirectoryError",
                                        "PermissionError",
                                        "RecursionError",
                                        "ConfigAttributeError",
                                        "MissingMandatoryValue",
                                        "MissingConfigException",
                                        "RepositoryNotFoundError",
                                        "GatedRepoError",
                                        "HFValidationError",
                                        "ArgumentError",
                                        "UsageError",
                                        "MisconfigurationException",
                                        "InterpolationKeyError",
                                        "ValidationError",
                                        "DatasetNotFoundError",
                                        "DefaultCredentialsError",
                                        "NoCredentialsError",
                                        "OutOfResources",
                                        "Unsupported",
                                        "UndefVarError",
                                        "BackendCompilerFailed",
                                        NULL};
    static const char *const texts[] = {"shapes cannot be multiplied",
                                        "must match the size of tensor",
                                        "Expected all tensors to be on the same device",
                                        "should be the same", /* types of input and weight */
                                        "expected scalar type",
                                        "have the same dtype",
                                        "Error(s) in loading state_dict",
                                        "does not require grad and does not have a grad_fn",
                                        "modified by an inplace operation",
                                        "Given groups=",
                                        "is invalid for input of size",
                                        "is not a valid model identifier",
                                        "not implemented for '",
                                        "binary incompatibility",
                                        "cannot open shared object file",
                                        "o such file or directory", /* Go begins errors small */
                                        "is not divisible by",
                                        "Ampere",
                                        "Failed to find C compiler",
                                        "DNN library initialization failed",
                                        "Unable to initialize backend",
                                        NULL};
    AUTO(free) char *full = xstrndup(error, strcspn(error, ": "));
    const char *name = strrchr(full, '.') ? strrchr(full, '.') + 1 : full;
    bool stops = strv_has(names, name) || has_one(error, texts);
    return stops ? FAILURE_STOP : FAILURE_RESTART;
}

/* Finds the cause at one level, and only a first-hand one if `first_hand` is true. */
static bool find_at(struct failure_cause *out, enum failure_trust trust, bool first_hand,
                    const struct rank_end *r, const struct speech *s)
{
    for (size_t i = 0; i < failure_table_rows; i++) {
        const struct failure_row *p = &failure_table[i];
        if ((first_hand && p->second_hand) || match(p, r, s) != trust)
            continue;
        *out = (struct failure_cause){p->cause.what, p->cause.advice, p->remedy, trust,
                                      p->second_hand};
        return true;
    }
    if (first_hand)
        return false;
    if (trust == FAILURE_FACT)
        *out = s->raised;
    else if (trust == (s->alike ? FAILURE_RAISED : FAILURE_EXCEPTION) && s->exception)
        *out = (struct failure_cause){
            .what = s->exception, .remedy = failure_cause_remedy(s->exception), .trust = trust};
    return out->what;
}

/* An error that NCCL or CUDA raised explains an exception that only names another rank. */
bool failure_cause_find(struct failure_cause *out, const struct rank_end *r,
                        const char *const *lines, const char *written)
{
    struct speech s;
    bool found = false;
    *out = (struct failure_cause){0};
    hear(&s, r, lines, written);
    for (int trust = FAILURE_FACT; trust < FAILURE_NEVER; trust++) {
        if (!found)
            found = find_at(out, (enum failure_trust)trust, false, r, &s);
        else if (out->second_hand && trust < FAILURE_LINE)
            (void)find_at(out, (enum failure_trust)trust, true, r, &s);
    }
    free(s.at);
    return found;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Returns the last line of `text`, and sets `*len` to its length without blanks at the end. */
static const char *last_line(const char *text, size_t *len)
{
    size_t end = strlen(text);
    while (end > 0 && isspace((unsigned char)text[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    *len = end - start;
    return text + start;
}

/* The file has one of two forms: {"message": {"message": M, "extraInfo": {"py_callstack": T}}} or
 * {"message": M}. */
char *failure_cause_error_file(const char *text)
{
    AUTO(json) json_t *file = NULL;
    if (json_parse(&file, text, strlen(text), NULL) < 0)
        return NULL;
    const json_t *outer = json_object_get(file, "message");
    const json_t *inner = json_is_object(outer) ? json_object_get(outer, "message") : outer;
    const char *message = json_string_value(inner);
    const char *traceback =
        json_string_value(json_object_get(json_object_get(outer, "extraInfo"), "py_callstack"));
    if (!message || !*message)
        return NULL;
    size_t len = 0, message_len = strcspn(message, "\n");
    const char *last = last_line(traceback ? traceback : "", &len);
    if (len == 0 || (len >= message_len && strncmp(last, message, message_len) == 0))
        return xasprintf("%.*s", (int)message_len, message);
    return xasprintf("%.*s (%.*s)", (int)message_len, message, (int)len, last);
}

/* Known handlers of core dumps, and how to find their dumps. For other handlers the text has only
 * their path. */
static const struct {
    const char *name, *hint;
} handlers[] = {
    {"systemd-coredump", "coredumpctl info %d"},
    {"apport", "see /var/crash and /var/lib/apport/coredump (process %d)"},
    {"abrt-hook-ccpp", "abrt list (process %d)"},
};

static char *core_handler(const char *command, int pid)
{
    AUTO(free) char *path = xstrndup(command, strcspn(command, " "));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        if (strcmp(name, handlers[i].name) != 0)
            continue;
        AUTO(free) char *hint = xasprintf(handlers[i].hint, pid);
        return xasprintf("handled by %s: %s", name, hint);
    }
    return xasprintf("handled by %s (process %d)", path, pid);
}

/* Appends the value of the field that the letter after '%' means, or '*' if the value is
 * unknown. */
static void add_core_field(struct strbuf *b, const struct failure_cause_core *c, char field)
{
    const char *slash = strrchr(c->program, '/');
    if (strchr("pPus", field))
        strbuf_printf(b, "%d", field == 'u' ? c->uid : field == 's' ? c->signal : c->pid);
    else if (field == 'h')
        strbuf_puts(b, c->host);
    else if (field == 'e') /* the kernel cuts the name after 15 characters */
        strbuf_printf(b, "%.15s", slash ? slash + 1 : c->program);
    else /* '*': the time, another thread's number, … */
        strbuf_putc(b, field == '%' ? '%' : '*');
}

char *failure_cause_core(const struct failure_cause_core *c)
{
    if (c->pattern[0] == '|')
        return core_handler(c->pattern + 1, c->pid);
    AUTO(strbuf) struct strbuf b = {0};
    bool has_pid = false;
    if (c->pattern[0] != '/')
        strbuf_printf(&b, "%s/", c->wdir ? c->wdir : ".");
    for (const char *p = c->pattern; *p; p++) {
        if (*p != '%') {
            strbuf_putc(&b, *p);
        } else if (p[1]) {
            has_pid |= *++p == 'p';
            add_core_field(&b, c, *p);
        }
    }
    if (c->uses_pid && !has_pid)
        strbuf_printf(&b, ".%d", c->pid);
    return strbuf_take(&b);
}
