/* shm_cleanup: removes the shared memory files of one job and no others. */
#include "launcher/node/shm_cleanup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

/* Names that Open MPI 4.1.4 has used for the files of this job. */
#define JOB "drover-9179-1edf0c7b"

TEST(a_jobs_files_are_known_by_its_namespace)
{
    CHECK(shm_cleanup_is_of("vader_segment.vm.0.cb7728b0.1", JOB));
    CHECK(shm_cleanup_is_of("vader_segment.c03.example.org.1000.cb7728b0.17", JOB));
    CHECK(shm_cleanup_is_of("osc_sm.vm.cb7728b0.3.1", JOB));
    CHECK(shm_cleanup_is_of("osc_rdma.vm.cb7728b0.3", JOB));
    CHECK(!shm_cleanup_is_of("vader_segment.vm.0.cb7728b1.1", JOB));
    CHECK(!shm_cleanup_is_of("vader_segment.vm.0.cb7728b0.1", "drover-9179-1edf0c7c"));
    CHECK(!shm_cleanup_is_of("vader_segment.vm.0.1cb7728b0.1", JOB));
    CHECK(!shm_cleanup_is_of("other.vm.0.cb7728b0.1", JOB));
    CHECK(!shm_cleanup_is_of("vader_segment.", ""));
}

static void make(const char *dir, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static bool is_there(const char *dir, const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &st) == 0;
}

TEST(only_files_of_the_job_are_removed)
{
    char dir[] = "/tmp/drover-test-XXXXXX", path[128];
    CHECK(mkdtemp(dir));
    make(dir, "vader_segment.vm.0.cb7728b0.0");
    make(dir, "vader_segment.vm.0.cb7728b0.1");
    make(dir, "vader_segment.vm.0.0b7728b0.0");
    make(dir, "else");
    snprintf(path, sizeof path, "%s/osc_sm.vm.cb7728b0.0", dir);
    CHECK_INT(mkdir(path, 0700), 0); /* not a file */
    shm_cleanup_remove(dir, JOB);
    CHECK(!is_there(dir, "vader_segment.vm.0.cb7728b0.0"));
    CHECK(!is_there(dir, "vader_segment.vm.0.cb7728b0.1"));
    CHECK(is_there(dir, "vader_segment.vm.0.0b7728b0.0"));
    CHECK(is_there(dir, "else"));
    CHECK(is_there(dir, "osc_sm.vm.cb7728b0.0"));
    shm_cleanup_remove("/nowhere", JOB);
    snprintf(path, sizeof path, "rm -r %s", dir);
    CHECK_INT(system(path), 0);
}
