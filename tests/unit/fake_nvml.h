/* fake_nvml - uses NVML's stand-in (tests/fake/nvml.c) in a unit test. */
#pragma once

#include <limits.h>

#include "common/mem.h"
#include "tests/unit/test.h"

/* The library is in the build, next to this program's directory: tests/fake/ and tests/unit/. */
static inline void fake_nvml_use(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    AUTO(free) char *path = xasprintf("%s/../fake/libnvidia-ml.so.1", self);
    CHECK_INT(access(path, R_OK), 0);
    setenv("DROVER_NVML_LIB", path, 1);
}

/* Writes the description of a machine, and uses it. */
static inline void fake_nvml_machine(const char *text)
{
    char path[] = "/tmp/drover-fake-nvml-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    fake_nvml_use();
    setenv("DROVER_FAKE_NVML", path, 1);
}

/* Removes the description, after the library has read it. */
static inline void fake_nvml_forget(void)
{
    unlink(getenv("DROVER_FAKE_NVML"));
}
