#include "launcher/plan/hostfile.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/file.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "launcher/node/netif.h"

enum { FILE_MAX = 16 << 20 };
#define BLANKS " \t\n\v\f\r"

/* ---- names ---------------------------------------------------------------------------------- */

/* Reads "c01", "c01:4", "[::1]", "[::1]:4", "::1" or "me@c01". Sets `*name` to the name without
 * brackets, and `*count` to the number of slots (0: not given). */
static int read_host(char **name, int *count, const char *text, size_t len, struct err *e)
{
    AUTO(free) char *word = xstrndup(text, len);
    char *at = word, *colon = strrchr(word, ':'), *close = NULL;
    if (word[0] == '[') {
        at++;
        close = strchr(word, ']');
        if (!close || (close[1] != ':' && close[1] != '\0'))
            return err_set(e, -EINVAL, "'%s': '[' without ']'", word);
        colon = close[1] ? close + 1 : NULL;
        *close = '\0';
    } else if (colon && strchr(word, ':') != colon) {
        colon = NULL; /* an IPv6 address */
    }
    if (colon)
        *colon = '\0';
    *count = 0;
    if (hosts_check_name(at, e) < 0)
        return -EINVAL;
    if (colon && opt_int(count, "slots", colon + 1, 1, HOSTS_SLOTS_MAX, e) < 0) {
        err_set(e, -EINVAL, "'%.*s': slots must be 1 to %d", (int)len, text, HOSTS_SLOTS_MAX);
        return -EINVAL;
    }
    *name = xstrdup(at);
    return 0;
}

/* ---- host files ----------------------------------------------------------------------------- */

/* Keys of Open MPI (hostfile_lex.l of 4.1) and hydra (user). */
enum key { KEY_SLOTS, KEY_MAX_SLOTS, KEY_PORT, KEY_USER, KEYS };
static const struct {
    const char *word;
    enum key key;
} keys[] = {
    {"slots", KEY_SLOTS},         {"count", KEY_SLOTS},         {"cpu", KEY_SLOTS},
    {"max_slots", KEY_MAX_SLOTS}, {"max-slots", KEY_MAX_SLOTS}, {"slots_max", KEY_MAX_SLOTS},
    {"slots-max", KEY_MAX_SLOTS}, {"max_count", KEY_MAX_SLOTS}, {"port", KEY_PORT},
    {"user", KEY_USER},           {"username", KEY_USER},       {"user-name", KEY_USER},
    {"user_name", KEY_USER}};

/* The settings in one line, which are those of its host. */
struct settings {
    int number[KEYS]; /* 0: not given */
    char *user;
};

static int reject_key(const char *word, struct err *e)
{
    const char *names[COUNT_OF(keys)];
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        names[i] = keys[i].word;
    const char *near = opt_suggest(word, names, COUNT_OF(keys));
    err_set(e, -EINVAL, "unknown key '%s'", word);
    (void)err_hint(e, near ? "%s=N" : "slots=N, max_slots=N, port=N or user=NAME", near);
    return -EINVAL;
}

static int set_value(struct settings *out, const char *word, enum key key, const char *value,
                     struct err *e)
{
    if (out->number[key] || (key == KEY_USER && out->user))
        return err_set(e, -EINVAL, "'%s' is given twice", word);
    if (key != KEY_USER)
        return opt_int(&out->number[key], word, value, 1, key == KEY_PORT ? 65535 : HOSTS_SLOTS_MAX,
                       e);
    if (hosts_check_name(value, NULL) < 0 || strchr(value, '@'))
        return err_set(e, -EINVAL, "invalid user name '%s'", value);
    out->user = xstrdup(value);
    return 0;
}

/* Reads one setting such as "slots=4" or "max_slots = 8". On success, moves past it. */
static int read_setting(const char **at, struct settings *out, struct err *e)
{
    size_t k = 0, len = strcspn(*at, BLANKS "=");
    AUTO(free) char *word = xstrndup(*at, len);
    while (k < COUNT_OF(keys) && strcmp(keys[k].word, word) != 0)
        k++;
    if (k == COUNT_OF(keys))
        return reject_key(word, e);
    const char *value = *at + len + strspn(*at + len, BLANKS);
    if (*value++ != '=')
        return err_set(e, -EINVAL, "'%s': '=' and a value are missing", word);
    value += strspn(value, BLANKS);
    AUTO(free) char *text = xstrndup(value, strcspn(value, BLANKS));
    if (set_value(out, word, keys[k].key, text, e) < 0)
        return -EINVAL;
    *at = value + strlen(text);
    return 0;
}

