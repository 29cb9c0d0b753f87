#include "launcher/jobs/history_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/fnv_hash.h"
#include "common/mem.h"
#include "common/python.h"

static char *in_directory(const char *path, const char *wdir)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    return path[0] == '/' || !wdir ? xstrdup(path) : xasprintf("%s/%s", wdir, path);
}

/* Names what Python runs. Returns the number of words up to this name: "python3 -u train.py" has
 * three. Returns 0 if it runs no script and no module. */
static int read_python(char **program, char *const *argv, const char *wdir)
{
    for (int i = 1; argv[i]; i++) {
        if (argv[i][0] != '-') {
            *program = in_directory(argv[i], wdir);
            return i + 1;
        }
        bool has_value = strcmp(argv[i], "-W") == 0 || strcmp(argv[i], "-X") == 0;
        if (strcmp(argv[i], "-m") == 0 && argv[i + 1]) {
            *program = xasprintf("-m %s", argv[i + 1]);
            return i + 2;
        }
        if (strcmp(argv[i], "-c") == 0 || (has_value && !argv[i + 1]))
            return 0;
        i += has_value;
    }
    return 0;
}

/* Returns the number of words of the option of the batch size at argv[0]; 0: another option. */
static int read_batch(int64_t *batch, char *const *argv)
{
    static const char *const names[] = {"--batch-size", "--batch_size", "--batch", "-b"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = strlen(names[i]);
        bool joined = strncmp(argv[0], names[i], len) == 0 && argv[0][len] == '=';
        const char *text = joined                           ? argv[0] + len + 1
                           : strcmp(argv[0], names[i]) == 0 ? argv[1]
                                                            : NULL;
        char *end = NULL;
        errno = 0;
        long long value = text ? strtoll(text, &end, 10) : 0;
        if (!text || end == text || *end || errno || value < 1)
            continue;
        *batch = value;
        return joined ? 1 : 2;
    }
    return 0;
}

void history_command_read(struct history_command *out, char *const *argv, const char *wdir)
{
    uint64_t hash = FNV_HASH_INIT;
    *out = (struct history_command){.batch = -1};
    int i = python_is_interpreter(argv[0]) ? read_python(&out->program, argv, wdir) : 0;
    if (i == 0) { /* found in PATH if it is not a path */
        out->program = strchr(argv[0], '/') ? in_directory(argv[0], wdir) : xstrdup(argv[0]);
        i = 1;
    }
    while (argv[i]) {
        int words = read_batch(&out->batch, &argv[i]);
        if (words == 0)
            hash = fnv_hash_text(hash, argv[i]);
        i += words ? words : 1;
    }
    snprintf(out->hash, sizeof out->hash, "%016" PRIx64, hash);
}

void history_command_end(struct history_command *c)
{
    free(c->program);
    *c = (struct history_command){0};
}
