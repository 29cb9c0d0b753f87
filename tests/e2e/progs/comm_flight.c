/* comm_flight - eight all-reduces in a row, each of which reads what the one before it has written,
 * and one wait. */
#include <drover.h>
#include <stdio.h>

enum { CALLS = 8 };

static int fail(const struct drover *d)
{
    fprintf(stderr, "%s\n", drover_error(d));
    return 1;
}

int main(void)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    struct drover_comm_opts o = {.backend = "nccl", .device = -1};
    if (drover_init(&d) < 0 || drover_comm_open(&c, d, &o) < 0)
        return fail(d);
    int x = 1, expected = 1;
    for (int i = 0; i < CALLS; i++, expected *= drover_size(d))
        if (drover_all_reduce(c, &x, &x, 1, DROVER_INT32, DROVER_SUM) < 0)
            return fail(d);
    if (drover_wait(c, 20000) < 0)
        return fail(d);
    if (x != expected)
        fprintf(stderr, "%d instead of %d\n", x, expected);
    drover_comm_close(c);
    drover_close(d);
    return x != expected;
}