/* Adds a host of a file, by mpirun's rules. A name alone adds one slot per line; but if it occurs
 * only once, the number of slots is not given. Slots of a host may be given only once. */
static int add_line(struct hosts *h, const char *name, const struct settings *of, struct err *e)
{
    int slots = of->number[KEY_SLOTS], max_slots = of->number[KEY_MAX_SLOTS];
    struct host *known = hosts_find(h, name);
    if (max_slots && max_slots < slots)
        return err_set(e, -EINVAL, "'%s': %d slots exceed max_slots=%d", name, slots, max_slots);
    if (known && slots)
        return err_set(e, -EINVAL, "'%s' is listed a second time, with slots", name);
    if (known)
        slots = known->slots ? 1 : 2;
    int rc = hosts_try_add(h, name, slots, max_slots, e);
    if (rc < 0)
        return rc;
    if (of->number[KEY_PORT])
        hosts_find(h, name)->port = of->number[KEY_PORT];
    return 0;
}

/* `*at` is the position of an error. */
static int read_line(struct hosts *h, const char *line, const char **at, struct err *e)
{
    const char *word = *at = line + strspn(line, BLANKS);
    size_t len = strcspn(word, BLANKS);
    struct settings of = {0};
    AUTO(free) char *host = NULL, *name = NULL;
    if (len == 0)
        return 0;
    if (read_host(&host, &of.number[KEY_SLOTS], word, len, e) < 0)
        return -EINVAL;
    int rc = 0;
    for (*at += len; rc == 0 && *(*at += strspn(*at, BLANKS));)
        rc = read_setting(at, &of, e);
    AUTO(free) char *user = of.user;
    if (rc < 0)
        return rc;
    *at = word;
    if (user && strchr(host, '@'))
        return err_set(e, -EINVAL, "'%s': its user is given twice", host);
    name = user ? xasprintf("%s@%s", user, host) : TAKE(host);
    return add_line(h, name, &of, e);
}

const char *hostfile_after_mark(const char *text)
{
    return text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
}

int hostfile_parse(struct hosts **out, const char *what, const char *text, struct err *e)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    AUTO(free) char *copy = xstrdup(hostfile_after_mark(text));
    int n = 1;
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")); n++) {
        const char *at;
        line[strcspn(line, "#")] = '\0';
        int rc = read_line(h, line, &at, e);
        if (rc < 0) {
            (void)err_wrap(e, "%s:%d:%d", what, n, (int)(at - line) + 1);
            return rc;
        }
    }
    if (h->count == 0) {
        err_set(e, -EINVAL, "host file '%s': no host is listed", what);
        (void)err_hint(e, "one line per host: c01 slots=8");
        return -EINVAL;
    }
    *out = TAKE(h);
    return 0;
}

int hostfile_text(char **out, const char *path, struct err *e)
{
    bool is_stdin = strcmp(path, "-") == 0;
    AUTO(strbuf) struct strbuf b = {0};
    int rc = is_stdin ? file_read_fd(&b, STDIN_FILENO, FILE_MAX) : file_read(&b, path, FILE_MAX);
    if (rc == -EFBIG)
        return err_set(e, rc, "host file '%s': larger than 16 MiB", path);
    if (rc < 0)
        return err_set(e, rc, "host file '%s': %s", path, strerror(-rc));
    *out = strbuf_take(&b); /* ends at a NUL: text files have none */
    return 0;
}

int hostfile_read(struct hosts **out, const char *path, struct err *e)
{
    AUTO(free) char *text = NULL;
    int rc = hostfile_text(&text, path, e);
    return rc < 0 ? rc : hostfile_parse(out, path, text, e);
}

/* ---- -H ------------------------------------------------------------------------------------- */

