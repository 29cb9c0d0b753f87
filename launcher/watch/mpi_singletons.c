#include "launcher/watch/mpi_singletons.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/own_process.h"
#include "launcher/engine/rank_status.h"

enum {
    FIRST_CHECK_MS = 2000,
    CHECKS = 8 /* the pause doubles each time: 2 s to 4 minutes */
};

struct mpi_singletons {
    uv_timer_t timer;
    const struct launch *job;
    int checks;
    bool suspected; /* the library was mapped at the previous check */
    bool reported;
    void (*on_found)(void *arg, const char *text);
    void *arg;
};

/* Copies the library's name that begins at `at`. The name ends before the first character that a
 * library name cannot contain. */
static void copy_name(char *out, size_t size, const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && n + 1 < size && (isalnum((unsigned char)at[n]) || strchr("._-+", at[n])))
        n++;
    memcpy(out, at, n);
    out[n] = '\0';
}

/* Finds the name of an MPI library: "libmpi.so.40" of Open MPI and Intel MPI, "libmpich.so.12" of
 * MPICH. */
static bool find_library(char *out, size_t size, const char *bytes, size_t len)
{
    static const char *const names[] = {"libmpi.so", "libmpich.so", "libmpi_cray.so"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *at = memmem(bytes, len, names[i], strlen(names[i]));
        if (at) {
            copy_name(out, size, at, bytes + len);
            return true;
        }
    }
    return false;
}

bool mpi_singletons_mapped(char *out, size_t size, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    AUTO(free) char *text = file_text(path);
    return text && find_library(out, size, text, strlen(text));
}

/* A mapped ELF file of 64 bits in this machine's byte order. */
struct image {
    const char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
};

/* Returns the `n` bytes at `at`; NULL if the file does not have them. */
static const void *bytes_at(const struct image *i, uint64_t at, uint64_t n)
{
    return at <= i->size && n <= i->size - at && at % 8 == 0 ? i->bytes + at : NULL;
}

/* Returns the file offset of the byte that is at `address` in memory; the file's size if no byte is
 * there. */
static uint64_t offset_of(const struct image *i, const Elf64_Phdr *all, uint64_t address)
{
    for (int k = 0; k < i->header->e_phnum; k++)
        if (all[k].p_type == PT_LOAD && address >= all[k].p_vaddr &&
            address - all[k].p_vaddr < all[k].p_filesz)
            return address - all[k].p_vaddr + all[k].p_offset;
    return i->size;
}

/* Searches the strings for dynamic linking, which include the names of the libraries (.dynstr;
 * elf(5)). */
static bool find_linked(char *out, size_t size, const struct image *i)
{
    uint64_t names = 0, names_bytes = 0, heads = i->header->e_phnum * sizeof(Elf64_Phdr);
    const Elf64_Phdr *all = bytes_at(i, i->header->e_phoff, heads), *dynamic = NULL;
    for (int k = 0; all && k < i->header->e_phnum; k++)
        if (all[k].p_type == PT_DYNAMIC)
            dynamic = &all[k];
    const Elf64_Dyn *d = dynamic ? bytes_at(i, dynamic->p_offset, dynamic->p_filesz) : NULL;
    for (uint64_t k = 0; d && k < dynamic->p_filesz / sizeof *d; k++) {
        names = d[k].d_tag == DT_STRTAB ? d[k].d_un.d_ptr : names;
        names_bytes = d[k].d_tag == DT_STRSZ ? d[k].d_un.d_val : names_bytes;
    }
    uint64_t at = d ? offset_of(i, all, names) : i->size;
    return at <= i->size && names_bytes <= i->size - at &&
           find_library(out, size, i->bytes + at, names_bytes);
}

bool mpi_singletons_named(char *out, size_t size, const char *program)
{
    struct stat st;
    AUTO(fd) int fd = open(program, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size < (off_t)sizeof(Elf64_Ehdr))
        return false;
    char *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return false;
    struct image i = {bytes, (size_t)st.st_size, (const Elf64_Ehdr *)bytes};
    bool found = memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64 &&
                 i.header->e_phentsize == sizeof(Elf64_Phdr) && find_linked(out, size, &i);
    munmap(bytes, (size_t)st.st_size);
    return found;
}

static void report(struct mpi_singletons *s, const char *library)
{
    const char *advice =
        strstr(library, "mpich")
            ? "omit --no-pmix, and keep descriptors above 2 (PMI_FD) open until MPI_Init, which "
              "Python's subprocess closes without close_fds=False"
            : "omit --no-pmix and settings of Open MPI's ess or schizo, and check that the program "
              "runs with the MPI that it was built with, with PMIx";
    AUTO(free)
    char *text = xasprintf(
        "no rank has connected to PMIx, but the program uses the MPI library %s: ranks that have "
        "called MPI_Init are %d jobs of one rank each; try: %s",
        library, launch_plan(s->job)->world_size, advice);
    s->reported = true;
    s->on_found(s->arg, text);
}

/* Returns the process of the first rank that runs on this node; 0 if there is none. */
static pid_t any_rank(const struct mpi_singletons *s)
{
    for (int i = 0; i < launch_plan(s->job)->world_size; i++)
        if (launch_rank_pid(s->job, i) > 0)
            return launch_rank_pid(s->job, i);
    return 0;
}

static void on_timer(uv_timer_t *t)
{
    struct mpi_singletons *s = t->data;
    struct rank_status status = {0};
    char library[64];
    pid_t pid = any_rank(s);
    if (launch_pmix_connected(s->job) || s->reported || ++s->checks > CHECKS)
        return;
    if (pid > 0)
        /* If the rank is a shell, this finds the program that the shell runs. */
        (void)rank_status_sample(&status, &pid, 1);
    bool mapped =
        status.at.pid > 0 && mpi_singletons_mapped(library, sizeof library, status.at.pid);
    if (mapped && s->suspected) {
        report(s, library);
        return;
    }
    s->suspected = mapped;
    uv_timer_start(t, on_timer, (uint64_t)FIRST_CHECK_MS << s->checks, 0);
}

void mpi_singletons_ended(struct mpi_singletons *s, const struct job_end *end)
{
    char library[64];
    if (!s || s->reported || end->status != 0 || launch_pmix_connected(s->job))
        return;
    AUTO(free) char *program = NULL;
    const char *name = launch_plan(s->job)->argv[0];
    if (own_process_find_program(&program, name, getenv("PATH")) == 0 &&
        mpi_singletons_named(library, sizeof library, program))
        report(s, library);
}

struct mpi_singletons *mpi_singletons_open(uv_loop_t *loop, const struct launch *job,
                                           void (*on_found)(void *arg, const char *text), void *arg)
{
    if (launch_plan(job)->world_size < 2 || launch_pmix_connected(job))
        return NULL;
    struct mpi_singletons *s = xzalloc(sizeof *s);
    s->job = job;
    s->on_found = on_found;
    s->arg = arg;
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    uv_timer_start(&s->timer, on_timer, FIRST_CHECK_MS, 0);
    return s;
}

static void on_closed(uv_handle_t *t)
{
    free(t->data);
}

void mpi_singletons_close(struct mpi_singletons *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->timer, on_closed);
}
