/* names - what ranks publish for others of their job to look up: ports (MPI_Publish_name), and what
 * the two sides of MPI_Comm_accept and MPI_Comm_connect tell each other.
 *
 * A name belongs to the namespace of who has published it, and is seen there only. PMIx's values
 * and callbacks ("Publish/Lookup Operations" of the PMIx standard 4.1); but nothing waits in here
 * and no clock is read: the time comes in. */
#ifndef DROVER_PMIX_PUBLISH_H
#define DROVER_PMIX_PUBLISH_H

#include <pmix_server.h>
#include <stdint.h>

#include "common/mem.h"

struct pmix_publish;
struct pmix_publish *pmix_publish_new(void);
/* Who still waits gets no answer. */
void pmix_publish_free(struct pmix_publish *n);
AUTO_DEFINE(pmix_publish, struct pmix_publish *, pmix_publish_free)

/* All of `info` that is not a directive, and answers who has waited for it.
 *   PMIX_ERR_DUPLICATE_KEY  one of them is published already: none was
 *   PMIX_ERR_BAD_PARAM      a value cannot be copied: those before it were */
pmix_status_t pmix_publish_add(struct pmix_publish *n, const pmix_proc_t *who,
                               const pmix_info_t info[], size_t info_n);
/* What `who` has published under these names; NULL: all.
 *   PMIX_ERR_NOT_FOUND  it has published none of them */
pmix_status_t pmix_publish_remove(struct pmix_publish *n, const pmix_proc_t *who,
                                  char *const *keys);

enum { PMIX_PUBLISH_NO_WAIT = 0 };

struct pmix_publish_lookup {
    const pmix_proc_t *who;
    char *const *keys;
    int64_t
        until_ms; /* wait for all of them until then; PMIX_PUBLISH_NO_WAIT; INT64_MAX: no limit */
    pmix_lookup_cbfunc_t done;
    void *arg;
};

/* The names that are there, PMIX_ERR_NOT_FOUND where none is; where it waits, all of them or
 * PMIX_ERR_TIMEOUT. Returns whether it has been answered, with `done`; else that follows. */
bool pmix_publish_lookup(struct pmix_publish *n, const struct pmix_publish_lookup *l);
/* What a lookup's directives say, as `until_ms`. */
int64_t pmix_publish_deadline(const pmix_info_t info[], size_t info_n, int64_t now_ms);
/* Answers who has waited long enough. Returns when the next one has; INT64_MAX: nobody waits. */
int64_t pmix_publish_expire(struct pmix_publish *n, int64_t now_ms);
/* The namespace has ended: its names go, who waits there is told PMIX_ERR_NOT_FOUND. */
void pmix_publish_drop_namespace(struct pmix_publish *n, const char *nspace);

#endif
