#include "tests/conform/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* The message from `from` to `to`: n bytes that depend on sender, receiver and position. */
static void message(const struct fixture *k, int from, int to, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)values_random(k->seed + (uint64_t)(from * 64 + to), i);
}

static void check_message(struct fixture *k, int from, const char *at, size_t n, const char *what)
{
    fixture_copy_out(k, k->got, at, n);
    message(k, from, k->rank, n, k->expected);
    fixture_check(k, memcmp(k->got, k->expected, n) == 0, "%s: %zu bytes from rank %d are wrong",
                  what, n, from);
}

/* Sends to the next rank and receives from the previous one. Outside of a group, even ranks send
 * first. */
void messages_ring(struct fixture *k)
{
    enum { N = 1021 };
    int to = (k->rank + 1) % k->size, from = (k->rank - 1 + k->size) % k->size;
    message(k, k->rank, to, N, k->host);
    fixture_copy_in(k, k->in, k->host, N);
    if (k->size % 2 == 0) {
        for (int turn = 0; turn < 2; turn++) {
            bool sends = (k->rank + turn) % 2 == 0;
            fixture_must(k,
                         sends ? drover_send(k->c, k->in, N, DROVER_UINT8, to)
                               : drover_recv(k->c, k->out, N, DROVER_UINT8, from),
                         "send, receive");
        }
        fixture_wait(k, "send, receive");
        check_message(k, from, k->out, N, "a ring");
    }
    fixture_must(k, drover_group_start(k->c), "group");
    fixture_must(k, drover_recv(k->c, k->out + N, N, DROVER_INT8, from), "receive");
    fixture_must(k, drover_send(k->c, k->in, N, DROVER_INT8, to), "send");
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_wait(k, "a ring in a group");
    check_message(k, from, k->out + N, N, "a ring in a group");
}

/* Length of a message: differs between pairs of ranks; one in four is 0. */
static size_t length(const struct fixture *k, int from, int to)
{
    uint64_t random = values_random(k->seed + 77, (uint64_t)(from * 64 + to));
    return random % 4 == 0 ? 0 : random / 4 % 2000 + 1;
}

