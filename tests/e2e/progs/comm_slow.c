/* comm_slow - all-reduces until the file END exists; rank 2 needs more time before each one until
 * the file FOUND exists, and the others wait for it.
 *
 *     comm_slow FOUND END */
#include <drover.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    float end[1] = {0};
    int rc = argc > 2 ? drover_init(&d) : -1;
    if (rc == 0)
        rc = drover_comm_open(&c, d, NULL);
    while (rc == 0 && end[0] == 0) {
        int slow = drover_rank(d) == 2 && access(argv[1], F_OK) != 0;
        usleep(slow ? 40000 : 20000);
        end[0] = access(argv[2], F_OK) == 0;
        rc = drover_all_reduce(c, end, end, 1, DROVER_FLOAT, DROVER_MAX);
        if (rc == 0)
            rc = drover_wait(c, 30000);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", drover_error(d));
    drover_comm_close(c);
    drover_close(d);
    return rc < 0;
}
