/* yaml - a YAML file as JSON values, with positions for messages.
 *
 * Mappings become objects (keys in file order, always text as written), sequences arrays. Scalars
 * in quotes or blocks are strings. Plain scalars follow YAML 1.1, which sweep files are written
 * for:
 *
 *     null ~ (nothing)         null
 *     yes No TRUE on off ...   booleans (not y and n)
 *     12 -3 1_000 0x1F         integers
 *     1.0 .5 1e-4 1.5e3        reals (in YAML 1.1 the last two are strings; users mean numbers)
 *     .inf -.inf .nan          the strings of json_number()
 *     017 0o17 0b11 12:30:45   rejected: versions of YAML disagree on their values
 *     12345e67 0012389         strings: hashes of 7 digits or more that look like numbers
 *     all else                 strings
 *
 * Anchors, aliases and merge keys (<<) are supported; a mapping's own keys take precedence over
 * merged ones and come first. The tags !!int, !!float, !!bool, !!null and !!str decide the type,
 * with or without quotes. The expanded size is limited: each value counts, and each KiB of its
 * text. Rejected: duplicate keys in a mapping, keys that are not scalars, other tags except !!seq
 * !!map, a second document, NUL bytes. */
#ifndef DROVER_YAML_H
#define DROVER_YAML_H

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { YAML_SIZE_MAX = 16 << 20, YAML_NODES_MAX = 100000, YAML_DEPTH_MAX = 64 };

struct yaml_doc;

/* Parses a text; `name` names it in messages (neither is needed afterwards). Plain scalars below
 * the root's key `text_key` are text as written, for example the words of a command; NULL: no key.
 *   -EINVAL  not YAML, a construct that is rejected, or no document
 *   -E2BIG   more than the limits above
 * The message starts with NAME:LINE:COLUMN. */
int yaml_read(struct yaml_doc **out, const char *text, size_t len, const char *name,
              const char *text_key, struct err *e);
/* Reads and parses a file. Also returns the negative errno of opening or reading it. */
int yaml_read_file(struct yaml_doc **out, const char *path, struct err *e);
void yaml_doc_free(struct yaml_doc *d); /* libyaml already defines yaml_free */
AUTO_DEFINE(yaml_doc, struct yaml_doc *, yaml_doc_free)

/* Returns the root value, borrowed. Values that come from one anchor are shared: do not modify
 * them. */
const json_t *yaml_root(const struct yaml_doc *d);

/* Describes a failure at `path`, a JSON pointer ("/parameters/lr/min", "/values/3", "" is the
 * root; ~1 is '/' and ~0 is '~' in a key): "NAME:LINE:COLUMN: " and the text. A member's position
 * is that of its key. If the path does not exist, the position is that of its last existing part.
 * Returns `code`. */
int yaml_error_at(const struct yaml_doc *d, const char *path, struct err *e, int code,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
