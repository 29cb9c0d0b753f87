/* command_client: a command reaches the coordinator, or the store if no coordinator runs. */
#include "hpo/store/command_client.h"

#include <poll.h>

#include "common/json.h"
#include "hpo/reader/sweep_reader.h"
#include "hpo/store/command_mailbox.h"
#include "hpo/store/stored_sweep.h"
#include "tests/unit/test.h"

static char root[64];

/* Creates a directory with a sweep that has no records. */
static void in_new_dir(void)
{
    struct err e = {0};
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    strcpy(root, "/tmp/test_command.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    const struct sweep_dir_opts opts = {
        .root = root,
        .name = "s",
        .file = "method: grid\nprogram: t\nparameters: {x: {values: [1, 2]}}\n"};
    if (sweep_dir_open(&d, &opts, &e) < 0)
        FAIL("%s", e.text);
}

static void remove_dir(void)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    CHECK_INT(system(cmd), 0);
}

/* Sends a command. Returns the reply as JSON, or "CODE: text"; the caller frees it. */
static char *send_command(const char *name, const char *json, bool *applied_here)
{
    AUTO(json) json_t *command = json_loads(json, 0, NULL), *reply = NULL;
    struct err e = {0};
    int rc = command_client_send(&reply, applied_here, root, name, command, &e);
    return rc < 0 ? xasprintf("%d: %s", rc, e.text) : json_line(reply);
}

static const char *state(void)
{
    static char text[32];
    AUTO(json) json_t *status = json_object();
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    struct err e = {0};
    if (sweep_reader_open(&v, root, "s", &e) < 0)
        FAIL("%s", e.text);
    sweep_reader_set_status(v, status);
    snprintf(text, sizeof text, "%s", json_string_value(json_object_get(status, "state")));
    return text;
}

TEST(where_nobody_holds_the_sweep_the_ask_is_stored_at_once)
{
    in_new_dir();
    bool applied_here = false;
    AUTO(free) char *paused = send_command("s", "{\"verb\":\"pause\"}", &applied_here);
    CHECK_HAS(paused, "\"ok\":true");
    CHECK(applied_here);
    CHECK_STR(state(), "paused");
    AUTO(free) char *resumed = send_command("s", "{\"verb\":\"resume\"}", &applied_here);
    CHECK_HAS(resumed, "\"ok\":true");
    CHECK(strcmp(state(), "paused") != 0);
    AUTO(free) char *find = xasprintf("ls %s/s | grep -q answer", root);
    CHECK(system(find) != 0); /* no file of a reply is left */
    remove_dir();
}

TEST(what_lay_there_before_is_answered_with_it)
{
    in_new_dir();
    bool applied_here;
    AUTO(free) char *dir = xasprintf("%s/s", root);
    AUTO(json) json_t *before = json_loads("{\"ask\":\"before\",\"verb\":\"pause\"}", 0, NULL);
    CHECK_INT(command_mailbox_submit(dir, before, NULL), 0);
    AUTO(free) char *ours = send_command("s", "{\"verb\":\"retry\",\"trials\":[5]}", &applied_here);
    CHECK_HAS(ours, "no trial 5");
    CHECK_STR(state(), "paused");
    AUTO(json) json_t *its = command_mailbox_poll_reply(dir, "before");
    CHECK(json_is_true(json_object_get(its, "ok")));
    remove_dir();
}

static int any_record(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    return 1;
}

TEST(what_makes_no_sense_is_an_error_and_changes_nothing)
{
    in_new_dir();
    bool applied_here;
    char none[32];
    snprintf(none, sizeof none, "%d: ", -ENOENT);
    AUTO(free)
    char *trial = send_command("s", "{\"verb\":\"retry\",\"trials\":[5]}", &applied_here);
    CHECK_HAS(trial, "no trial 5");
    AUTO(free) char *sweep = send_command("t", "{\"verb\":\"pause\"}", &applied_here);
    CHECK_HAS(sweep, none);
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    CHECK_INT(sweep_reader_open(&v, root, "s", NULL), 0);
    CHECK_INT(event_store_replay(v->dir->store, any_record, NULL, NULL), 0);
    remove_dir();
}

/* Coordinates the sweep until a command arrives, and rejects it. */
static void reject_one(int ready_fd)
{
    AUTO(stored_sweep) struct stored_sweep *v = NULL;
    struct err rejection = {0};
    CHECK_INT(stored_sweep_lock(&v, root, "s", NULL, NULL), 0);
    err_set(&rejection, -EINVAL, "not on a sunday");
    err_hint(&rejection, "wait for monday");
    CHECK_INT(write(ready_fd, "!", 1), 1);
    for (;; poll(NULL, 0, 1)) {
        AUTO(command_mailbox) struct command_mailbox *commands = command_mailbox_open(v->dir->path);
        if (!commands)
            continue;
        command_mailbox_set_reply(commands, 0, &rejection, v->sched, NULL);
        command_mailbox_commit(commands);
        return;
    }
}

TEST(whoever_holds_the_sweep_answers_and_its_word_is_what_comes_back)
{
    in_new_dir();
    int fds[2];
    char byte;
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        reject_one(fds[1]);
        _exit(0);
    }
    CHECK_INT(read(fds[0], &byte, 1), 1);
    AUTO(json) json_t *command = json_loads("{\"verb\":\"pause\"}", 0, NULL), *reply = NULL;
    bool applied_here = true;
    struct err e = {0};
    CHECK_INT(command_client_send(&reply, &applied_here, root, "s", command, &e), -EINVAL);
    CHECK_STR(e.text, "not on a sunday");
    CHECK_STR(e.hint, "wait for monday");
    CHECK(!applied_here); /* although the coordinator has ended */
    int status = 1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK(strcmp(state(), "paused") != 0); /* the command was not applied here in addition */
    remove_dir();
}
