/* local_device - a GPU, or this machine's CPU, as `drover bench gemm` and `copy` use it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectives/comm/backend.h"
#include "common/err.h"

struct local_device;

enum local_device_memory { LOCAL_DEVICE_OWN, LOCAL_DEVICE_HOST /* pinned */ };

/* c = a b, all n x n, by columns; a and b have the type, c is float. */
struct local_device_product {
    int n;
    enum drover_type type;
    const void *a, *b;
    float *c;
};

/* A copy between two memories. */
struct local_device_copy {
    void *to;
    const void *from;
    enum local_device_memory to_where, from_where;
    size_t bytes;
};

/* A GPU has the address that PCI gives it. */
struct local_device_facts {
    char name[128];
    bool has_pci;
    int pci_domain, pci_bus, pci_device;
    uint64_t free_bytes; /* of its own memory; 0: unknown */
};

/* What a kind of device does. Calls that fail set *e.
 *   -ETIMEDOUT  the device was not done within the `wait_ms` of open() */
struct local_device_kind {
    bool has_links;           /* copies between host and device cross a link */
    enum drover_type product; /* the type of products by default */
    /* Sets the number of devices that this process sees. -ENOENT  a library is missing */
    int (*count)(int *out, struct err *e);
    /* Loads what products need. NULL: nothing. -ENOENT  a library is missing */
    int (*load_product)(struct err *e);
    int (*open)(struct local_device **out, int index, int64_t wait_ms, struct err *e);
    void (*close)(struct local_device *d); /* frees its memory, too */
    void (*describe)(const struct local_device *d, struct local_device_facts *out);
    /* Allocates memory, aligned to at least 64 bytes, that close() frees. -ENOMEM */
    int (*alloc)(struct local_device *d, size_t bytes, enum local_device_memory where, void **out,
                 struct err *e);
    /* Copies; complete on return. */
    int (*copy)(struct local_device *d, const struct local_device_copy *c, struct err *e);
    /* Multiplies; complete on return. -ENOTSUP  not for this type */
    int (*multiply)(struct local_device *d, const struct local_device_product *p, struct err *e);
};

/* Writes the processor's model name. */
void local_device_cpu_name(char *out, size_t len);

extern const struct local_device_kind local_device_cpu, local_device_cuda;
