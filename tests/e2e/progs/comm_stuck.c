/* comm_stuck - rank 2 falls out of step after five all-reduces, and the others wait for it.
 *
 *     comm_stuck HOW WAIT_MS
 *         away: it never makes the sixth call     order: it makes a barrier of it
 *         stop: it stops itself (SIGSTOP)         size: it makes it of half as many
 *         hang: it makes a receive that no rank answers
 *         exit: it exits with status 0            quit: the same, without its exit handlers */
#include <drover.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tell(const struct drover *d)
{
    fprintf(stderr, "%s\n", drover_error(d));
    return 3;
}

int main(int argc, char **argv)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    const char *how = argc > 2 ? argv[1] : "";
    int wait_ms = argc > 2 ? atoi(argv[2]) : 0, rc = 0;
    static float x[1024];
    if (drover_init(&d) < 0 || drover_comm_open(&c, d, NULL) < 0)
        return tell(d);
    for (int i = 0; i < 5 && rc == 0; i++) {
        rc = drover_all_reduce(c, x, x, 1024, DROVER_FLOAT, DROVER_SUM);
        if (rc == 0)
            rc = drover_wait(c, 30000);
    }
    int odd = drover_rank(d) == 2;
    if (odd && strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    if (odd && strcmp(how, "exit") == 0)
        exit(0);
    if (odd && strcmp(how, "quit") == 0)
        _exit(0);
    while (odd && strcmp(how, "away") == 0)
        pause();
    if (rc == 0 && odd && strcmp(how, "order") == 0)
        rc = drover_barrier(c, wait_ms);
    else if (rc == 0 && odd && strcmp(how, "hang") == 0)
        rc = drover_recv(c, x, 1, DROVER_FLOAT, 0);
    else if (rc == 0)
        rc = drover_all_reduce(c, x, x, odd && strcmp(how, "size") == 0 ? 512 : 1024, DROVER_FLOAT,
                               DROVER_SUM);
    if (rc == 0)
        rc = drover_wait(c, wait_ms);
    int told = rc < 0 ? tell(d) : 0;
    drover_comm_close(c);
    drover_close(d);
    return told;
}
