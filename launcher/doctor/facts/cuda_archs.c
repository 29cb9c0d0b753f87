#include "launcher/doctor/facts/cuda_archs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/mem.h"

enum { FATBIN_MAGIC = (int)0xba55ed50, KIND_PTX = 1, READ_MS_MAX = 400 };

struct fatbin { /* followed by `size` bytes of entries */
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};

struct entry { /* followed by `size` bytes of code */
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size;
    uint32_t compressed_size, unknown;
    uint16_t code_minor, code_major;
    uint32_t arch;
};

_Static_assert(sizeof(struct fatbin) == 16, "the header of a fatbin has 16 bytes");
_Static_assert(sizeof(struct entry) == 32, "the part of an entry's header that is read");

static void add(struct cuda_archs *a, int arch, bool is_ptx)
{
    for (int i = 0; i < a->count; i++)
        if (a->entries[i].arch == arch && a->entries[i].is_ptx == is_ptx)
            return;
    if (a->count == CUDA_ARCHS_MAX)
        return;
    a->entries[a->count].arch = arch;
    a->entries[a->count++].is_ptx = is_ptx;
}

static void read_entries(struct cuda_archs *a, const char *at, uint64_t size)
{
    struct entry e;
    while (size >= sizeof e) {
        memcpy(&e, at, sizeof e);
        if (e.header_size < sizeof e || e.header_size > size || e.size > size - e.header_size)
            return;
        add(a, (int)e.arch, e.kind == KIND_PTX);
        at += e.header_size + e.size;
        size -= e.header_size + e.size;
    }
}

/* Fatbins are aligned to 8 bytes. A section of a gigabyte repeats the same architectures, so
 * reading ends after some time. */
static void read_section(struct cuda_archs *a, const char *at, uint64_t size)
{
    int64_t end = clock_ms() + READ_MS_MAX;
    struct fatbin f;
    while (size >= sizeof f && clock_ms() < end) {
        memcpy(&f, at, sizeof f);
        uint64_t step = 8;
        if (f.magic == (uint32_t)FATBIN_MAGIC && f.header_size >= sizeof f &&
            f.header_size <= size && f.size <= size - f.header_size) {
            read_entries(a, at + f.header_size, f.size);
            step = (f.header_size + f.size + 7) & ~7ULL;
        }
        step = step < size ? step : size;
        at += step;
        size -= step;
    }
}

/* Reads the header of section i. Returns false if the file does not have the section's bytes. */
static bool section(Elf64_Shdr *out, const char *file, uint64_t size, const Elf64_Ehdr *e,
                    unsigned i)
{
    uint64_t offset = e->e_shoff + (uint64_t)i * sizeof *out;
    if (i >= e->e_shnum || offset < e->e_shoff || offset > size || size - offset < sizeof *out)
        return false;
    memcpy(out, file + offset, sizeof *out);
    return out->sh_type != SHT_NOBITS && out->sh_offset <= size &&
           out->sh_size <= size - out->sh_offset;
}

static int read_elf(struct cuda_archs *a, const char *file, uint64_t size)
{
    static const char wanted[] = ".nv_fatbin";
    Elf64_Ehdr e;
    Elf64_Shdr names, s;
    if (size < sizeof e)
        return -EINVAL;
    memcpy(&e, file, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_shentsize != sizeof s || !section(&names, file, size, &e, e.e_shstrndx))
        return -EINVAL;
    for (unsigned i = 0; i < e.e_shnum; i++)
        if (section(&s, file, size, &e, i) && names.sh_size >= sizeof wanted &&
            s.sh_name <= names.sh_size - sizeof wanted &&
            memcmp(file + names.sh_offset + s.sh_name, wanted, sizeof wanted) == 0)
            read_section(a, file + s.sh_offset, s.sh_size);
    return a->count ? 0 : -EINVAL;
}

int cuda_archs_read(struct cuda_archs *out, const char *path)
{
    struct stat st;
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    void *file =
        st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (file == MAP_FAILED)
        return st.st_size > 0 ? -errno : -EINVAL;
    int rc = read_elf(out, file, (uint64_t)st.st_size);
    munmap(file, (size_t)st.st_size);
    return rc;
}

bool cuda_archs_run_on(const struct cuda_archs *a, int arch)
{
    for (int i = 0; i < a->count; i++) {
        int code = a->entries[i].arch;
        if (code <= arch && (a->entries[i].is_ptx || code / 10 == arch / 10))
            return true;
    }
    return false;
}
