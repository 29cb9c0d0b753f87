/* Linked into drover-rank only. */
#include <errno.h>
#include <pwd.h>
#include <stddef.h>

#include "launcher/interpose/interpose.h"

int getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t size, struct passwd **out)
{
    *out = NULL;
    return ENOSYS;
}
