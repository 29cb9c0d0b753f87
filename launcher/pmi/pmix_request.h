/* pmix_request - a request that libpmix makes on behalf of ranks and that the exchange answers: a
 * fence, the data of a rank on another node, a name, a group.
 *
 * A request is made on libpmix's thread, waits on the loop, and is answered on libpmix's thread. */
#pragma once

#include <pmix_server.h>

#include "common/mem.h"
#include "launcher/tree/exchange.h"

/* How libpmix gets the answer. */
enum pmix_answer {
    PMIX_ANSWER_NONE,
    PMIX_ANSWER_DATA, /* a fence, the data of a rank */
    PMIX_ANSWER_STATUS,
    PMIX_ANSWER_NAMES, /* a lookup */
    PMIX_ANSWER_GROUP
};

union pmix_done {
    pmix_modex_cbfunc_t data;
    pmix_op_cbfunc_t status;
    pmix_lookup_cbfunc_t names;
    pmix_info_cbfunc_t group;
};

struct pmix_request {
    struct pmix_request *next; /* for the owner */
    void *owner;
    struct exchange_message m; /* points to what follows */
    int32_t *ranks;
    char **keys; /* strv */
    char *data;
    struct pmix_request *then; /* a publication of the same call, which fails if this one fails */
    enum pmix_answer answer;
    union pmix_done done;
    void *arg;          /* of `done` */
    pmix_proc_t *procs; /* of a group: as libpmix gave them */
    size_t proc_count;
    /* the answer */
    pmix_status_t status;
    uint64_t id;
    char *answer_data;
    size_t answer_len;
};

struct pmix_request *pmix_request_new(enum exchange_type type);
void pmix_request_free(struct pmix_request *q);
AUTO_DEFINE(pmix_request, struct pmix_request *, pmix_request_free)

/* Sets the participants of a fence. Returns false if one of them is not of the same namespace as
 * the first. */
bool pmix_request_set_procs(struct pmix_request *q, const pmix_proc_t procs[], size_t n);
/* Sets the data. Takes `data`, which is from malloc(), or NULL. */
void pmix_request_take_data(struct pmix_request *q, char *data, size_t len);
void pmix_request_add_key(struct pmix_request *q, const char *key);
/* Sets how long a lookup with these directives waits. */
void pmix_request_set_wait(struct pmix_request *q, const pmix_info_t info[], size_t n);
/* Makes a publication of a value.
 *   -EINVAL  libpmix cannot encode the value */
int pmix_request_publish(struct pmix_request **out, const pmix_proc_t *owner, const char *key,
                         const pmix_value_t *value, bool once);

/* Returns true if `m` is the answer to the request. Of several equal fences, the oldest is
 * meant. */
bool pmix_request_is_answered_by(const struct pmix_request *q, const struct exchange_message *m);
/* Copies the answer. A status that an earlier publication has set stays. */
void pmix_request_set_answer(struct pmix_request *q, const struct exchange_message *m);
/* Calls `done` with the answer and frees the request. Only on libpmix's thread. */
void pmix_request_finish(struct pmix_request *q);
