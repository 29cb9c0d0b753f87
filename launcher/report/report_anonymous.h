/* report_anonymous - removes from texts what names machines, people and places: host names, user
 * names, paths, and addresses. Pure.
 *
 * Names are known or recognised by their form. The same name has the same replacement in the whole
 * report: "host-1", "path-3". A path is one that begins with '/', '~', './' or '../', or one
 * with a '/' whose last part has an ending. */
#pragma once

#include <jansson.h>

#include "common/mem.h"

struct report_anonymous;

struct report_anonymous *report_anonymous_new(void);
void report_anonymous_free(struct report_anonymous *a);
AUTO_DEFINE(report_anonymous, struct report_anonymous *, report_anonymous_free)

/* Adds a name that is replaced wherever it stands as a word: of a host or of a user. A host also
 * has its short name. NULL, single characters and "root" are ignored. */
void report_anonymous_host(struct report_anonymous *a, const char *name);
void report_anonymous_user(struct report_anonymous *a, const char *name);

/* Returns the text without names, which the caller frees. `a` NULL: names stay. Secrets
 * (redact_text()) are removed in both cases. */
char *report_anonymous_text(struct report_anonymous *a, const char *text);
/* Replaces every string in the value in the same way; keys stay. Returns a new reference. */
json_t *report_anonymous_json(struct report_anonymous *a, json_t *value);
