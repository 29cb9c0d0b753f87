/* command_mailbox: commands in a sweep's directory, and the replies to them. */
#include "hpo/store/command_mailbox.h"

#include <errno.h>
#include <unistd.h>

#include "common/json.h"
#include "common/yaml.h"
#include "hpo/samplers/sweep_file.h"
#include "tests/unit/test.h"

static char dir[64];
static struct spec *spec;
static struct scheduler *s;
static struct scheduler_out out;

static void in_new_dir(void)
{
    strcpy(dir, "/tmp/test_mailbox.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    static const char text[] = "method: grid\nprogram: t\nparameters: {x: {values: [1]}}\n";
    AUTO(yaml_doc) struct yaml_doc *doc = NULL;
    CHECK_INT(yaml_read(&doc, text, strlen(text), "s.yaml", "command", NULL), 0);
    CHECK_INT(sweep_file_read(&spec, doc, NULL), 0);
    CHECK_INT(scheduler_new(&s, spec, NULL), 0);
}

static void remove_dir(void)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK_INT(system(cmd), 0);
    scheduler_out_free(&out);
    scheduler_free(s);
    spec_free(spec);
}

static void submit(const char *json)
{
    AUTO(json) json_t *command = json_loads(json, 0, NULL);
    struct err e = {0};
    if (command_mailbox_submit(dir, command, &e) < 0)
        FAIL("%s", e.text);
}

/* Gives all commands to the scheduler and sets the replies. */
static void handle_all(struct command_mailbox *d)
{
    for (size_t i = 0; i < command_mailbox_count(d); i++) {
        struct err e = {0};
        const struct scheduler_event ev = {SCHEDULER_EV_COMMAND, NULL, 0,
                                           (json_t *)command_mailbox_get(d, i)};
        (void)scheduler_handle(s, &ev, 1000, &out, &e);
        command_mailbox_set_reply(d, i, &e, s, &out);
    }
}

TEST(asks_stay_until_they_are_settled_and_then_have_their_answers)
{
    in_new_dir();
    CHECK(!command_mailbox_open(dir));
    submit("{\"ask\":\"a\",\"verb\":\"pause\"}");
    submit("{\"ask\":\"b\",\"verb\":\"retry\",\"trials\":[5]}");
    CHECK(!command_mailbox_poll_reply(dir, "a"));
    struct command_mailbox *d = command_mailbox_open(dir);
    CHECK_INT(command_mailbox_count(d), 2);
    handle_all(d);
    command_mailbox_close(d); /* as if it died before the records were stored */
    CHECK(!command_mailbox_poll_reply(dir, "a"));
    d = command_mailbox_open(dir);
    CHECK_INT(command_mailbox_count(d), 2);
    handle_all(d); /* the second time `a` has no effect, and gets a reply even so */
    CHECK_INT(out.record_count, 0);
    command_mailbox_commit(d);
    command_mailbox_close(d);
    AUTO(json)
    json_t *a = command_mailbox_poll_reply(dir, "a"), *b = command_mailbox_poll_reply(dir, "b");
    AUTO(free) char *said = json_line(a);
    CHECK_STR(said, "{\"ok\":true,\"trials\":[],\"running\":0,\"over\":false}");
    CHECK_HAS(json_string_value(json_object_get(b, "error")), "no trial 5");
    CHECK(!command_mailbox_poll_reply(dir, "a"));
    CHECK(!command_mailbox_open(dir));
    remove_dir();
}

TEST(one_reads_or_writes_at_a_time)
{
    in_new_dir();
    submit("{\"ask\":\"a\",\"verb\":\"pause\"}");
    struct command_mailbox *d = command_mailbox_open(dir);
    AUTO(json) json_t *command = json_pack("{s:s}", "ask", "b");
    CHECK(!command_mailbox_open(dir));
    CHECK_INT(command_mailbox_submit(dir, command, NULL), -EBUSY);
    command_mailbox_close(d);
    CHECK_INT(command_mailbox_submit(dir, command, NULL), 0);
    remove_dir();
}

TEST(what_is_no_ask_is_dropped_and_the_rest_is_answered)
{
    in_new_dir();
    AUTO(free) char *path = xasprintf("%s/asks", dir);
    FILE *f = fopen(path, "we");
    fputs("{half of\n[]\n\n{\"ask\":\"../x\",\"verb\":\"pause\"}\n", f);
    fclose(f);
    submit("{\"ask\":\"b\",\"verb\":\"resume\"}");
    struct command_mailbox *d = command_mailbox_open(dir);
    CHECK_INT(command_mailbox_count(d), 3);
    handle_all(d);
    command_mailbox_commit(d);
    command_mailbox_close(d);
    AUTO(json) json_t *b = command_mailbox_poll_reply(dir, "b");
    CHECK(json_is_true(json_object_get(b, "ok")));
    remove_dir();
}

TEST(nobody_waits_and_nothing_is_left)
{
    in_new_dir();
    submit("{\"ask\":\"a\",\"verb\":\"pause\"}");
    command_mailbox_abandon(dir, "a");
    struct command_mailbox *d = command_mailbox_open(dir);
    handle_all(d);
    command_mailbox_commit(d);
    command_mailbox_close(d);
    AUTO(free) char *path = xasprintf("%s/answer.a", dir);
    CHECK(access(path, F_OK) < 0);
    remove_dir();
}
