#include "launcher/guardian/guardian_msg.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/unit/test.h"

static char *argv3[] = {"prog", "", "two words", NULL};
static char *env2[] = {"A=1", "B=", NULL};

static struct guardian_rank some_rank(void)
{
    return (struct guardian_rank){.rank = 7,
                                  .argv = argv3,
                                  .env = env2,
                                  .wdir = "/tmp",
                                  .mems = "0-1",
                                  .cgroup = "/sys/fs/cgroup/job",
                                  .fds = {0, 1, 2},
                                  .report_fd = -1,
                                  .pmi_fd = -1};
}

static struct guardian_msg_head put(struct strbuf *b, const struct guardian_rank *r)
{
    struct err e = {0};
    struct guardian_msg_head h;
    CHECK_INT(guardian_msg_encode_rank(b, 3, r, &e), 0);
    memcpy(&h, b->data, sizeof h);
    CHECK_INT(h.payload, b->len - sizeof h);
    return h;
}

TEST(a_rank_is_decoded_as_it_was_encoded)
{
    struct strbuf b = {0};
    struct guardian_rank in = some_rank(), out;
    struct guardian_msg_head h = put(&b, &in);
    struct guardian_msg_fds fds = {.fd = {10, 11, 12}, .count = 3};
    char **words = NULL;
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), 0);
    CHECK_INT(h.job, 3);
    CHECK_INT(out.rank, 7);
    CHECK_INT(strv_len(out.argv), 3);
    CHECK_STR(out.argv[1], "");
    CHECK_STR(out.argv[2], "two words");
    CHECK_INT(strv_len(out.env), 2);
    CHECK_STR(out.env[1], "B=");
    CHECK_STR(out.wdir, "/tmp");
    CHECK(out.cpus == NULL);
    CHECK_STR(out.mems, "0-1");
    CHECK_STR(out.cgroup, "/sys/fs/cgroup/job");
    CHECK_INT(out.fds[2], 12);
    CHECK_INT(out.report_fd, -1);
    free(words);
    strbuf_free(&b);
}

TEST(a_descriptor_keeps_its_meaning_without_another_one)
{
    struct strbuf b = {0};
    struct guardian_rank in = some_rank(), out;
    in.pmi_fd = 20;
    struct guardian_msg_head h = put(&b, &in);
    struct guardian_msg_fds fds = {.fd = {10, 11, 12, 13}, .count = 4};
    char **words = NULL;
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), 0);
    CHECK_INT(out.report_fd, -1);
    CHECK_INT(out.pmi_fd, 13);
    free(words);
    fds.count = 5;
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), -EMFILE);
    strbuf_free(&b);
}

TEST(a_payload_cut_anywhere_is_rejected)
{
    struct strbuf b = {0};
    struct guardian_rank in = some_rank(), out;
    struct guardian_msg_head h = put(&b, &in);
    struct guardian_msg_fds fds = {.count = 3};
    for (uint32_t n = 0; n < b.len - sizeof h; n++) {
        char *cut = xzalloc(n); /* a block of its own, so that a sanitizer sees a read past it */
        memcpy(cut, b.data + sizeof h, n);
        char **words = NULL;
        h.payload = n;
        CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, cut, &fds), -EBADMSG);
        CHECK(words == NULL);
        free(cut);
    }
    strbuf_free(&b);
}

TEST(counts_beyond_the_payload_are_rejected)
{
    struct strbuf b = {0};
    struct guardian_rank in = some_rank(), out;
    struct guardian_msg_head h = put(&b, &in);
    struct guardian_msg_fds fds = {.count = 3};
    char **words = NULL;
    uint32_t huge = UINT32_MAX;
    memcpy(b.data + sizeof h, &huge, sizeof huge);
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), -EBADMSG);
    memcpy(b.data + sizeof h + 4, &huge, sizeof huge);
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), -EBADMSG);
    strbuf_free(&b);
}

TEST(a_rank_without_all_its_descriptors_is_rejected)
{
    struct strbuf b = {0};
    struct guardian_rank in = some_rank(), out;
    struct guardian_msg_head h = put(&b, &in);
    struct guardian_msg_fds fds = {.count = 2};
    char **words = NULL;
    CHECK_INT(guardian_msg_decode_rank(&out, &words, &h, b.data + sizeof h, &fds), -EMFILE);
    strbuf_free(&b);
}

TEST(a_rank_of_more_than_four_mebibytes_is_rejected)
{
    char *big = xzalloc(GUARDIAN_MSG_PAYLOAD_MAX);
    memset(big, 'x', GUARDIAN_MSG_PAYLOAD_MAX - 1);
    struct guardian_rank in = some_rank();
    in.env = (char *[]){big, NULL};
    struct strbuf b = {0};
    struct err e = {0};
    CHECK_INT(guardian_msg_encode_rank(&b, 0, &in, &e), -E2BIG);
    CHECK_HAS(e.text, "rank 7");
    CHECK_INT(b.len, 0);
    free(big);
}

