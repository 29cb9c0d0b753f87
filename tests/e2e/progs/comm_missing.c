/* comm_missing - the last rank stays away, and the others must say so in time and end.
 *
 *     comm_missing WHERE    open: it never opens a communicator (MPI's)    fence: … NCCL's
 *                           wait: it opens one and makes no call    connect, nowhere: it is there
 *                           split: likewise, and the communicator is split first
 *                           first: it is there, and connecting at the first call takes too long */
#include <drover.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tell(const struct drover *d, int rc)
{
    fprintf(stderr, "%s: %s\n", strerror(-rc), drover_error(d));
    return rc == -ETIMEDOUT ? 3 : 1;
}

int main(int argc, char **argv)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    const char *where = argc > 1 ? argv[1] : "";
    int rc = drover_init(&d);
    if (rc < 0)
        return tell(NULL, rc);
    int fence = strcmp(where, "fence") == 0, wait = strcmp(where, "wait") == 0;
    int away =
        drover_rank(d) == drover_size(d) - 1 && (fence || wait || strcmp(where, "open") == 0);
    while (away && !wait)
        pause(); /* until the launcher ends the job */
    struct drover_comm_opts o = {.backend = wait || strcmp(where, "open") == 0 ? "mpi" : "nccl",
                                 .device = -1};
    o.open_ms = wait || strcmp(where, "nowhere") == 0 ? 60000 : 700;
    if (strcmp(where, "split") == 0 || strcmp(where, "first") == 0)
        o.open_ms = 3000;
    rc = drover_comm_open(&c, d, &o);
    if (rc < 0)
        return tell(d, rc);
    while (away)
        pause();
    float x = 1;
    if (strcmp(where, "split") == 0) {
        struct drover_comm *part = NULL;
        rc = drover_comm_split(&part, c, 0, drover_rank(d));
        drover_comm_close(part);
    }
    rc = rc < 0 ? rc : drover_all_reduce(c, &x, &x, 1, DROVER_FLOAT, DROVER_SUM);
    if (rc == 0)
        rc = drover_wait(c, 500);
    int told = tell(d, rc);
    if (drover_all_reduce(c, &x, &x, 1, DROVER_FLOAT, DROVER_SUM) != -ESHUTDOWN)
        return 1;
    drover_comm_close(c);
    drover_close(d);
    return told;
}
