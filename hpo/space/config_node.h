/* config_node - a value of a sweep file with its position, for messages with FILE:LINE:COLUMN.
 *
 * A node is a plain value that borrows from the document. Without a document (the value came as
 * JSON) messages have the path instead. */
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
    char path[512];             /* a JSON pointer; cut if it does not fit */
};

struct config_node config_node_root(const struct yaml_doc *doc);
struct config_node config_node_of_json(const json_t *value);
/* The member of a mapping, or the item of a list. The node has no value if there is no such
 * member or item, or the value is of another type. */
struct config_node config_node_member(const struct config_node *n, const char *key);
struct config_node config_node_item(const struct config_node *n, size_t i);
bool config_node_has(const struct config_node *n, const char *key);

/* Reads the member `key` of a mapping. If it is missing, *out stays unchanged.
 *   -EINVAL  it has another type, or is not in [min, max] */
int config_node_int(int *out, const struct config_node *n, const char *key, int min, int max,
                    struct err *e);
int config_node_real(double *out, const struct config_node *n, const char *key, struct err *e);
int config_node_bool(bool *out, const struct config_node *n, const char *key, struct err *e);
/* *out is a copy that the caller frees; its previous value is freed. */
int config_node_text(char **out, const struct config_node *n, const char *key, struct err *e);

/*   -EINVAL  the node is not a mapping, or has a key that is not one of `names`; the hint has
 *            the nearest name
 * `where` names the mapping in the message. */
int config_node_only_keys(const struct config_node *n, const char *const *names, size_t count,
                          const char *where, struct err *e);

/* Describes a failure at the node's position; returns -EINVAL. */
int config_node_error(const struct config_node *n, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
