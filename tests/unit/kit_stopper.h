/* kit_stopper - for tests of stoppers: a stopper from the value of `early_terminate`. */
#pragma once

#include "common/json.h"
#include "hpo/stoppers/stopper.h"
#include "tests/unit/test.h"

/* `text`: JSON with ' for ". */
static inline struct stopper *kit_stopper(const char *text)
{
    AUTO(free) char *copy = xstrdup(text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    AUTO(json) json_t *v = json_loads(copy, 0, NULL);
    struct config_node n = config_node_of_json(v);
    struct stopper *s = NULL;
    struct err e = {0};
    if (stopper_new(&s, &n, NULL, &e) < 0)
        FAIL("%s: %s", text, e.text);
    return s;
}
