/* singleton: which programs and processes have an MPI library. */
#include "launcher/watch/mpi_singletons.h"

#include <fcntl.h>

#include "common/rng.h"
#include "tests/unit/test.h"

static const char MPI_PROGRAM[] = "/usr/bin/ompi_info";

TEST(a_program_that_is_linked_with_mpi_names_its_library)
{
    char name[64];
    if (access(MPI_PROGRAM, X_OK) < 0)
        SKIP("Open MPI is not installed");
    CHECK(mpi_singletons_named(name, sizeof name, MPI_PROGRAM));
    CHECK_HAS(name, "libmpi.so.");
}

TEST(other_programs_scripts_and_directories_name_none)
{
    char name[64];
    static const char *const none[] = {"/bin/sh", "/usr/bin/python3", "/etc/passwd",
                                       "/tmp",    "/no/such/file",    "/dev/null"};
    for (size_t i = 0; i < COUNT_OF(none); i++)
        CHECK(!mpi_singletons_named(name, sizeof name, none[i]));
}

TEST(a_process_without_mpi_has_mapped_none)
{
    char name[64];
    CHECK(!mpi_singletons_mapped(name, sizeof name, getpid()));
    CHECK(!mpi_singletons_mapped(name, sizeof name, 0));
}

/* Damaged programs: no byte outside the file is read (a sanitizer or a fault would show it). */
TEST(programs_that_are_damaged_are_no_danger)
{
    static char whole[64 << 10];
    char name[64], path[] = "/tmp/drover-singleton-XXXXXX";
    int from = open("/bin/sh", O_RDONLY | O_CLOEXEC), to = mkstemp(path);
    ssize_t n = read(from, whole, sizeof whole);
    CHECK(n > 4096 && to >= 0);
    uint64_t seed = (uint64_t)getpid();
    printf("# seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    struct rng rng;
    rng_seed(&rng, seed, 0);
    for (int i = 0; i < 3000; i++) {
        size_t at = (size_t)rng_below(&rng, 1024), len = (size_t)rng_below(&rng, (uint64_t)n);
        char was = whole[at];
        whole[at] = (char)rng_below(&rng, 256);
        CHECK_INT(pwrite(to, whole, len, 0), (ssize_t)len);
        CHECK_INT(ftruncate(to, (off_t)len), 0);
        (void)mpi_singletons_named(name, sizeof name, path);
        whole[at] = was;
    }
    close(from);
    close(to);
    unlink(path);
}
