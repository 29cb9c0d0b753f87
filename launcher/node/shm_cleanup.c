#include "launcher/node/shm_cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"

AUTO_DEFINE(dir, DIR *, closedir)

/* Returns Jenkins' "one at a time" hash of the name with bit 15 clear (OPAL_HASH_JOBID in Open MPI
 * 4's opal/mca/pmix/pmix.h). */
static uint32_t job_number(const char *nspace)
{
    uint32_t h = 0;
    for (const char *c = nspace; *c; c++) {
        h += (uint32_t)*c;
        h += h << 10;
        h ^= h >> 6;
    }
    h += h << 3;
    h ^= h >> 11;
    h += h << 15;
    return h & ~0x8000U;
}

bool shm_cleanup_is_of(const char *file, const char *nspace)
{
    static const char *const kinds[] = {"vader_segment.", "osc_sm.", "osc_rdma."};
    char job[16];
    snprintf(job, sizeof job, ".%x.", (unsigned)job_number(nspace));
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strncmp(file, kinds[i], strlen(kinds[i])) == 0)
            return strstr(file, job) != NULL;
    return false;
}

void shm_cleanup_remove(const char *dir, const char *nspace)
{
    AUTO(dir) DIR *all = opendir(dir);
    for (const struct dirent *d; all && (d = readdir(all));) {
        struct stat st;
        if (shm_cleanup_is_of(d->d_name, nspace) &&
            fstatat(dirfd(all), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_uid == geteuid())
            /* The PMIx server may have removed it before */
            (void)unlinkat(dirfd(all), d->d_name, 0);
    }
}