static void send_with_fds(int sock, const void *bytes, size_t len, const int *fds, int n)
{
    union {
        char space[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = (void *)bytes, .iov_len = len};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    CHECK_INT(sendmsg(sock, &m, 0), len);
}

static ino_t inode(int fd)
{
    struct stat st;
    CHECK_INT(fstat(fd, &st), 0);
    return st.st_ino;
}

/* Receives the next message, with as many reads as needed. */
static void take(struct guardian_msg_buffer *in, int sock, struct guardian_msg_head *h,
                 struct guardian_msg_fds *fds)
{
    char *payload;
    int rc;
    while ((rc = guardian_msg_recv(in, h, &payload, fds)) == 0)
        CHECK_INT(guardian_msg_read(in, sock), 1);
    CHECK_INT(rc, 1);
}

TEST(descriptors_stay_with_their_message)
{
    int s[2], a[2], b[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(a) == 0 && pipe(b) == 0);
    struct strbuf m = {0};
    struct guardian_rank r = some_rank();
    put(&m, &r);
    struct guardian_msg_head clear = {.type = GUARDIAN_MSG_KILL_TREE, .job = 9};
    CHECK_INT(write(s[0], &clear, sizeof clear), sizeof clear);
    send_with_fds(s[0], m.data, m.len, (int[]){a[0], a[1], a[0]}, 3);
    CHECK_INT(write(s[0], &clear, sizeof clear), sizeof clear);
    send_with_fds(s[0], m.data, m.len, (int[]){b[0], b[1], b[0]}, 3);
    close(s[0]);

    struct guardian_msg_buffer in = {0};
    struct guardian_msg_head h;
    struct guardian_msg_fds fds;
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_KILL_TREE && h.job == 9 && fds.count == 0);
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_SPAWN && fds.count == 3 && inode(fds.fd[0]) == inode(a[0]));
    CHECK(fcntl(fds.fd[0], F_GETFD) & FD_CLOEXEC);
    guardian_msg_close_fds(&fds);
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_KILL_TREE && fds.count == 0);
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_SPAWN && fds.count == 3 && inode(fds.fd[1]) == inode(b[1]));
    guardian_msg_close_fds(&fds);
    CHECK_INT(guardian_msg_read(&in, s[1]), -ECONNRESET);
    guardian_msg_buffer_free(&in);
    strbuf_free(&m);
}

TEST(descriptors_that_could_not_be_opened_do_not_shift_the_next_ones)
{
    int s[2], a[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(a) == 0);
    struct strbuf m = {0};
    struct guardian_rank r = some_rank();
    put(&m, &r);
    for (int i = 0; i < 2; i++)
        send_with_fds(s[0], m.data, m.len, (int[]){a[0], a[1], a[0]}, 3);
    struct guardian_msg_buffer in = {0};
    struct guardian_msg_head h;
    struct guardian_msg_fds fds;
    struct rlimit old, few = {0};
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 1;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_INT(guardian_msg_read(&in, s[1]), 1);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_SPAWN && fds.count == 0);
    take(&in, s[1], &h, &fds);
    CHECK(h.type == GUARDIAN_MSG_SPAWN && fds.count == 3);
    guardian_msg_close_fds(&fds);
    guardian_msg_buffer_free(&in);
    strbuf_free(&m);
}

TEST(a_message_may_arrive_byte_by_byte)
{
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    struct guardian_msg_head sent = {.type = GUARDIAN_MSG_EXITED, .job = 1, .rank = 2, .value = 3},
                             h;
    struct guardian_msg_buffer in = {0};
    struct guardian_msg_fds fds;
    char *payload;
    CHECK_INT(guardian_msg_read(&in, s[1]), 0);
    for (size_t i = 0; i < sizeof sent; i++) {
        CHECK_INT(guardian_msg_recv(&in, &h, &payload, &fds), 0);
        CHECK_INT(write(s[0], (char *)&sent + i, 1), 1);
        CHECK_INT(guardian_msg_read(&in, s[1]), 1);
    }
    CHECK_INT(guardian_msg_recv(&in, &h, &payload, &fds), 1);
    CHECK(memcmp(&h, &sent, sizeof h) == 0);
    guardian_msg_buffer_free(&in);
}

TEST(an_unknown_type_or_a_huge_payload_is_rejected)
{
    struct guardian_msg_head bad[] = {
        {.type = 0}, {.type = 99}, {.type = 1, .payload = UINT32_MAX}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct guardian_msg_buffer in = {0};
        struct guardian_msg_head h;
        struct guardian_msg_fds fds;
        char *payload;
        strbuf_add(&in.bytes, &bad[i], sizeof bad[i]);
        CHECK_INT(guardian_msg_recv(&in, &h, &payload, &fds), -EBADMSG);
        guardian_msg_buffer_free(&in);
    }
}
