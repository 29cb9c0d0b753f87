#include "launcher/jobs/sqlite_loader.h"

#include <errno.h>
#include <stddef.h>

#include "common/dl.h"

static struct sqlite_loader loaded; /* mutable static data: a library is loaded once per process */

int sqlite_loader_open(struct err *e)
{
#define SYMBOL(name) {"sqlite3_" #name, offsetof(struct sqlite_loader, name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {LIBSQLITE_EACH(SYMBOL)};
#undef SYMBOL
    static const struct dl_library library = {
        .names = {"libsqlite3.so.0"}, .hint = "apt install libsqlite3-0", DL_SYMBOLS(symbols)};
    int rc = loaded.step ? 0 : dl_load(&loaded, NULL, &library, e);
    if (rc < 0)
        err_wrap(e, "SQLite");
    return rc == -ENOENT ? -ENOPKG : rc; /* -ENOENT: a missing file of the history */
}

const struct sqlite_loader *sqlite_loader(void)
{
    return &loaded;
}
