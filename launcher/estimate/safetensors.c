#include "launcher/estimate/safetensors.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/mem.h"

static const struct type {
    const char *name;
    int bits;
    bool floating;
} known[] = {
    {"F64", 64, true},    {"F32", 32, true},    {"F16", 16, true},    {"BF16", 16, true},
    {"F8_E4M3", 8, true}, {"F8_E5M2", 8, true}, {"F8_E8M0", 8, true}, {"F6_E2M3", 6, true},
    {"F6_E3M2", 6, true}, {"F4", 4, true},      {"C64", 64, true},    {"I64", 64, false},
    {"U64", 64, false},   {"I32", 32, false},   {"U32", 32, false},   {"I16", 16, false},
    {"U16", 16, false},   {"I8", 8, false},     {"U8", 8, false},     {"BOOL", 8, false},
};

/* What is added up over the tensors of a file. */
struct sums {
    struct safetensors s;
    int64_t bytes;
    json_t *modules; /* name -> number of elements */
};

static int bad(struct err *e, const char *name, const char *what)
{
    return err_set(e, -EINVAL, "tensor '%.100s': %s", name, what);
}

static const struct type *find_type(const json_t *tensor)
{
    const char *name = json_string_value(json_object_get(tensor, "dtype"));
    for (size_t i = 0; name && i < COUNT_OF(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

/* Returns the product of the dimensions, at most `max`; -1: not a shape, or more. */
static int64_t count_elements(const json_t *shape, int64_t max)
{
    int64_t n = 1;
    if (!json_is_array(shape))
        return -1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return -1;
        if (__builtin_mul_overflow(n, json_integer_value(d), &n))
            return -1;
    }
    return n <= max ? n : -1;
}

/* Length of the part of a tensor's name that is its module: up to the first number, as in
 * "model.layers.3"; else without the last part. */
static size_t module_length(const char *name)
{
    const char *part = name, *last = name;
    for (const char *dot; (dot = strchr(part, '.')); part = dot + 1) {
        bool number = dot > part;
        for (const char *p = part; p < dot; p++)
            number = number && isdigit((unsigned char)*p);
        if (number)
            return (size_t)(dot - name);
        last = dot;
    }
    return (size_t)(last - name);
}

static void add_to_module(struct sums *sums, const char *name, int64_t n)
{
    AUTO(free) char *module = xstrndup(name, module_length(name));
    int64_t total = n + json_integer_value(json_object_get(sums->modules, module));
    json_object_set_new(sums->modules, module, json_integer(total));
    if (total > sums->s.largest_layer)
        sums->s.largest_layer = total;
}

/* ---- weights of 4 and 8 bit ----------------------------------------------------------------- */

/* Tensors STEM + end with this type are packed weights if STEM + other is there. */
static const struct packing {
    const char *end, *type, *other;
    int each; /* weights per stored number; 0: from the shapes */
} packings[] = {
    {".weight", "U8", ".weight.absmax", 2}, /* bitsandbytes, 4 bit */
    {".weight", "I8", ".SCB", 1},           /* bitsandbytes, 8 bit */
    {".qweight", "I32", ".scales", 0},      /* GPTQ, AWQ */
    {".weight_packed", "I32", ".weight_scale", 8},
    {"_blocks", "U8", "_scales", 2}, /* MXFP4 of gpt-oss */
};

/* Tensors STEM + end are scales and the like of a weight if STEM + other is there. */
static const struct {
    const char *end, *other;
} scales[] = {
    {".weight.absmax", ".weight"},
    {".weight.nested_absmax", ".weight"},
    {".weight.quant_map", ".weight"},
    {".weight.nested_quant_map", ".weight"},
    {".SCB", ".weight"},
    {".scales", ".qweight"},
    {"_scales", "_blocks"},
    {".weight_scale_inv", ".weight"},
    {".weight_scale", ".weight"},
    {".weight_scale", ".weight_packed"},
    {".input_scale", ".weight"},
};

/* Returns the tensor whose name has `other` instead of `end`; NULL if the name ends otherwise. */
static const json_t *sibling(const json_t *header, const char *name, const char *end,
                             const char *other)
{
    size_t n = strlen(name), k = strlen(end);
    if (n < k || strcmp(name + n - k, end) != 0)
        return NULL;
    AUTO(free) char *key = xasprintf("%.*s%s", (int)(n - k), name, other);
    return json_object_get(header, key);
}

static int64_t dimension(const json_t *tensor, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(tensor, "shape"), i));
}

/* GPTQ packs 32 / bits rows of a matrix into one, AWQ columns. GPTQ's g_idx has the rows, and the
 * scales have the columns. Without g_idx they are of 4 bit. */
static int64_t weights_per_word(const json_t *header, const char *name, const json_t *tensor,
                                const json_t *of_scales)
{
    const json_t *rows = sibling(header, name, ".qweight", ".g_idx");
    int64_t stored = dimension(tensor, 0), columns = dimension(tensor, 1);
    int64_t out = dimension(of_scales, 1), in = rows ? dimension(rows, 0) : 0;
    int64_t each = columns > 0 && out > columns ? out / columns
                   : in > stored && stored > 0  ? in / stored
                                                : 8;
    return each <= 16 ? each : 8;
}

