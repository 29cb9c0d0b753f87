/* test_trial_run - executions of a trial by a real launcher: messages, files, and how they end. */
#include "hpo/worker/trial_run.h"

#include "tests/unit/kit_lease.h"

static struct trial_run *newest;

static void on_done(void *arg)
{
    struct leases *t = arg;
    CHECK_INT(trial_run_state(newest), TRIAL_RUN_DONE);
    t->done++;
}

static struct trial_run *new_run(struct leases *t, int64_t id, const char *script)
{
    AUTO(json) json_t *data = leases_run_data(t, script);
    return newest = trial_run_new(&t->context, id, data, on_done, t);
}

static bool result_is(const struct leases *t, const char *key)
{
    return json_is_true(json_object_get(t->result, key));
}

static bool result_has(const struct leases *t, const char *key)
{
    return json_object_get(t->result, key) != NULL;
}

static int result_number(const struct leases *t, const char *key)
{
    return (int)json_integer_value(json_object_get(t->result, key));
}

static const char *result_error(const struct leases *t)
{
    return json_string_value(json_object_get(t->result, "error"));
}

TEST(a_run_reports_its_lines_and_its_end_and_is_freed_when_both_are_acknowledged)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run)
    struct trial_run *r = new_run(
        &t, 3, "echo '{\"loss\": 0.5}'; echo $DROVER_TRIAL_ID $KIT ${DROVER_RESUME-new}; exit 4");
    CHECK_INT(trial_run_state(r), TRIAL_RUN_WAITING);
    trial_run_start(r, &t.slice);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_RUNNING);
    leases_until_done(&t, 1);
    CHECK_HAS(strbuf_str(&t.sent), "report 3 1 {\"loss\":0.5}|done 3 2 {\"status\":4");
    CHECK(!result_is(&t, "stopped") && !result_is(&t, "preempted"));
    AUTO(free) char *out = leases_file(&t, "trials/000007/3/stdout");
    CHECK_HAS(out, "7 yes new\n");
    AUTO(free) char *params = leases_file(&t, "trials/000007/params.json");
    CHECK_STR(params, "{\"lr\": 0.5}\n");
    CHECK(!trial_run_acknowledge(r, 1));
    CHECK(trial_run_acknowledge(r, 2));
    trial_run_stop(r, true); /* ignored: the run is done */
    CHECK_INT(t.done, 1);
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_runs_output_is_live_and_its_file_has_it_as_it_was_written)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run)
    struct trial_run *r = new_run(&t, 3,
                                  "[ -t 1 ] && echo pty $TERM; head -c 1500000 /dev/zero | "
                                  "tr '\\0' x; echo; printf end");
    trial_run_start(r, &t.slice);
    leases_until_done(&t, 1);
    AUTO(free) char *out = leases_file(&t, "trials/000007/3/stdout");
    CHECK(strncmp(out, "pty dumb\nxx", 11) == 0);
    CHECK_INT(strlen(out), 9 + 1500000 + 4);
    CHECK_STR(out + 9 + 1499999, "x\nend");
    trial_run_acknowledge(r, 9);
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_that_has_no_slot_ends_at_once_when_it_is_stopped)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run) struct trial_run *r = new_run(&t, 3, "echo never");
    trial_run_kill(r); /* has no effect here: the worker stops a run first */
    CHECK_INT(trial_run_state(r), TRIAL_RUN_WAITING);
    trial_run_stop(r, true);
    CHECK_INT(t.done, 1);
    CHECK(result_is(&t, "not_started") && result_is(&t, "preempted") && result_is(&t, "stopped"));
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_that_is_stopped_ends_with_its_grace_period)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run)
    struct trial_run *r = new_run(&t, 3,
                                  "trap 'echo \"{\\\"last\\\": 1}\"; exit 0' TERM\n"
                                  "echo '{\"step\": 1}'\n"
                                  "while :; do sleep 0.01; done");
    trial_run_start(r, &t.slice);
    leases_until_sent(&t, "report 3 1");
    trial_run_stop(r, true);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_STOPPING);
    trial_run_stop(r, false); /* ignored: the first reason counts */
    leases_until_done(&t, 1);
    CHECK_HAS(strbuf_str(&t.sent), "report 3 2 {\"last\":1}|done 3 3");
    CHECK(result_is(&t, "stopped") && result_is(&t, "preempted"));
    CHECK_INT(result_number(&t, "status"), 0);
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_that_is_killed_has_no_grace_period)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run)
    struct trial_run *r =
        new_run(&t, 3, "trap '' TERM; echo '{\"step\": 1}'; while :; do sleep 1; done");
    trial_run_start(r, &t.slice);
    leases_until_sent(&t, "report 3 1");
    trial_run_kill(r);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_STOPPING);
    trial_run_kill(r);
    leases_until_done(&t, 1);
    CHECK(result_is(&t, "stopped") && !result_is(&t, "preempted"));
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_whose_directory_cannot_be_made_is_done_with_the_reason)
{
    struct leases t;
    leases_open(&t);
    AUTO(free) char *file = xasprintf("%s/trials", t.dir);
    FILE *f = fopen(file, "we");
    CHECK(f && fclose(f) == 0);
    AUTO(trial_run) struct trial_run *r = new_run(&t, 3, "echo never");
    trial_run_start(r, &t.slice);
    CHECK_INT(trial_run_state(newest), TRIAL_RUN_DONE);
    CHECK_INT(t.done, 1);
    CHECK(result_is(&t, "not_started") && !result_is(&t, "stopped"));
    CHECK_HAS(result_error(&t), "trials/000007");
    CHECK_INT(result_number(&t, "node_fault"), 0);
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_whose_output_cannot_be_written_is_the_fault_of_the_node_if_it_fails)
{
    static const struct {
        const char *script;
        bool fault;
    } cases[] = {{"echo much; exit 1", true}, {"echo much", false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct leases t;
        leases_open(&t);
        AUTO(free)
        char *make = xasprintf("mkdir -p %s/trials/000007/3 && ln -s /dev/full "
                               "%s/trials/000007/3/stdout",
                               t.dir, t.dir);
        CHECK_INT(system(make), 0);
        AUTO(trial_run) struct trial_run *r = new_run(&t, 3, cases[i].script);
        trial_run_start(r, &t.slice);
        leases_until_done(&t, 1);
        CHECK(result_has(&t, "node_fault") == cases[i].fault);
        if (cases[i].fault)
            CHECK_HAS(result_error(&t), "output: No space left on device; exit status 1");
        trial_run_free(TAKE(r));
        leases_close(&t);
    }
}

/* A run whose argv is `program`. */
static void run_program(struct leases *t, const char *program)
{
    AUTO(json) json_t *data = leases_run_data(t, "");
    json_object_set_new(data, "argv", json_pack("[s]", program));
    AUTO(trial_run)
    struct trial_run *r = newest = trial_run_new(&t->context, 3, data, on_done, t);
    trial_run_start(r, &t->slice);
    leases_until_done(t, 1);
}

TEST(a_program_that_cannot_be_executed_is_the_fault_of_the_trial_and_any_other_step_is_not)
{
    static const struct {
        const char *make, *program;
    } bad[] = {{"true", "./missing"},
               {"touch file", "./file"},
               {"mkdir dir", "./dir"},
               {"printf 0 > text; chmod +x text", "./text/x"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct leases t;
        leases_open(&t);
        AUTO(free) char *make = xasprintf("cd %s; %s", t.dir, bad[i].make);
        CHECK_INT(system(make), 0);
        AUTO(free) char *program = xasprintf("%s/%s", t.dir, bad[i].program);
        run_program(&t, program);
        CHECK(!result_has(&t, "node_fault"));
        CHECK_HAS(result_error(&t), "exec '");
        leases_close(&t);
    }
    struct leases t;
    leases_open(&t);
    t.slice.cpus = "4095"; /* this node has fewer */
    run_program(&t, "true");
    CHECK_INT(result_number(&t, "node_fault"), 0);
    leases_close(&t);
}

/* Runs lease 3, which leaves a checkpoint. */
static void leave_checkpoint(struct leases *t)
{
    AUTO(trial_run) struct trial_run *r = new_run(t, 3, "echo 17 > $DROVER_CKPT_DIR/step");
    trial_run_start(r, &t->slice);
    leases_until_done(t, 1);
    CHECK_INT(result_number(t, "status"), 0);
}

TEST(a_trial_that_runs_again_starts_from_a_copy_of_its_checkpoint)
{
    struct leases t;
    leases_open(&t);
    leave_checkpoint(&t);
    AUTO(trial_run)
    struct trial_run *r = new_run(&t, 4, "echo $DROVER_RESUME $(cat $DROVER_CKPT_DIR/step)");
    trial_run_start(r, &t.slice);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_PREPARING);
    leases_until_done(&t, 2);
    AUTO(free) char *out = leases_file(&t, "trials/000007/4/stdout");
    CHECK_STR(out, "1 17\n");
    trial_run_free(TAKE(r));
    leases_close(&t);
}

TEST(a_run_that_is_stopped_while_its_checkpoint_is_copied_does_not_start)
{
    struct leases t;
    leases_open(&t);
    leave_checkpoint(&t);
    AUTO(trial_run) struct trial_run *r = new_run(&t, 4, "echo never");
    trial_run_start(r, &t.slice);
    trial_run_stop(r, true);
    trial_run_kill(r);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_PREPARING_STOPPED);
    leases_until_done(&t, 2);
    CHECK(result_is(&t, "not_started") && result_is(&t, "preempted"));
    trial_run_free(TAKE(r));
    leases_close(&t);
}

