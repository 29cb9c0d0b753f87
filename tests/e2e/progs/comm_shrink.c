/* comm_shrink - the last rank makes no call, the others give up waiting for it and go on without.
 *
 *     comm_shrink BACKEND FIFO      the last rank ends when rank 0 writes to the FIFO */
#include <drover.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const struct drover *d, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, drover_error(d));
    return 1;
}

/* Device memory is the host's in the stand-in for NCCL, so any will do. */
static int sum(struct drover_comm *c, int *x, int64_t wait_ms)
{
    int rc = drover_all_reduce(c, x, x, 1, DROVER_INT32, DROVER_SUM);
    return rc < 0 ? rc : drover_wait(c, wait_ms);
}

int main(int argc, char **argv)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL, *left = NULL;
    struct drover_comm_opts o = {.backend = argv[1], .device = -1};
    if (argc < 3 || drover_init(&d) < 0 || drover_comm_open(&c, d, &o) < 0)
        return fail(d, "open");
    int rank = drover_rank(d), last = drover_size(d) - 1, x = 1;
    if (sum(c, &x, 20000) < 0 || x != drover_size(d))
        return fail(d, "all_reduce of all");
    if (rank == last) {
        char byte = 0;
        return read(open(argv[2], O_RDONLY), &byte, 1) == 1 ? 0 : 1;
    }
    int given_up = rank; /* MPI may write to it for as long as it lives */
    if (sum(c, &given_up, 300) != -ETIMEDOUT)
        return fail(d, "all_reduce without the last rank");
    const char *why = strstr(drover_error(d), "not complete after 300 ms");
    char text[32];
    snprintf(text, sizeof text, "%.25s", why ? why : "?");
    if (drover_comm_shrink(&left, c, &last, 1) < 0)
        return fail(d, "shrink");
    drover_comm_close(c);
    x = rank;
    if (sum(left, &x, 20000) < 0)
        return fail(d, "all_reduce of those left");
    printf("%s; then %d ranks, and their sum is %d\n", text, drover_comm_size(left), x);
    drover_comm_close(left);
    drover_close(d);
    return rank == 0 && write(open(argv[2], O_WRONLY), "x", 1) != 1;
}
