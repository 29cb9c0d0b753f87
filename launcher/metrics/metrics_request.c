#include "launcher/metrics/metrics_request.h"

#include <string.h>

static struct metrics_request answer(int status, bool head)
{
    static const struct {
        int status;
        const char *reason, *text;
    } rows[] = {
        {200, "OK", NULL},
        {400, "Bad Request", "drover: this is not a request of HTTP/1\n"},
        {404, "Not Found", "drover: not found; try: /metrics\n"},
        {405, "Method Not Allowed", "drover: only GET is allowed\n"},
        {431, "Request Header Fields Too Large", "drover: the header lines are too long\n"},
    };
    size_t i = 0;
    while (rows[i].status != status)
        i++;
    return (struct metrics_request){status, rows[i].reason, rows[i].text, head};
}

/* Returns the length of the word at the beginning of [at, end), or 0 if no blank follows it. */
static size_t word_length(const char *at, const char *end)
{
    const char *blank = memchr(at, ' ', (size_t)(end - at));
    return blank ? (size_t)(blank - at) : 0;
}

static bool is_word(const char *word, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(word, wanted, len) == 0;
}

/* Reads "GET /metrics?x HTTP/1.1". */
static struct metrics_request read_line(const char *line, const char *end)
{
    static const char version[] = "HTTP/1.";
    size_t method = word_length(line, end);
    const char *path = line + method + 1;
    size_t len = method ? word_length(path, end) : 0;
    const char *tail = path + len + 1;
    bool head = is_word(line, method, "HEAD");
    if (!len || end - tail != sizeof version || memcmp(tail, version, sizeof version - 1) != 0)
        return answer(400, head);
    const char *query = memchr(path, '?', len);
    if (!is_word(path, query ? (size_t)(query - path) : len, "/metrics"))
        return answer(404, head);
    return answer(is_word(line, method, "GET") ? 200 : 405, head);
}

struct metrics_request metrics_request_read(const char *bytes, size_t len)
{
    const char *end = memchr(bytes, '\n', len);
    /* What is not HTTP, such as the greeting of TLS, may never send a line. */
    if (len && (bytes[0] < 'A' || bytes[0] > 'Z'))
        return answer(400, false);
    struct metrics_request r = {0};
    if (end)
        r = read_line(bytes, end > bytes && end[-1] == '\r' ? end - 1 : end);
    if (r.status == 400 || (end && (memmem(end, (size_t)(bytes + len - end), "\n\r\n", 3) ||
                                    memmem(end, (size_t)(bytes + len - end), "\n\n", 2))))
        return r;
    return len < METRICS_REQUEST_BYTES_MAX ? (struct metrics_request){0} : answer(431, r.head);
}
