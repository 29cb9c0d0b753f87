/* yaml - a YAML file as JSON values, with positions for messages.
 *
 * Mappings become objects (keys in file order, always text as written), sequences arrays. Scalars
 * in quotes or blocks are strings. Plain ones follow YAML 1.1, which sweep files are written for:
 *
 *     null ~ (nothing)         null
 *     yes No TRUE on off ...   booleans (not y and n)
 *     12 -3 1_000 0x1F         integers
 *     1.0 .5 1e-4 1.5e3        reals (1.1 takes the last two for strings; nobody means that)
 *     .inf -.inf .nan          the strings of json_number()
 *     017 0o17 0b11 12:30:45   refused: versions of YAML disagree on what they are
 *     all else                 strings
 *
 * Anchors, aliases and merge keys (<<) work; a mapping's own keys are stronger and come first. What
 * they expand to is limited: each value counts, and each KiB of its text. Refused: a key twice in a
 * mapping, keys that are no scalars, tags but !!str !!seq !!map, a second document, NUL bytes. */
#ifndef DROVER_YAML_H
#define DROVER_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { YAML_SIZE_MAX = 16 << 20, YAML_NODES_MAX = 100000, YAML_DEPTH_MAX = 64 };

struct yaml_doc;

/* Reads a text; `name` stands for it in messages (both are not needed afterwards).
 *   -EINVAL  not YAML, or something that is refused, or no document in it
 *   -E2BIG   more than the limits above
 * The message starts with NAME:LINE:COLUMN. */
int yaml_read(struct yaml_doc **out, const char *text, size_t len, const char *name, struct err *e);
/* The same for a file; also the negative errno of opening or reading it. */
int yaml_read_file(struct yaml_doc **out, const char *path, struct err *e);
void yaml_doc_free(struct yaml_doc *d); /* libyaml has taken yaml_free */
AUTO_DEFINE(yaml_doc, struct yaml_doc *, yaml_doc_free)

/* Borrowed. Parts that come from one anchor are one value: not to be changed. */
const json_t *yaml_root(const struct yaml_doc *d);

/* Describes a failure at `path`, a JSON pointer ("/parameters/lr/min", "/values/3", "" is the root;
 * ~1 is '/' and ~0 is '~' in a key): "NAME:LINE:COLUMN: " and the text. A member's place is its
 * key's. Where the path does not exist, the place is that of the last part that does. Returns
 * `code`. */
int yaml_error_at(const struct yaml_doc *d, const char *path, struct err *e, int code,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