/* A run over two nodes, the second of which is this one too: nothing joins its job from there. */
static struct trial_run *new_gang_run(struct leases *t, const char *script)
{
    AUTO(json) json_t *data = leases_run_data(t, script);
    json_object_set_new(data, "peers",
                        json_pack("[{s:s,s:{}}]", "node", topo_name(t->f->l->topo), "resources"));
    t->need.nodes = 2;
    return newest = trial_run_new(&t->context, 3, data, on_done, t);
}

TEST(a_run_over_several_nodes_sends_its_join_ticket_again_until_its_job_ends)
{
    struct leases t;
    leases_open(&t);
    AUTO(trial_run) struct trial_run *r = new_gang_run(&t, "echo never");
    trial_run_start(r, &t.slice);
    CHECK_INT(trial_run_state(r), TRIAL_RUN_RUNNING);
    CHECK_HAS(strbuf_str(&t.sent), "join_ticket 3 0 {\"address\":");
    CHECK(t.ticket && json_string_value(json_object_get(t.ticket, "token")));
    leases_clear_sent(&t);
    trial_run_resend(r);
    CHECK_HAS(strbuf_str(&t.sent), "join_ticket 3 0 {\"address\":");
    trial_run_stop(r, true);
    leases_until_done(&t, 1);
    CHECK(result_is(&t, "preempted"));
    leases_clear_sent(&t);
    trial_run_resend(r); /* the job has ended: nothing can join it */
    CHECK_STR(strbuf_str(&t.sent), "");
    trial_run_free(TAKE(r));
    leases_close(&t);
}
