#include "launcher/jobs/section_learning.h"

#include <unistd.h>

#include "common/utf8.h"
#include "launcher/jobs/history_sections.h"

static void read_command(struct history_command *c, char *const *argv, const char *wdir)
{
    AUTO(free) char *here = wdir ? NULL : getcwd(NULL, 0);
    history_command_read(c, argv, wdir ? wdir : here ? here : "/");
}

static void put(struct strbuf *text, const char *what, int64_t ms)
{
    if (ms <= 0)
        return;
    strbuf_puts(text, text->len ? ", " : "");
    utf8_add_line(text, what);
    strbuf_printf(text, " %g s", (double)ms / 1000);
}

/* Appends the limits of `now` that `before` does not have. */
static void describe(struct strbuf *text, const struct section_limits *before,
                     const struct section_limits *now)
{
    for (int i = before->count; i < now->count; i++) /* new ones are added at the end */
        put(text, now->at[i].name, now->at[i].ms);
    put(text, "no section", before->out_of_section_ms ? 0 : now->out_of_section_ms);
    put(text, "heartbeat", before->heartbeat_ms ? 0 : now->heartbeat_ms);
    put(text, "first heartbeat", before->initial_heartbeat_ms ? 0 : now->initial_heartbeat_ms);
}

int section_learning_read(struct section_limits *limits, struct strbuf *text, char *const *argv,
                          const char *wdir, double factor, struct err *e)
{
    struct section_limits longest = {0}, before = {0};
    struct history_command c;
    read_command(&c, argv, wdir);
    section_limits_copy(&before, limits);
    int rc = history_sections_read(&longest, &c, e);
    if (rc == 0 && section_limits_learn(limits, &longest, factor, SECTION_LEARNING_MIN_MS) > 0)
        describe(text, &before, limits);
    section_limits_free(&longest);
    section_limits_free(&before);
    history_command_end(&c);
    return rc;
}

int section_learning_store(const struct section_limits *longest, char *const *argv,
                           const char *wdir, struct err *e)
{
    struct history_command c;
    if (!section_limits_any(longest))
        return 0;
    read_command(&c, argv, wdir);
    int rc = history_sections_put(longest, &c, e);
    history_command_end(&c);
    return rc;
}
