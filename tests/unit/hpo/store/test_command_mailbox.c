/* command_mailbox: commands in a sweep's directory, and the replies to them. */
#include "hpo/store/command_mailbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
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

TEST(commands_that_arrive_while_others_are_settled_stay)
{
    in_new_dir();
    submit("{\"ask\":\"z\",\"verb\":\"pause\"}");
    AUTO(free) char *first = xasprintf("%s/commands/z", dir);
    const struct timespec earlier[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK_INT(utimensat(AT_FDCWD, first, earlier, 0), 0);
    AUTO(free) char *pipe = xasprintf("%s/commands/pipe", dir);
    CHECK_INT(mkfifo(pipe, 0600), 0); /* it is not a command, and opening it would wait */
    submit("{\"ask\":\"a\",\"verb\":\"resume\"}");
    struct command_mailbox *d = command_mailbox_open(dir);
    CHECK_INT(command_mailbox_count(d), 2); /* in the order in which they were sent */
    CHECK_STR(json_string_value(json_object_get(command_mailbox_get(d, 0), "ask")), "z");
    submit("{\"ask\":\"b\",\"verb\":\"pause\"}");
    handle_all(d);
    command_mailbox_commit(d);
    command_mailbox_close(d);
    d = command_mailbox_open(dir);
    CHECK_INT(command_mailbox_count(d), 1);
    CHECK_STR(json_string_value(json_object_get(command_mailbox_get(d, 0), "ask")), "b");
    command_mailbox_close(d);
    remove_dir();
}

TEST(senders_at_the_same_moment_lose_no_command)
{
    in_new_dir();
    enum { SENDERS = 4, EACH = 25 };
    for (int k = 0; k < SENDERS; k++)
        if (fork() == 0) {
            for (int i = 0; i < EACH; i++) {
                AUTO(free) char *id = xasprintf("%d-%d", k, i);
                AUTO(json) json_t *command = json_pack("{s:s}", "ask", id);
                if (command_mailbox_submit(dir, command, NULL) < 0)
                    _exit(1);
            }
            _exit(0);
        }
    size_t got = 0;
    for (int ended = 0, last = 0; ended < SENDERS || !last;) {
        last = ended == SENDERS; /* all that was sent is there now */
        AUTO(command_mailbox) struct command_mailbox *d = command_mailbox_open(dir);
        got += d ? command_mailbox_count(d) : 0;
        if (d)
            command_mailbox_commit(d);
        int status = 0;
        ended += waitpid(-1, &status, WNOHANG) > 0;
        CHECK_INT(status, 0);
    }
    CHECK_INT(got, SENDERS * EACH);
    remove_dir();
}

TEST(what_is_no_ask_is_dropped_and_the_rest_is_answered)
{
    in_new_dir();
    static const char *const texts[] = {"{half of\n", "[]\n", "\n", "",
                                        "{\"ask\":\"../x\",\"verb\":\"pause\"}\n"};
    CHECK(!command_mailbox_open(dir)); /* makes the directory */
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(free) char *path = xasprintf("%s/commands/%zu", dir, i);
        CHECK_INT(file_write(path, texts[i], strlen(texts[i]), 0600), 0);
    }
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
