/* yaml_scalar - type and value of a YAML scalar that is plain (without quotes) or has a tag; yaml.h
 * has the rules. */
#ifndef DROVER_YAML_SCALAR_H
#define DROVER_YAML_SCALAR_H

#include <jansson.h>

/* Returns a new reference: null, boolean, integer, real or string. Returns NULL and sets `*why` if
 * the text is rejected; returns NULL alone if it is not UTF-8. May modify `text` (drops
 * underscores). `*why` must be NULL before; a reason is a constant that follows the quoted text in
 * a message ("does not fit into 64 bits"). */
json_t *yaml_scalar(char *text, const char **why);

/* The same for a scalar with the tag `tag` ("tag:yaml.org,2002:float" for !!float), quoted or not:
 * int, float (which makes a real of an integer), bool, null or str. Returns NULL alone if the tag
 * is not one of these, too. */
json_t *yaml_scalar_tagged(const char *tag, char *text, const char **why);

#endif
