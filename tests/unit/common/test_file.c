#include "common/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static char dir[64];

/* Changes to a directory that is empty. */
static void enter(void)
{
    snprintf(dir, sizeof dir, "/tmp/drover-test-XXXXXX");
    CHECK(mkdtemp(dir) && chdir(dir) == 0);
}

static void leave(void)
{
    AUTO(free) char *command = xasprintf("rm -r '%s'", dir);
    CHECK_INT(system(command), 0);
}

static void check_content(const char *path, const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(file_read(&b, path, 1 << 20), 0);
    CHECK_STR(strbuf_str(&b), want);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    CHECK_INT(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void ignore(int number)
{
}

/* Reads the pipe slowly and interrupts the writer. */
static void *read_slowly(void *arg)
{
    int fd = *(int *)arg;
    char block[4096];
    size_t *sum = xzalloc(sizeof *sum);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0; *sum += (size_t)n) {
        kill(getpid(), SIGUSR1);
        usleep(500);
    }
    return sum;
}

TEST(all_bytes_are_written_though_signals_interrupt_the_writer)
{
    enum { BYTES = 1 << 20 };
    int ends[2];
    pthread_t reader;
    size_t *sum;
    AUTO(free) char *bytes = xzalloc(BYTES);
    struct sigaction action = {.sa_handler = ignore}; /* without SA_RESTART */
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && pipe(ends) == 0);
    CHECK_INT(pthread_create(&reader, NULL, read_slowly, &ends[0]), 0);
    CHECK_INT(file_write_all(ends[1], bytes, BYTES), 0);
    close(ends[1]);
    CHECK_INT(pthread_join(reader, (void **)&sum), 0);
    CHECK_INT(*sum, BYTES);
    free(sum);
}

TEST(a_write_that_fails_is_an_error)
{
    AUTO(fd) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_INT(file_write_all(full, "a", 1), -ENOSPC);
    CHECK_INT(file_write_all(full, "", 0), 0);
    CHECK_INT(file_write_all(-1, "a", 1), -EBADF);
}

TEST(a_file_is_written_in_place_and_keeps_its_mode)
{
    enter();
    umask(022);
    CHECK_INT(file_write("f", "first text", 10, 0666), 0);
    CHECK_INT(mode_of("f"), 0644);
    CHECK_INT(chmod("f", 0600), 0);
    CHECK_INT(file_write("f", "second", 6, 0666), 0);
    check_content("f", "second");
    CHECK_INT(mode_of("f"), 0600);
    CHECK_INT(file_write("absent/f", "", 0, 0600), -ENOENT);
    CHECK_INT(file_write("/dev/full", "a", 1, 0600), -ENOSPC);
    leave();
}

TEST(a_file_is_replaced_with_the_mode_that_is_asked_for)
{
    enter();
    umask(027);
    CHECK_INT(file_replace("f", "one", 3, 0), 0);
    CHECK_INT(mode_of("f"), 0640);
    CHECK_INT(file_replace("f", "two", 3, 0644), 0);
    CHECK_INT(mode_of("f"), 0644);
    CHECK_INT(file_replace_durably("f", "three", 5, 0600), 0);
    CHECK_INT(mode_of("f"), 0600);
    check_content("f", "three");
    CHECK_INT(file_replace_durably("f", "four", 4, 0), 0);
    CHECK_INT(mode_of("f"), 0640);
    CHECK_INT(system("test \"$(ls -A)\" = f"), 0);
    leave();
}

TEST(a_link_is_replaced_and_its_target_stays)
{
    enter();
    CHECK_INT(file_write("target", "old", 3, 0600), 0);
    CHECK_INT(symlink("target", "link"), 0);
    CHECK_INT(file_replace("link", "new", 3, 0), 0);
    check_content("target", "old");
    check_content("link", "new");
    leave();
}

