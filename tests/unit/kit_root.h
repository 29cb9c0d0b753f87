/* kit_root - a tree of files that replaces /proc and /sys. */
#pragma once

#include <sys/stat.h>

#include "common/mem.h"
#include "tests/unit/test.h"

/* Writes ROOT/PATH, with its directories. */
static inline void put(const char *root, const char *path, const char *text)
{
    AUTO(free) char *file = xasprintf("%s/%s", root, path);
    for (char *p = file + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        CHECK(mkdir(file, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
    AUTO(file) FILE *f = fopen(file, "w");
    CHECK(f && fputs(text, f) >= 0);
}

static inline char *new_root(void)
{
    static char root[64];
    snprintf(root, sizeof root, "/tmp/drover-test-XXXXXX");
    CHECK(mkdtemp(root));
    return root;
}

static inline void remove_root(const char *root)
{
    AUTO(free) char *command = xasprintf("rm -r '%s'", root);
    CHECK_INT(system(command), 0);
}
