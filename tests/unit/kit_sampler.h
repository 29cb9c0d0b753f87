/* kit_sampler - for tests of samplers: a row of the samplers' table by its name. */
#pragma once

#include "hpo/samplers/sampler.h"
#include "tests/unit/test.h"

static inline const struct sampler_ops *kit_sampler(const char *name)
{
    const struct spec_method *m = NULL;
    for (size_t i = 0; (m = sampler_method(i)); i++)
        if (strcmp(m->name, name) == 0)
            return sampler_of(m);
    FAIL("there is no sampler '%s'", name);
    return NULL;
}
