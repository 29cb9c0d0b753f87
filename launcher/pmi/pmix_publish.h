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

struct names;
struct names *names_new(void);
/* Who still waits gets no answer. */
void names_free(struct names *n);
AUTO_DEFINE(names, struct names *, names_free)

/* All of `info` that is not a directive, and answers who has waited for it.
 *   PMIX_ERR_DUPLICATE_KEY  one of them is published already: none was
 *   PMIX_ERR_BAD_PARAM      a value cannot be copied: those before it were */
pmix_status_t names_publish(struct names *n, const pmix_proc_t *who, const pmix_info_t info[],
                            size_t info_n);
/* What `who` has published under these names; NULL: all.
 *   PMIX_ERR_NOT_FOUND  it has published none of them */
pmix_status_t names_unpublish(struct names *n, const pmix_proc_t *who, char *const *keys);

enum { NAMES_NO_WAIT = 0 };

struct names_lookup {
    const pmix_proc_t *who;
    char *const *keys;
    int64_t until_ms; /* wait for all of them until then; NAMES_NO_WAIT; INT64_MAX: no limit */
    pmix_lookup_cbfunc_t done;
    void *arg;
};

/* The names that are there, PMIX_ERR_NOT_FOUND where none is; where it waits, all of them or
 * PMIX_ERR_TIMEOUT. Returns whether it has been answered, with `done`; else that follows. */
bool names_lookup(struct names *n, const struct names_lookup *l);
/* What a lookup's directives say, as `until_ms`. */
int64_t names_until(const pmix_info_t info[], size_t info_n, int64_t now_ms);
/* Answers who has waited long enough. Returns when the next one has; INT64_MAX: nobody waits. */
int64_t names_expire(struct names *n, int64_t now_ms);
/* The namespace has ended: its names go, who waits there is told PMIX_ERR_NOT_FOUND. */
void names_forget(struct names *n, const char *nspace);

#endif
