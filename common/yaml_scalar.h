/* yaml_scalar - what a plain scalar (one without quotes) of a YAML file is; the rules are in
 * yaml.h.
 */
#ifndef DROVER_YAML_SCALAR_H
#define DROVER_YAML_SCALAR_H

#include <jansson.h>

/* A new reference: null, boolean, integer, real or string. NULL with `*why` set where the text is
 * refused, NULL alone where it is not UTF-8. May write into `text` (drops underscores); `*why` is
 * NULL before, and "does not fit into ..." or the like afterwards: a constant that follows the
 * quoted text in a message. */
json_t *yaml_scalar(char *text, const char **why);

#endif
