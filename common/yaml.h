/* yaml - a YAML file as JSON values, with positions for messages.
 *
 * Mappings become objects; their keys are in file order and are always strings, as written.
 * Sequences become arrays. Scalars in quotes or blocks are strings. Other scalars follow YAML 1.1,
 * since sweep files are written for it:
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
 * Anchors, aliases and merge keys (<<) are supported. A mapping's own keys take precedence over
 * merged ones and come last; a merged key with an own value keeps its place, as in PyYAML. The tags
 * !!int, !!float, !!bool, !!null and !!str determine the type of a scalar, with or without quotes.
 * YAML_NODES_MAX limits the size after all aliases are expanded: each value counts as one node, and
 * each KiB of text as one more. These are rejected: duplicate keys in a mapping, keys that are not
 * scalars, other tags except !!seq !!map, a second document, NUL bytes. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { YAML_SIZE_MAX = 16 << 20, YAML_NODES_MAX = 100000, YAML_DEPTH_MAX = 64 };

struct yaml_doc;

/* Parses `text`; `name` is its name in messages. The document keeps neither of them. Plain scalars
 * in the value of the root's key `text_key` become strings as written, for example the words of a
 * command. `text_key` may be NULL.
 *   -EINVAL  the text is not YAML, is empty, or contains a rejected construct
 *   -E2BIG   the text exceeds one of the limits above
 * The message starts with NAME:LINE:COLUMN. */
int yaml_read(struct yaml_doc **out, const char *text, size_t len, const char *name,
              const char *text_key, struct err *e);
/* Reads and parses a file, without a `text_key`. Also returns a negative errno if the file cannot
 * be opened or read. */
int yaml_read_file(struct yaml_doc **out, const char *path, struct err *e);
void yaml_doc_free(struct yaml_doc *d); /* libyaml already defines yaml_free */
AUTO_DEFINE(yaml_doc, struct yaml_doc *, yaml_doc_free)

/* Returns the root value, borrowed. Do not modify the values: an anchor and its aliases share
 * them. */
const json_t *yaml_root(const struct yaml_doc *d);

/* Sets the error text to "NAME:LINE:COLUMN: ", the position of `path`, and the formatted text.
 * `path` is a JSON pointer: "/parameters/lr/min", "/values/3"; "" is the root; in a key, ~1 is '/'
 * and ~0 is '~'. A member's position is that of its key. If the path does not exist, the position
 * is that of its last existing part. Returns `code`. */
int yaml_error_at(const struct yaml_doc *d, const char *path, struct err *e, int code,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