int hostfile_list(struct hosts *h, const char *list, struct err *e)
{
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ",");
        AUTO(free) char *name = NULL;
        int slots = 0;
        int rc = read_host(&name, &slots, p, len, e);
        if (rc == 0)
            rc = hosts_try_add(h, name, slots ? slots : 1, 0, e);
        if (rc < 0) {
            (void)err_wrap(e, "hosts '%s'", list);
            return rc;
        }
        p += len;
        if (!*p)
            return 0;
    }
}

int hostfile_filter(struct hosts **out, const struct hosts *all, const struct hosts *some,
                    struct err *e)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    for (int i = 0; i < some->count; i++) {
        const struct host *wanted = &some->at[i], *has = hosts_find(all, wanted->name);
        for (int k = 0; !has && wanted->here && k < all->count; k++)
            /* This machine may be listed under another name */
            has = all->at[k].here ? &all->at[k] : NULL;
        if (!has) {
            err_set(e, -EINVAL, "host '%s' is not in the host file", wanted->name);
            (void)err_hint(e, "add it there, or omit --hostfile");
            return -EINVAL;
        }
        /* "-H c01" without a count means the slots of the file. */
        bool fewer = wanted->slots > 1 && (has->slots == 0 || wanted->slots < has->slots);
        hosts_add(h, has->name, fewer ? wanted->slots : has->slots, has->max_slots);
        h->at[h->count - 1].here = has->here;
        h->at[h->count - 1].port = has->port;
    }
    *out = TAKE(h);
    return 0;
}

/* ---- this machine --------------------------------------------------------------------------- */

static bool is_own_name(const char *name)
{
    char own[HOST_NAME_MAX + 1] = "";
    if (strcasecmp(name, "localhost") == 0)
        return true;
    if (gethostname(own, sizeof own - 1) < 0 || !own[0])
        return false;
    if (strcasecmp(name, own) == 0)
        return true;
    /* "c01" and "c01.cluster" are the same machine; "c01.a" and "c01.b" are not. */
    size_t own_len = strcspn(own, "."), name_len = strcspn(name, ".");
    return own_len == name_len && (!own[own_len] || !name[name_len]) &&
           strncasecmp(own, name, own_len) == 0;
}

/* Returns the address that a line of /etc/hosts ("10.0.0.1 c01.cluster c01") gives to `name`, or
 * NULL if the line does not have `name`. Modifies the line. */
static const char *address_in(char *line, const char *name)
{
    char *save = NULL;
    line[strcspn(line, "#\n")] = '\0';
    const char *address = strtok_r(line, " \t", &save);
    for (const char *word; address && (word = strtok_r(NULL, " \t", &save));)
        if (strcasecmp(word, name) == 0)
            return address;
    return NULL;
}

static bool is_own_address(const char *address)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = NULL;
    char text[INET6_ADDRSTRLEN] = "";
    if (getaddrinfo(address, NULL, &hints, &found) != 0)
        return false;
    const void *a = found->ai_addr;
    inet_ntop(found->ai_family,
              found->ai_family == AF_INET
                  ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                  : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr,
              text, sizeof text);
    freeaddrinfo(found);
    AUTO(free) char *interface = netif_by_address(text, NULL);
    return interface || strncmp(text, "127.", 4) == 0;
}

bool hostfile_is_here(const char *name)
{
    if (is_own_name(name) || is_own_address(name))
        return true;
    AUTO(free) char *text = file_text("/etc/hosts");
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        const char *address = address_in(line, name);
        if (address)
            return is_own_address(address);
    }
    return false;
}

void hostfile_mark_here(struct hosts *h)
{
    int first = -1, n = 0;
    for (int i = 0; i < h->count; i++) {
        struct host *host = &h->at[i];
        host->here = host->here || hostfile_is_here(host->name);
        if (host->here && first >= 0) {
            h->at[first].slots += host->slots;
            h->at[first].max_slots += host->max_slots;
            free(host->name);
            continue;
        }
        if (host->here)
            first = n;
        h->at[n++] = *host;
    }
    h->count = n;
}

/* ---- rank files ----------------------------------------------------------------------------- */

enum { RANKS_MAX = 1 << 20, WORDS = 5 };

