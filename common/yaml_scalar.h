/* yaml_scalar - determines type and value of a YAML scalar that is plain (without quotes) or has a
 * tag. yaml.h has the rules. */
#pragma once

#include <jansson.h>

/* Returns the value of the scalar (new reference): null, a boolean, an integer, a real or a string.
 * Returns NULL if the text is rejected or is not UTF-8. If the text is rejected, `*why`, which must
 * be NULL before the call, is set to the reason: a constant that follows the quoted text in a
 * message ("does not fit into 64 bits"). May modify `text` (removes underscores of numbers). */
json_t *yaml_scalar(char *text, const char **why);

/* The same for a scalar with a tag, quoted or not. `tag` is the tag of int, float (which converts
 * an integer to a real), bool, null or str, for example "tag:yaml.org,2002:float" for !!float. For
 * any other tag returns NULL without setting `*why`. */
json_t *yaml_scalar_tagged(const char *tag, char *text, const char **why);
