/* test_safetensors - counts of a header, and headers that lie. */
#include "launcher/estimate/safetensors.h"

#include "tests/unit/test.h"

static int parse(struct safetensors *t, const char *text, int64_t data_bytes, struct err *e)
{
    char header[2048];
    snprintf(header, sizeof header, "%s", text);
    for (char *p = header; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return safetensors_parse(t, header, strlen(header), data_bytes, e);
}

static const char good[] =
    "{'__metadata__': {'format': 'pt'},"
    " 'embed.weight': {'dtype': 'BF16', 'shape': [10, 4], 'data_offsets': [0, 80]},"
    " 'layers.0.a': {'dtype': 'BF16', 'shape': [30], 'data_offsets': [80, 140]},"
    " 'layers.0.b.7.w': {'dtype': 'F32', 'shape': [15], 'data_offsets': [140, 200]},"
    " 'layers.1.a': {'dtype': 'F8_E4M3', 'shape': [2, 2], 'data_offsets': [200, 204]},"
    " 'ids': {'dtype': 'I64', 'shape': [2], 'data_offsets': [204, 220]},"
    " 'scale': {'dtype': 'F32', 'shape': [], 'data_offsets': [220, 224]}}";

TEST(parameters_are_counted_per_layer)
{
    struct safetensors t = {0};
    CHECK_INT(parse(&t, good, 224, NULL), 0);
    CHECK_INT(t.params, 40 + 30 + 15 + 4 + 1);
    CHECK_INT(t.largest_layer, 45); /* layers.0 */
}

TEST(the_files_of_a_model_add_up)
{
    struct safetensors t = {0};
    CHECK_INT(parse(&t, good, 224, NULL), 0);
    CHECK_INT(
        parse(&t, "{'w': {'dtype': 'F16', 'shape': [50], 'data_offsets': [0, 100]}}", 100, NULL),
        0);
    CHECK_INT(t.params, 140);
    CHECK_INT(t.largest_layer, 50);
}

TEST(a_header_that_does_not_match_its_file_is_refused)
{
    static const struct {
        const char *header;
        int64_t data;
        const char *says;
    } cases[] = {
        {"", 0, "header"},
        {"[]", 0, "not an object"},
        {"{'a': 3}", 0, "type"},
        {"{'a': {'dtype': 'Q4', 'shape': [1], 'data_offsets': [0, 1]}}", 1, "type"},
        {"{'a': {'dtype': 'F32', 'shape': [1]}}", 4, "position"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0]}}", 4, "position"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': ['0', '4']}}", 4, "position"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [4, 0]}}", 4, "outside"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [-4, 0]}}", 4, "outside"},
        {"{'a': {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}}", 4, "outside"},
        {"{'a': {'dtype': 'F32', 'shape': 1, 'data_offsets': [0, 4]}}", 4, "shape"},
        {"{'a': {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 4]}}", 4, "shape"},
        {"{'a': {'dtype': 'F32', 'shape': [-1], 'data_offsets': [0, 4]}}", 4, "shape"},
        {"{'a': {'dtype': 'F32', 'shape': [4294967296, 4294967296, 0], 'data_offsets': [0, 0]}}", 0,
         "shape"},
        {"{'a': {'dtype': 'F64', 'shape': [4611686018427387905], 'data_offsets': [0, 8]}}", 8,
         "shape"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]},"
         " 'b': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}",
         4, "overlaps"},
        {"{'a': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}", 8, "4 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors t = {.params = 3}, before = t;
        struct err e = {0};
        CHECK_INT(parse(&t, cases[i].header, cases[i].data, &e), -EINVAL);
        CHECK_HAS(e.text, cases[i].says);
        CHECK(memcmp(&t, &before, sizeof t) == 0);
    }
}
