/* node - a value of a sweep file together with its place, for messages that say FILE:LINE:COLUMN.
 *
 * A node is a plain value; it borrows from the document. Without a document (the value came as
 * JSON) messages say the path instead. */
#ifndef DROVER_CONFIG_NODE_H
#define DROVER_CONFIG_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct yaml_doc;

struct config_node {
    const struct yaml_doc *doc; /* NULL: none */
    const json_t *value;        /* NULL: the member is missing */
    char path[512];             /* a JSON pointer; one that does not fit is cut */
};

struct config_node config_node_root(const struct yaml_doc *doc);
struct config_node config_node_of_json(const json_t *value);
/* Of what is no mapping or list, and where there is none: a node without a value. */
struct config_node config_node_member(const struct config_node *n, const char *key);
struct config_node config_node_item(const struct config_node *n, size_t i);
bool config_node_has(const struct config_node *n, const char *key);

/* The member `key` of a mapping; where it is missing *out stays.
 *   -EINVAL  it is of another type, or out of [min, max] */
int config_node_int(int *out, const struct config_node *n, const char *key, int min, int max,
                    struct err *e);
int config_node_real(double *out, const struct config_node *n, const char *key, struct err *e);
int config_node_bool(bool *out, const struct config_node *n, const char *key, struct err *e);
/* *out is a copy of the caller's; what it held before is freed. */
int config_node_text(char **out, const struct config_node *n, const char *key, struct err *e);

/* -EINVAL where the node is no mapping or has a key that is not one of `names`; `where` names the
 * mapping in the message. The hint has the nearest name. */
int config_node_only_keys(const struct config_node *n, const char *const *names, size_t count,
                          const char *where, struct err *e);

/* Describes a failure at the node's place; returns -EINVAL. */
int config_node_error(const struct config_node *n, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
