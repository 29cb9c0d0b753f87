/* config_node - a value of a sweep file and its position, so that messages can have
 * FILE:LINE:COLUMN.
 *
 * A node is a plain struct that borrows from the document. If the value came as JSON there is no
 * document, and messages have the path instead. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct yaml_doc;

struct config_node {
    const struct yaml_doc *doc; /* NULL: the value came as JSON */
    const json_t *value;        /* NULL: the member is missing */
    char path[512];             /* a JSON pointer; cut if it does not fit */
};

struct config_node config_node_root(const struct yaml_doc *doc);
struct config_node config_node_of_json(const json_t *value);
/* Return the member of a mapping, or the item of a list. The result's `value` is NULL if there is
 * no such member or item, or if `n` is not a mapping or a list. */
struct config_node config_node_member(const struct config_node *n, const char *key);
struct config_node config_node_item(const struct config_node *n, size_t i);
bool config_node_has(const struct config_node *n, const char *key);

/* Read the member `key` of a mapping. If the member is missing, `*out` stays unchanged.
 *   -EINVAL  the member has another type, or is not in [min, max] */
int config_node_int(int *out, const struct config_node *n, const char *key, int min, int max,
                    struct err *e);
int config_node_real(double *out, const struct config_node *n, const char *key, struct err *e);
int config_node_bool(bool *out, const struct config_node *n, const char *key, struct err *e);
/* The same for a string. `*out` is a copy, which the caller frees; the previous string is freed. */
int config_node_text(char **out, const struct config_node *n, const char *key, struct err *e);

/* Checks that the node is a mapping and has no keys but the `count` names.
 *   -EINVAL  the node is not a mapping, or has another key (the hint is the nearest name)
 * `where` names the mapping in the message. */
int config_node_only_keys(const struct config_node *n, const char *const *names, size_t count,
                          const char *where, struct err *e);

/* Sets the error text, with the node's position. Returns -EINVAL. */
int config_node_error(const struct config_node *n, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a hint to an error about `word`, the unknown value of `key`. The hint is "KEY: NAME" with
 * the nearest of the `count` known names, or with all names if none is near. If the node has no
 * document, the hint is written as JSON. `word` may be NULL. Returns -EINVAL. */
int config_node_hint(const struct config_node *n, struct err *e, const char *key, const char *word,
                     const char *const *names, size_t count);
