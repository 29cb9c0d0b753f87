/* test_history_jobs - finished jobs: stored, listed, limited, and the peaks of a program. */
#include "launcher/jobs/history_jobs.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "launcher/jobs/history_db.h"
#include "tests/unit/kit_root.h"

static const char *open_state(void)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    return root;
}

static struct history_job example(void)
{
    return (struct history_job){.begin_ms = 1000,
                                .end_ms = 9000,
                                .job = (char *)"drover-1-ab",
                                .program = (char *)"/home/ada/train.py",
                                .hash = (char *)"0123456789abcdef",
                                .batch = 8,
                                .gpu = (char *)"NVIDIA H100",
                                .gpus = 2,
                                .status = 1,
                                .utilisation = 0.5,
                                .peak_bytes = 30,
                                .memory_bytes = 80,
                                .peaks = (char *)"{\"0\":30,\"1\":29}",
                                .energy_j = 1234.5,
                                .cost = 0.25};
}

static void put_job(const struct history_job *j)
{
    struct err e = {0};
    if (history_jobs_put(j, &e) < 0)
        FAIL("%s", e.text);
}

static struct history_jobs all(void)
{
    struct history_jobs l;
    struct err e = {0};
    if (history_jobs_read(&l, NULL, &e) < 0)
        FAIL("%s", e.text);
    return l;
}

TEST(a_stored_job_is_read_back)
{
    const char *root = open_state();
    struct history_jobs l = all();
    CHECK_INT(l.count, 0);
    const struct history_job j = example();
    put_job(&j);
    l = all();
    CHECK_INT(l.count, 1);
    const struct history_job *r = &l.at[0];
    CHECK_INT(r->begin_ms, 1000);
    CHECK_INT(r->end_ms, 9000);
    CHECK_STR(r->job, j.job);
    CHECK_STR(r->program, j.program);
    CHECK_STR(r->hash, j.hash);
    CHECK_INT(r->batch, 8);
    CHECK_STR(r->gpu, j.gpu);
    CHECK_INT(r->gpus, 2);
    CHECK_INT(r->status, 1);
    CHECK_NEAR(r->utilisation, 0.5, 0);
    CHECK_INT(r->peak_bytes, 30);
    CHECK_INT(r->peak_of_all, 0);
    CHECK_INT(r->memory_bytes, 80);
    CHECK_STR(r->peaks, j.peaks);
    CHECK_NEAR(r->energy_j, 1234.5, 0);
    CHECK_NEAR(r->cost, 0.25, 0);
    history_jobs_end(&l);
    AUTO(free) char *path = xasprintf("%s/drover/baselines.db", root);
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    remove_root(root);
}

TEST(json_leaves_unknown_figures_out)
{
    struct history_job j = example();
    AUTO(json) json_t *known = history_jobs_json(&j);
    CHECK_INT(json_integer_value(json_object_get(json_object_get(known, "peaks"), "1")), 29);
    CHECK_NEAR(json_real_value(json_object_get(known, "cost")), 0.25, 0);
    CHECK_STR(json_string_value(json_object_get(known, "peak_of")), "job");
    j.peak_of_all = 1;
    AUTO(json) json_t *marked = history_jobs_json(&j);
    CHECK_STR(json_string_value(json_object_get(marked, "peak_of")), "gpu");
    j.batch = j.peak_bytes = j.memory_bytes = -1;
    j.utilisation = j.energy_j = j.cost = -1;
    j.peaks = (char *)"{}";
    AUTO(json) json_t *o = history_jobs_json(&j);
    static const char *const absent[] = {"batch",        "utilisation", "peak_bytes", "peak_of",
                                         "memory_bytes", "energy_j",    "cost"};
    for (size_t i = 0; i < COUNT_OF(absent); i++)
        CHECK(!json_object_get(o, absent[i]));
    CHECK_INT(json_integer_value(json_object_get(o, "status")), 1);
}

TEST(the_oldest_jobs_beyond_the_limit_are_removed)
{
    const char *root = open_state();
    struct history_job j = example();
    put_job(&j);
    AUTO(free) char *path = xasprintf("%s/drover/baselines.db", root);
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    AUTO(free)
    char *sql = xasprintf("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
                          "INSERT INTO job SELECT i, 100000 + i, 'j', 'p', 'h', -1, 'g', 1, 0, "
                          "-1, -1, -1, '{}', -1, -1, 0 FROM n",
                          HISTORY_DB_ROWS_MAX);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    j.end_ms = 1 << 30;
    j.job = (char *)"newest";
    put_job(&j);
    struct history_jobs l = all();
    CHECK_INT(l.count, HISTORY_DB_ROWS_MAX);
    CHECK_STR(l.at[0].job, "newest");
    CHECK_INT(l.at[l.count - 1].end_ms, 100002); /* 9000 and 100001 are removed */
    history_jobs_end(&l);
    remove_root(root);
}

TEST(earlier_jobs_are_those_of_the_program_and_its_options)
{
    const char *root = open_state();
    const struct history_command of = {.program = (char *)"/home/ada/train.py",
                                       .hash = "0123456789abcdef"};
    struct history_jobs l;
    CHECK_INT(history_jobs_read(&l, &of, NULL), 0);
    CHECK_INT(l.count, 0);
    CHECK(!l.at);
    struct history_job j = example();
    put_job(&j);
    j.end_ms = 10000;
    j.batch = 16;
    j.peak_bytes = 50;
    put_job(&j);
    j.end_ms = 11000;
    j.peak_bytes = -1; /* unknown: read all the same, so that the user is told */
    put_job(&j);
    j.peak_bytes = 70;
    j.hash = (char *)"fedcba9876543210";
    put_job(&j);
    j.hash = (char *)"0123456789abcdef";
    j.program = (char *)"other";
    put_job(&j);
    CHECK_INT(history_jobs_read(&l, &of, NULL), 0);
    CHECK_INT(l.count, 3);
    CHECK_INT(l.at[0].peak_bytes, -1); /* newest first */
    CHECK_INT(l.at[1].batch, 16);
    CHECK_INT(l.at[1].peak_bytes, 50);
    CHECK_STR(l.at[1].gpu, "NVIDIA H100");
    CHECK_INT(l.at[2].batch, 8);
    CHECK_INT(l.at[2].peak_bytes, 30);
    history_jobs_end(&l);
    remove_root(root);
}

TEST(peaks_that_an_older_drover_has_stored_are_those_of_all_processes)
{
    const char *root = open_state();
    const struct history_job j = example();
    const struct history_command of = {.program = j.program, .hash = "0123456789abcdef"};
    put_job(&j);
    AUTO(free) char *path = xasprintf("%s/drover/baselines.db", root);
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "ALTER TABLE job DROP COLUMN peak_of_all; PRAGMA user_version=3",
                           NULL, NULL, NULL),
              SQLITE_OK);
    sqlite3_close(db);
    struct history_jobs l = all();
    CHECK_INT(l.count, 1);
    CHECK_INT(l.at[0].peak_bytes, 30);
    CHECK_INT(l.at[0].peak_of_all, 1);
    history_jobs_end(&l);
    CHECK_INT(history_jobs_read(&l, &of, NULL), 0);
    CHECK_INT(l.count, 1);
    CHECK_INT(l.at[0].peak_of_all, 1); /* it corrects no estimate */
    history_jobs_end(&l);
    remove_root(root);
}
