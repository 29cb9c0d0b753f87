/* pmix_publish - names that ranks publish for other ranks of their job to look up: ports
 * (MPI_Publish_name), and what the two sides of MPI_Comm_accept and MPI_Comm_connect exchange.
 *
 * A name belongs to the namespace of the rank that published it, and is visible there only. The
 * types are PMIx's values and callbacks ("Publish/Lookup Operations" of the PMIx standard 4.1). No
 * function waits or reads a clock: the time is an argument. */
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
 * one. PMIX_ERR_DUPLICATE_KEY  one of them is already published: none is added PMIX_ERR_BAD_PARAM
 * a value cannot be copied: the ones before it are added */
pmix_status_t pmix_publish_add(struct pmix_publish *n, const pmix_proc_t *owner,
                               const pmix_info_t info[], size_t info_n);
/* Removes what `owner` has published under these names; NULL: under all names.
 *   PMIX_ERR_NOT_FOUND  it has published none of them */
pmix_status_t pmix_publish_remove(struct pmix_publish *n, const pmix_proc_t *owner,
                                  char *const *keys);

enum { PMIX_PUBLISH_NO_WAIT = 0 };

struct pmix_publish_lookup {
    const pmix_proc_t *requestor;
    char *const *keys;
    int64_t until_ms; /* waits for all keys until then; PMIX_PUBLISH_NO_WAIT; INT64_MAX: no limit */
    pmix_lookup_cbfunc_t done;
    void *arg;
};

/* Looks up names. Without a wait the answer has the names that are published, or is
 * PMIX_ERR_NOT_FOUND. With a wait it has all of them, or is PMIX_ERR_TIMEOUT. Returns true if
 * `done` was called; else it follows. */
bool pmix_publish_lookup(struct pmix_publish *n, const struct pmix_publish_lookup *l);
/* Returns `until_ms` of a lookup with these directives. */
int64_t pmix_publish_deadline(const pmix_info_t info[], size_t info_n, int64_t now_ms);
/* Answers the lookups that have waited long enough. Returns when the next one has; INT64_MAX: none
 * waits. */
int64_t pmix_publish_expire(struct pmix_publish *n, int64_t now_ms);
/* Removes the names of a namespace that has ended, and answers its lookups with PMIX_ERR_NOT_FOUND.
 */
void pmix_publish_drop_namespace(struct pmix_publish *n, const char *nspace);

#endif