/* Every rank sends to every rank, itself included, in a random order. */
void messages_shuffled(struct fixture *k)
{
    enum { STRIDE = 2048 };
    AUTO(free) int *order = xcalloc(2 * (size_t)k->size, sizeof *order);
    for (int i = 0; i < 2 * k->size; i++) {
        int j = (int)(values_random(k->seed + (uint64_t)k->rank, (uint64_t)i) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (int to = 0; to < k->size; to++)
        message(k, k->rank, to, length(k, k->rank, to), k->host + (size_t)to * STRIDE);
    fixture_copy_in(k, k->in, k->host, (size_t)k->size * STRIDE);
    fixture_must(k, drover_group_start(k->c), "group");
    for (int i = 0; i < 2 * k->size; i++) {
        int other = order[i] % k->size;
        size_t at = (size_t)other * STRIDE;
        fixture_must(
            k,
            order[i] < k->size
                ? drover_send(k->c, k->in + at, length(k, k->rank, other), DROVER_UINT8, other)
                : drover_recv(k->c, k->out + at, length(k, other, k->rank), DROVER_UINT8, other),
            "send, receive");
    }
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_wait(k, "a group in any order");
    for (int from = 0; from < k->size; from++)
        check_message(k, from, k->out + (size_t)from * STRIDE, length(k, from, k->rank),
                      "a group in any order");
}

/* Messages in both directions at once that are longer than any buffer in between, followed by short
 * ones that must keep their order. */
void messages_long(struct fixture *k)
{
    size_t n = k->room / (size_t)k->size / 16 * 8;
    int other = k->rank ^ 1;
    if (other >= k->size)
        other = k->rank;
    message(k, k->rank, other, n, k->host);
    fixture_copy_in(k, k->in, k->host, n);
    fixture_must(k, drover_group_start(k->c), "group");
    fixture_must(k, drover_send(k->c, k->in, n / 8, DROVER_DOUBLE, other), "send");
    fixture_must(k, drover_send(k->c, k->in, 5, DROVER_UINT8, other), "send");
    fixture_must(k, drover_recv(k->c, k->out, n / 8, DROVER_DOUBLE, other), "receive");
    fixture_must(k, drover_recv(k->c, k->out + n, 5, DROVER_UINT8, other), "receive");
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_wait(k, "long messages");
    check_message(k, other, k->out, n, "a long message");
    check_message(k, other, k->out + n, 5, "the one after a long message");
}

static void fill_ints(const struct fixture *k, char *to, int32_t first, size_t n)
{
    int32_t *host = (int32_t *)(void *)k->host;
    for (size_t i = 0; i < n; i++)
        host[i] = first + (int32_t)i;
    fixture_copy_in(k, to, host, 4 * n);
}

static void check_ints(struct fixture *k, const char *at, int32_t first, int32_t step, size_t n,
                       const char *what)
{
    int32_t *got = (int32_t *)(void *)k->got;
    fixture_copy_out(k, got, at, 4 * n);
    for (size_t i = 0; i < n; i++)
        if (got[i] != first + step * (int32_t)i) {
            fixture_check(k, false, "%s: element %zu is %d, expected %d", what, i, got[i],
                          first + step * (int32_t)i);
            return;
        }
    fixture_check(k, true, "right");
}

/* Collectives and messages in one group, nested groups, and consecutive groups. */
void messages_group(struct fixture *k)
{
    enum { N = 300, BYTES = 4 * N };
    int to = (k->rank + 1) % k->size, from = (k->rank - 1 + k->size) % k->size, sum = 0;
    for (int r = 0; r < k->size; r++)
        sum += r;
    fill_ints(k, k->in, k->rank, N);
    fixture_must(k, drover_group_start(k->c), "group");
    fixture_must(k, drover_all_reduce(k->c, k->in, k->out, N, DROVER_INT32, DROVER_SUM),
                 "all_reduce");
    fixture_must(k, drover_group_start(k->c), "group");
    fixture_must(k, drover_send(k->c, k->in, N, DROVER_INT32, to), "send");
    fixture_must(k, drover_recv(k->c, k->out + BYTES, N, DROVER_INT32, from), "receive");
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_must(k, drover_broadcast(k->c, k->in, k->out + 2 * BYTES, N, DROVER_INT32, k->size - 1),
                 "broadcast");
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_must(k, drover_group_start(k->c), "group"); /* with the results of the first group */
    fixture_must(k,
                 drover_all_reduce(k->c, k->out, k->out + 3 * BYTES, N, DROVER_INT32, DROVER_MAX),
                 "all_reduce");
    fixture_must(k, drover_group_end(k->c), "group");
    fixture_must(k, drover_group_start(k->c), "group");
    fixture_must(k, drover_group_end(k->c), "an empty group");
    fixture_wait(k, "groups");
    check_ints(k, k->out, sum, k->size, N, "all_reduce in a group");
    check_ints(k, k->out + BYTES, from, 1, N, "a message in a group in a group");
    check_ints(k, k->out + 2 * BYTES, k->size - 1, 1, N, "broadcast in a group");
    check_ints(k, k->out + 3 * BYTES, sum, k->size, N, "a group after a group");
}

/* all_to_all_v with parts of different lengths; the gaps between them must not change. */
void messages_uneven(struct fixture *k)
{
    enum { STRIDE = 2048 };
    size_t size = (size_t)k->size;
    AUTO(free) size_t *numbers = xcalloc(4 * size, sizeof *numbers);
    struct drover_parts send = {numbers, numbers + size};
    struct drover_parts recv = {numbers + 2 * size, numbers + 3 * size};
    for (int r = 0; r < k->size; r++) {
        numbers[r] = length(k, k->rank, r);
        numbers[2 * k->size + r] = length(k, r, k->rank);
        numbers[k->size + r] = numbers[3 * k->size + r] = (size_t)r * STRIDE;
        message(k, k->rank, r, numbers[r], k->host + (size_t)r * STRIDE);
    }
    fixture_copy_in(k, k->in, k->host, size * STRIDE);
    memset(k->got, 0x5a, size * STRIDE);
    fixture_copy_in(k, k->out, k->got, size * STRIDE);
    fixture_must(k, drover_all_to_all_v(k->c, k->in, &send, k->out, &recv, DROVER_UINT8),
                 "all_to_all_v");
    memset(numbers, 0xff, 4 * size * sizeof *numbers); /* drover has read them already */
    fixture_wait(k, "all_to_all_v");
    for (int from = 0; from < k->size; from++) {
        size_t n = length(k, from, k->rank);
        check_message(k, from, k->out + (size_t)from * STRIDE, n, "all_to_all_v");
        char behind = 0;
        fixture_copy_out(k, &behind, k->out + (size_t)from * STRIDE + n, 1);
        fixture_check(k, behind == 0x5a, "all_to_all_v wrote between the parts");
    }
}

/* Calls are executed in the order in which they were made, without a wait in between. */
void messages_order(struct fixture *k)
{
    enum { N = 3 };
    fill_ints(k, k->in, 1, N);
    char *a = k->out, *b = k->out + 64, *c = k->out + 128;
    fixture_must(k, drover_all_reduce(k->c, k->in, a, N, DROVER_INT32, DROVER_SUM), "all_reduce");
    fixture_must(k, drover_all_reduce(k->c, a, b, N, DROVER_INT32, DROVER_SUM), "all_reduce");
    fixture_must(k, drover_broadcast(k->c, b, c, N, DROVER_INT32, 0), "broadcast");
    fixture_must(k, drover_all_reduce(k->c, c, c, N, DROVER_INT32, DROVER_AVG), "all_reduce");
    int rc = 0; /* like a program that has other work to do */
    for (long turn = 0; (rc = drover_comm_poll(k->c)) == -EINPROGRESS && turn < 2000; turn++)
        ;
    fixture_must(k, rc == -EINPROGRESS ? 0 : rc, "poll");
    fixture_wait(k, "four in a row");
    check_ints(k, c, k->size * k->size, k->size * k->size, N, "four in a row");
    fixture_must(k, drover_barrier(k->c, k->wait_ms), "barrier");
    fixture_check(k, drover_comm_poll(k->c) == 0, "a call is pending after a barrier");
}

/* The mean of the largest numbers is that number: each is divided before they are added. Of a
 * number of ranks that is no power of 2, the quotients are rounded, and their sum may overflow. */
void messages_largest_means(struct fixture *k)
{
    static const struct {
        enum drover_type type;
        uint64_t bits;
    } largest[] = {{DROVER_HALF, 0x7bff},
                   {DROVER_BFLOAT16, 0x7f7f},
                   {DROVER_FLOAT, 0x7f7fffff},
                   {DROVER_DOUBLE, 0x7fefffffffffffff}};
    for (size_t i = 0; i < COUNT_OF(largest) && (k->size & (k->size - 1)) == 0; i++) {
        uint64_t value = largest[i].bits, got = 0;
        size_t bytes = backend_type_bytes(largest[i].type);
        fixture_copy_in(k, k->in, &value, bytes);
        fixture_must(k, drover_all_reduce(k->c, k->in, k->out, 1, largest[i].type, DROVER_AVG),
                     "all_reduce");
        fixture_wait(k, "mean of the largest numbers");
        fixture_copy_out(k, &got, k->out, bytes);
        fixture_check(k, got == value, "the mean of the largest numbers is another one");
    }
}

void messages_refusals(struct fixture *k)
{
    const struct {
        int rc, expected;
        const char *what;
    } cases[] = {
        {drover_all_reduce(k->c, k->in, k->out, 1, (enum drover_type)77, DROVER_SUM), -EINVAL,
         "type"},
        {drover_all_reduce(k->c, k->in, k->out, 1, DROVER_INT8, (enum drover_op) - 1), -EINVAL,
         "op"},
        {drover_broadcast(k->c, k->in, k->out, 1, DROVER_INT8, k->size), -EINVAL, "root"},
        {drover_gather(k->c, k->in, k->out, 1, DROVER_INT8, -1), -EINVAL, "negative root"},
        {drover_send(k->c, k->in, 1, DROVER_INT8, k->size), -EINVAL, "peer"},
        {drover_send(k->c, k->in, 1, DROVER_INT8, k->rank), -EINVAL, "send to itself"},
        {drover_recv(k->c, k->out, 1, DROVER_INT8, k->rank), -EINVAL, "receive from itself"},
        {drover_all_gather(k->c, k->in, k->out, SIZE_MAX / 2, DROVER_DOUBLE), -EOVERFLOW, "size"},
        {drover_all_reduce(k->c, NULL, k->out, 1, DROVER_INT8, DROVER_SUM), -EINVAL, "no input"},
        {drover_recv(k->c, NULL, 1, DROVER_INT8, 0), -EINVAL, "no output"},
        {drover_all_reduce(k->c, NULL, NULL, 0, DROVER_INT8, DROVER_SUM), 0, "nothing to do"},
        {drover_group_end(k->c), -EINVAL, "group end without group start"},
        {drover_group_start(k->c), 0, "group"},
        {drover_wait(k->c, k->wait_ms), -EINVAL, "a wait in a group"},
        {drover_barrier(k->c, k->wait_ms), -EINVAL, "a barrier in a group"},
        {drover_group_end(k->c), 0, "group"},
        {drover_wait(k->c, 0), -EINVAL, "a wait with timeout 0"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        fixture_check(k, cases[i].rc == cases[i].expected, "%s: %d, expected %d", cases[i].what,
                      cases[i].rc, cases[i].expected);
    fixture_wait(k, "after the rejected calls");
}