void hostfile_free_ranks(struct rankfile *f)
{
    for (int i = 0; f && i < f->count; i++) {
        free((char *)f->locations[i].host);
        free((char *)f->locations[i].slots);
    }
    if (f) {
        free(f->locations);
        hosts_free(f->hosts);
    }
    free(f);
}

/* Returns the host's name. "+n2" means the third known host; any other name is returned
 * unchanged. */
static const char *find_host(const char *name, const struct hosts *known, struct err *e)
{
    int n = 0;
    if (name[0] != '+')
        return name;
    if (!known) {
        err_set(e, -EINVAL, "'%s': the job has no host list", name);
        err_hint(e, "--hostfile FILE or -H LIST, or the host's name in the rank file");
        return NULL;
    }
    if ((name[1] != 'n' && name[1] != 'N') ||
        opt_int(&n, name, name + 2, 0, known->count - 1, e) < 0) {
        err_set(e, -EINVAL, "'%s': must be +n0 to +n%d", name, known->count - 1);
        return NULL;
    }
    return known->at[n].name;
}

/* Makes room for rank `n`. */
static void grow(struct rankfile *f, int n)
{
    if (n < f->count)
        return;
    f->locations = xrealloc(f->locations, (size_t)n + 1, sizeof *f->locations);
    memset(f->locations + f->count, 0, (size_t)(n + 1 - f->count) * sizeof *f->locations);
    f->count = n + 1;
}

/* Reads a line such as "rank 0=c01 slot=1:0-2". Blanks and '=' separate the words. */
static int read_rank(struct rankfile *f, char *line, const struct hosts *known, struct err *e)
{
    char *words[WORDS + 1] = {NULL}, *save = NULL;
    int n = 0, rank = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *w = strtok_r(line, " \t\r=", &save); w && n <= WORDS;
         w = strtok_r(NULL, " \t\r=", &save))
        words[n++] = w;
    if (n == 0)
        return 0;
    bool slots = n == WORDS && (strcmp(words[3], "slot") == 0 || strcmp(words[3], "slots") == 0);
    if (strcmp(words[0], "rank") != 0 || (n != 3 && !slots))
        return err_set(e, -EINVAL, "not in the form 'rank N=HOST slot=CPUS'");
    if (opt_int(&rank, "rank", words[1], 0, RANKS_MAX - 1, e) < 0)
        return -EINVAL;
    const char *host = find_host(words[2], known, e);
    if (!host)
        return -EINVAL;
    grow(f, rank);
    if (f->locations[rank].host)
        return err_set(e, -EINVAL, "rank %d occurs twice", rank);
    f->locations[rank].host = xstrdup(host);
    f->locations[rank].slots = slots ? xstrdup(words[4]) : NULL;
    return hostfile_list(f->hosts, host, e);
}

int hostfile_parse_ranks(struct rankfile **out, const char *what, const char *text,
                         const struct hosts *known, struct err *e)
{
    AUTO(rankfile) struct rankfile *f = xzalloc(sizeof *f);
    AUTO(free) char *copy = xstrdup(hostfile_after_mark(text));
    int n = 1;
    f->hosts = xzalloc(sizeof *f->hosts);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")); n++)
        if (read_rank(f, line, known, e) < 0) {
            err_wrap(e, "%s:%d", what, n);
            return -EINVAL;
        }
    for (int i = 0; i < f->count; i++)
        if (!f->locations[i].host)
            return err_set(e, -EINVAL, "%s: rank %d is missing", what, i);
    if (f->count == 0)
        return err_set(e, -EINVAL, "%s: no rank is listed", what);
    *out = TAKE(f);
    return 0;
}

int hostfile_read_ranks(struct rankfile **out, const char *path, const struct hosts *known,
                        struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, FILE_TEXT_MAX);
    if (rc < 0)
        return err_set(e, rc, "rank file '%s': %s", path, strerror(-rc));
    rc = hostfile_parse_ranks(out, path, strbuf_str(&text), known, e);
    for (int i = 0; rc == 0 && i < (*out)->count; i++)
        (*out)->locations[i].here = hostfile_is_here((*out)->locations[i].host);
    return rc;
}
