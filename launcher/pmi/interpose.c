#include "launcher/pmi/interpose.h"

#include <stdlib.h>
#include <string.h>

bool interpose_enabled(void)
{
    const char *off = getenv("DROVER_NO_INTERPOSE");
    return !off || !*off || strcmp(off, "0") == 0;
}