TEST(a_file_that_cannot_be_replaced_stays_and_nothing_is_left)
{
    enter();
    struct rlimit limit = {.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
    CHECK_INT(file_write("f", "old", 3, 0600), 0);
    CHECK_INT(mkdir("d", 0700), 0);
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_INT(file_replace("f", "longer", 6, 0), -EFBIG);
    CHECK_INT(file_replace_durably("f", "longer", 6, 0), -EFBIG);
    CHECK_INT(file_replace("d", "new", 3, 0), -EISDIR);
    CHECK_INT(file_replace_durably("d", "new", 3, 0), -EISDIR);
    CHECK_INT(file_replace("absent/f", "new", 3, 0), -ENOENT);
    check_content("f", "old");
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_INT(system("test \"$(ls -Ax)\" = 'd  f'"), 0);
    leave();
}

TEST(a_file_is_read_up_to_a_limit)
{
    enter();
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(file_write("f", "0123456789", 10, 0600), 0);
    CHECK_INT(file_read(&b, "f", 10), 0);
    CHECK_STR(strbuf_str(&b), "0123456789");
    CHECK_INT(file_read(&b, "f", 4), -EFBIG); /* appends */
    CHECK_STR(strbuf_str(&b), "01234567890123");
    CHECK_INT(file_read(&b, "f", 0), -EFBIG);
    CHECK_INT(b.len, 14);
    CHECK_INT(file_read(&b, "absent", 4), -ENOENT);
    CHECK_INT(file_read(&b, ".", 4), -EISDIR);
    strbuf_reset(&b);
    CHECK_INT(file_read(&b, "/dev/null", 0), 0);
    CHECK_STR(strbuf_str(&b), "");
    leave();
}

TEST(a_file_of_many_blocks_with_nuls_is_read_completely)
{
    enum { BYTES = 100001 };
    enter();
    AUTO(free) char *bytes = xzalloc(BYTES);
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)(i % 251);
    CHECK_INT(file_write("f", bytes, BYTES, 0600), 0);
    CHECK_INT(file_read(&b, "f", BYTES), 0);
    CHECK(b.len == BYTES && memcmp(b.data, bytes, BYTES) == 0);
    strbuf_reset(&b);
    CHECK_INT(file_read(&b, "f", BYTES - 1), -EFBIG);
    CHECK(b.len == BYTES - 1 && memcmp(b.data, bytes, BYTES - 1) == 0);
    leave();
}

TEST(files_whose_size_is_zero_are_read)
{
    AUTO(free) char *text = file_text("/proc/self/status"), *name = file_line("/proc/self/comm");
    AUTO(free) char *pid = file_field("/proc/self/status", "Pid:");
    AUTO(free) char *own = xasprintf("%d", (int)getpid());
    int first = 0;
    CHECK(strstr(text, "\nPid:"));
    CHECK(*name && !strchr(name, '\n'));
    CHECK_STR(pid, own);
    CHECK_INT(file_scan("/proc/self/stat", "%d", &first), 1);
    CHECK_INT(first, getpid());
}

TEST(the_first_line_a_field_and_values_are_read)
{
    enter();
    static const char text[] = "12 kB\nB: \t two words \nB: three\nC:";
    int n = 0;
    char unit[8] = "";
    CHECK_INT(file_write("f", text, strlen(text), 0600), 0);
    CHECK_INT(file_write("empty", "", 0, 0600), 0);
    AUTO(free) char *line = file_line("f"), *none = file_line("empty");
    AUTO(free) char *b = file_field("f", "B:"), *c = file_field("f", "C:");
    CHECK_STR(line, "12 kB");
    CHECK_STR(none, "");
    CHECK_STR(b, "two words ");
    CHECK_STR(c, "");
    CHECK(!file_field("f", "D:") && !file_field("absent", "B:"));
    CHECK_INT(file_scan("f", "%d %7s", &n, unit), 2);
    CHECK(n == 12 && strcmp(unit, "kB") == 0);
    CHECK_INT(file_scan("f", "%d %d", &n, &n), 1);
    CHECK_INT(file_scan("empty", "%d", &n), 0);
    CHECK_INT(file_scan("absent", "%d", &n), 0);
    errno = 0;
    CHECK(!file_text("absent") && errno == ENOENT);
    errno = 0;
    CHECK(!file_line("absent") && errno == ENOENT);
    leave();
}