/* Returns how many weights each number of the tensor holds; 0: it holds no packed weights. */
static int64_t packed_weights(const json_t *header, const char *name, const json_t *tensor)
{
    const char *type = json_string_value(json_object_get(tensor, "dtype"));
    for (size_t i = 0; i < COUNT_OF(packings); i++) {
        const struct packing *p = &packings[i];
        const json_t *other = sibling(header, name, p->end, p->other);
        if (other && strcmp(type, p->type) == 0)
            return p->each ? p->each : weights_per_word(header, name, tensor, other);
    }
    return 0;
}

static bool belongs_to_weights(const json_t *header, const char *name)
{
    for (size_t i = 0; i < COUNT_OF(scales); i++)
        if (sibling(header, name, scales[i].end, scales[i].other))
            return true;
    return false;
}

/* ---- the tensors ---------------------------------------------------------------------------- */

static void count_tensor(struct sums *sums, const json_t *header, const char *name,
                         const json_t *tensor, const struct type *type, int64_t n)
{
    int64_t size = (n * type->bits + 7) / 8, each = packed_weights(header, name, tensor);
    bool scale = belongs_to_weights(header, name);
    if (!type->floating && !each && !scale)
        return;
    sums->s.bytes += size;
    if (scale)
        return;
    n *= each ? each : 1;
    sums->s.params += n;
    sums->s.packed += each || type->bits < 16 ? n : 0;
    sums->s.adapter += strstr(name, ".lora_") || strstr(name, "lora_magnitude") ? n : 0;
    add_to_module(sums, name, n);
}

static int add_tensor(struct sums *sums, const json_t *header, const char *name,
                      const json_t *tensor, int64_t data_bytes, struct err *e)
{
    const struct type *type = find_type(tensor);
    const json_t *at = json_object_get(tensor, "data_offsets");
    if (!type)
        return bad(e, name, "its type is missing or unknown");
    if (json_array_size(at) != 2 || !json_is_integer(json_array_get(at, 0)) ||
        !json_is_integer(json_array_get(at, 1)))
        return bad(e, name, "its position is missing");
    int64_t begin = json_integer_value(json_array_get(at, 0));
    int64_t end = json_integer_value(json_array_get(at, 1));
    if (begin < 0 || begin > end || end > data_bytes)
        return bad(e, name, "it lies outside of the file");
    int64_t n = count_elements(json_object_get(tensor, "shape"), INT64_MAX / 64);
    if (n < 0 || (n * type->bits + 7) / 8 != end - begin)
        return bad(e, name, "its shape does not match its size");
    sums->bytes += end - begin; /* at most data_bytes per tensor: no overflow, see the caller */
    count_tensor(sums, header, name, tensor, type, n);
    return 0;
}

static int add_all(struct sums *sums, json_t *header, int64_t data_bytes, struct err *e)
{
    const char *name;
    json_t *tensor;
    if (!json_is_object(header))
        return err_set(e, -EINVAL, "the header is not an object");
    json_object_foreach (header, name, tensor) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        int rc = add_tensor(sums, header, name, tensor, data_bytes, e);
        if (rc < 0)
            return rc;
        if (sums->bytes > data_bytes)
            return bad(e, name, "it overlaps another one");
    }
    if (sums->bytes != data_bytes)
        return err_set(e, -EINVAL, "%lld bytes of the file belong to no tensor",
                       (long long)(data_bytes - sums->bytes));
    return 0;
}

int safetensors_parse(struct safetensors *out, const char *header, size_t len, int64_t data_bytes,
                      struct err *e)
{
    AUTO(json) json_t *all = NULL;
    struct sums sums = {.s = *out};
    if (json_parse(&all, header, len, e) < 0)
        return err_wrap(e, "header");
    sums.modules = json_object();
    int rc = add_all(&sums, all, data_bytes, e);
    json_decref(sums.modules);
    if (rc == 0)
        *out = sums.s;
    return rc;
}

int safetensors_read(struct safetensors *out, const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* opening a pipe would wait for its writer */
        return err_set(e, -EINVAL, "%s: not a regular file", path);
    AUTO(file) FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &st) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    unsigned char size[8];
    if (fread(size, 1, sizeof size, f) != sizeof size)
        return err_set(e, -EINVAL, "%s: too short for a safetensors file", path);
    uint64_t len = 0;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | size[i];
    if (len > (uint64_t)st.st_size - sizeof size)
        return err_set(e, -EINVAL,
                       "%s: not a safetensors file, or incomplete: the header has %llu bytes, the "
                       "file %lld",
                       path, (unsigned long long)len, (long long)st.st_size);
    if (len > SAFETENSORS_HEADER_MAX)
        return err_set(e, -EFBIG, "%s: the header has %llu bytes, more than %d MiB", path,
                       (unsigned long long)len, SAFETENSORS_HEADER_MAX >> 20);
    AUTO(free) char *header = xzalloc((size_t)len + 1);
    if (fread(header, 1, (size_t)len, f) != len)
        return err_set(e, -EIO, "%s: cannot read the header", path);
    int64_t data = (int64_t)st.st_size - (int64_t)sizeof size - (int64_t)len;
    return safetensors_parse(out, header, (size_t)len, data, e) < 0 ? err_wrap(e, "%s", path) : 0;
}
