/* pmix_publish - names that ranks publish, so that other ranks of their job can look them up. These
 * are ports (MPI_Publish_name), and the data that MPI_Comm_accept and MPI_Comm_connect exchange.
 *
 * A name belongs to the namespace of the rank that published it, and is visible only in this
 * namespace. The types are PMIx's values and callbacks ("Publish/Lookup Operations" of the PMIx
 * standard 4.1). No function blocks or reads a clock; the time is an argument. */
#ifndef DROVER_PMIX_PUBLISH_H
#define DROVER_PMIX_PUBLISH_H

#include <pmix_server.h>
#include <stdint.h>

#include "common/mem.h"

struct pmix_publish;
struct pmix_publish *pmix_publish_new(void);
/* Lookups that still wait get no answer. */
void pmix_publish_free(struct pmix_publish *n);
AUTO_DEFINE(pmix_publish, struct pmix_publish *, pmix_publish_free)

/* Publishes every entry of `info` that is not a directive, and answers the lookups that waited for
 * one of them. Returns PMIX_ERR_DUPLICATE_KEY if an entry is already published; nothing is added
 * then. Returns PMIX_ERR_BAD_PARAM if a value cannot be copied; the entries before this one are
 * added. */
pmix_status_t pmix_publish_add(struct pmix_publish *n, const pmix_proc_t *owner,
                               const pmix_info_t info[], size_t info_n);
/* Removes what `owner` has published under the names in `keys`, or under all names if `keys` is
 *   NULL. Returns PMIX_ERR_NOT_FOUND if `owner` has published none of these names. */
pmix_status_t pmix_publish_remove(struct pmix_publish *n, const pmix_proc_t *owner,
                                  char *const *keys);

enum { PMIX_PUBLISH_NO_WAIT = 0 };

struct pmix_publish_lookup {
    const pmix_proc_t *requestor;
    char *const *keys;
    int64_t until_ms; /* end of the wait for all keys; PMIX_PUBLISH_NO_WAIT; INT64_MAX: no limit */
    pmix_lookup_cbfunc_t done;
    void *arg;
};

/* Looks up names. Without a wait, the answer has those names that are published, or is
 * PMIX_ERR_NOT_FOUND if none is. With a wait, the answer has all names, or is PMIX_ERR_TIMEOUT.
 * Returns true if `done` was called; otherwise `done` is called later. */
bool pmix_publish_lookup(struct pmix_publish *n, const struct pmix_publish_lookup *l);
/* Returns the value of `until_ms` for a lookup with these directives. */
int64_t pmix_publish_deadline(const pmix_info_t info[], size_t info_n, int64_t now_ms);
/* Answers the lookups whose wait has ended. Returns the time at which the next wait ends, or
 * INT64_MAX if no lookup waits. */
int64_t pmix_publish_expire(struct pmix_publish *n, int64_t now_ms);
/* Removes the names of a namespace that has ended, and answers its lookups with PMIX_ERR_NOT_FOUND.
 */
void pmix_publish_drop_namespace(struct pmix_publish *n, const char *nspace);

#endif
