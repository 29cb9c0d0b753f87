#include "launcher/hang/ras_answer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/strbuf.h"

enum { KINDS = 5 };

static const char *const kinds[KINDS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                         "AllReduce"};

/* Returns the process, which is added if it is new. */
static struct ras_process *process_of(struct ras_answer *a, int64_t pid, const char *host)
{
    for (int i = 0; i < a->count; i++)
        if (a->all[i].pid == pid && strcmp(a->all[i].host, host) == 0)
            return &a->all[i];
    a->all = xrealloc(a->all, (size_t)a->count + 1, sizeof *a->all);
    struct ras_process *p = &a->all[a->count++];
    *p = (struct ras_process){.pid = pid};
    snprintf(p->host, sizeof p->host, "%s", host);
    return p;
}

static void raise_state(struct ras_process *p, enum ras_state state)
{
    p->state = state > p->state ? state : p->state;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static int64_t counted(const json_t *rank, int kind)
{
    return json_integer_value(
        json_object_get(json_object_get(rank, "collective_counts"), kinds[kind]));
}

static bool is_set(const json_t *rank, const char *flag)
{
    const json_t *v = json_object_get(json_object_get(rank, "status"), flag);
    return json_is_true(v) || json_integer_value(v) != 0;
}

static struct ras_process *process_of_json(struct ras_answer *a, const json_t *rank)
{
    const char *host = json_string_value(json_object_get(rank, "host"));
    return process_of(a, json_integer_value(json_object_get(rank, "pid")), host ? host : "");
}

/* Returns the number of ranks with the counts of rank `one`. */
static int equals(const json_t *ranks, const json_t *one)
{
    size_t i;
    int n = 0;
    json_t *r;
    json_array_foreach (ranks, i, r) {
        bool same = true;
        for (int k = 0; k < KINDS; k++)
            same &= counted(r, k) == counted(one, k);
        n += same;
    }
    return n;
}

/* A rank that has launched the most of each kind leads; then all that have not are behind it. If
 * none leads, ranks have launched different kinds, and the fewer ones differ; of two both. */
static void compare(struct ras_answer *a, const json_t *ranks)
{
    int64_t most[KINDS] = {0};
    size_t i;
    json_t *r;
    bool leads = false;
    int largest = 0, all = (int)json_array_size(ranks);
    json_array_foreach (ranks, i, r)
        for (int k = 0; k < KINDS; k++)
            most[k] = counted(r, k) > most[k] ? counted(r, k) : most[k];
    json_array_foreach (ranks, i, r) {
        bool first = true;
        for (int k = 0; k < KINDS; k++)
            first &= counted(r, k) == most[k];
        leads |= first;
        int n = equals(ranks, r);
        largest = n > largest ? n : largest;
    }
    json_array_foreach (ranks, i, r) {
        bool behind = false;
        for (int k = 0; k < KINDS; k++)
            behind |= counted(r, k) < most[k];
        bool fewer = largest * 2 <= all || equals(ranks, r) < largest;
        if (behind && leads)
            raise_state(process_of_json(a, r), RAS_BEHIND);
        else if (behind && fewer)
            raise_state(process_of_json(a, r), RAS_OTHER_CALL);
    }
}

static void read_communicator(struct ras_answer *a, const json_t *comm)
{
    const json_t *ranks = json_object_get(comm, "ranks");
    size_t i, left = 0;
    json_t *r;
    json_array_foreach (ranks, i, r) {
        struct ras_process *p = process_of_json(a, r);
        int64_t init =
            json_integer_value(json_object_get(json_object_get(r, "status"), "init_state"));
        for (int k = 0; k < KINDS; k++)
            p->launched += counted(r, k);
        left += is_set(r, "finalize_called") || is_set(r, "destroy_flag");
        a->has_errors |=
            is_set(r, "async_error") || is_set(r, "abort_flag") || (init != 0 && init != 7);
    }
    json_array_foreach (ranks, i, r)
        if (left < json_array_size(ranks) &&
            (is_set(r, "finalize_called") || is_set(r, "destroy_flag")))
            raise_state(process_of_json(a, r), RAS_LEFT);
    compare(a, ranks);
    json_array_foreach (json_object_get(comm, "missing_ranks"), i, r)
        if (is_set(r, "unresponsive") || is_set(r, "considered_dead"))
            raise_state(process_of_json(a, r), RAS_GONE);
}

/* NCCL 2.28.7 and 2.28.9 leave out the comma after "nvml_dev" of a missing rank. Returns a copy
 * with all of them: a value that a new line with a string follows ends with a comma. */
static char *with_commas(const char *text)
{
    struct strbuf b = {0};
    char last = '\0';
    bool quoted = false;
    for (const char *p = text; *p; p++) {
        bool value_ended =
            last == '"' || last == '}' || last == ']' || isalnum((unsigned char)last);
        if (*p == '"' && !quoted && value_ended)
            strbuf_putc(&b, ',');
        if (*p == '"' && (p == text || p[-1] != '\\'))
            quoted = !quoted;
        strbuf_putc(&b, *p);
        last = isspace((unsigned char)*p) ? last : *p;
    }
    return strbuf_take(&b);
}

static void read_json(struct ras_answer *a, const char *text)
{
    AUTO(free) char *whole = with_commas(text);
    json_t *j = NULL, *comm;
    size_t i;
    if (json_parse(&j, whole, strlen(whole), NULL) < 0)
        return;
    json_array_foreach (json_object_get(j, "communicators"), i, comm)
        read_communicator(a, comm);
    json_decref(j);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* What the lines of ranks and processes under a heading mean. */
struct place {
    enum ras_state state; /* RAS_NOTHING: the counts decide */
    int64_t count, most;  /* of the ranks that follow; of the mismatch so far */
};

static void read_line(struct ras_answer *a, struct place *at, const char *line)
{
    long long count, pid;
    char host[64];
    const char *by = strstr(line, "managed by process "), *up = strstr(line, "up to operation ");
    const char *process = strncmp(line, "  Process ", 10) == 0 ? line + 10 : NULL;
    if (strstr(line, "different ") && strstr(line, " operation counts")) {
        *at = (struct place){.count = -1};
    } else if (up && sscanf(up, "up to operation %lld", &count) == 1) {
        at->count = count;
        at->most = count > at->most ? count : at->most;
    } else if (strstr(line, "not launched any operations")) {
        at->count = 0;
    } else if (strncmp(line, "DEAD", 4) == 0 || strncmp(line, "INCOMPLETE", 10) == 0) {
        *at = (struct place){.state = RAS_GONE};
    } else if (line[0] == '#' ||
               (isupper((unsigned char)line[0]) && isupper((unsigned char)line[1]))) {
        *at = (struct place){.count = -1};
        a->has_errors |= strstr(line, "ERROR") != NULL;
    } else if (process && at->state == RAS_GONE &&
               sscanf(process, "%lld on node %63s", &pid, host) == 2) {
        raise_state(process_of(a, pid, host), RAS_GONE);
    } else if (by && sscanf(by, "managed by process %lld on node %63s", &pid, host) == 2) {
        struct ras_process *p = process_of(a, pid, host);
        bool behind = at->count >= 0 && at->count < at->most;
        /* Ahead in one kind and behind in another one: another kind of call */
        bool other = p->launched > 0 && behind != (p->state == RAS_BEHIND);
        p->launched += at->count > 0 ? at->count : 0;
        if (at->state == RAS_GONE || behind)
            raise_state(p, at->state == RAS_GONE ? RAS_GONE : other ? RAS_OTHER_CALL : RAS_BEHIND);
        else if (other)
            raise_state(p, RAS_OTHER_CALL);
    }
}

void ras_answer_read(struct ras_answer *out, const char *text)
{
    *out = (struct ras_answer){0};
    const char *json = strchr(text, '{'); /* RCCL's JSON has text in front */
    struct place at = {.count = -1};
    if (json && strstr(text, "\"communicators")) {
        read_json(out, json);
        return;
    }
    for (const char *p = text; *p;) {
        char line[512];
        size_t len = strcspn(p, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), p);
        read_line(out, &at, line);
        p += len + (p[len] != '\0');
    }
}

void ras_answer_free(struct ras_answer *a)
{
    free(a->all);
    *a = (struct ras_answer){0};
}

static const struct ras_process *strongest(const struct ras_answer *a, int64_t pid)
{
    const struct ras_process *found = NULL;
    for (int i = 0; i < a->count; i++)
        if (a->all[i].pid == pid && (!found || a->all[i].state > found->state))
            found = &a->all[i];
    return found;
}

enum ras_state ras_answer_state(const struct ras_answer *earlier, const struct ras_answer *later,
                                int64_t pid)
{
    const struct ras_process *a = strongest(earlier, pid), *b = strongest(later, pid);
    return a && b && a->state == b->state && a->launched == b->launched ? b->state : RAS_NOTHING;
}
