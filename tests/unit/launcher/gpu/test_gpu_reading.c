/* test_gpu_reading - samples of GPUs that travel as text. */
#include "launcher/gpu/gpu_reading.h"

#include <errno.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

TEST(samples_arrive_as_they_were_written)
{
    struct gpu_sample in[2] = {{.gpu = {.index = 3,
                                        .uuid = "GPU-aa",
                                        .name = "NVIDIA \"H100\"",
                                        .bus_id = "0000:0f:00.0"}},
                               {.gpu = {.uuid = "MIG-bb"}}};
    gpu_sample_set(&in[0], GPU_FACT_BUSY, 0);
    gpu_sample_set(&in[0], GPU_FACT_MARGIN, -4);
    gpu_sample_set(&in[0], GPU_FACT_ENERGY, INT64_MAX);
    AUTO(free) char *text = gpu_reading_write(in, 2);
    AUTO(free) struct gpu_sample *out = NULL;
    int count = 0;
    CHECK_INT(gpu_reading_read(&out, &count, text, strlen(text), NULL), 0);
    CHECK_INT(count, 2);
    CHECK_INT(out[0].gpu.index, 3);
    CHECK_STR(out[0].gpu.name, "NVIDIA \"H100\"");
    CHECK_STR(out[0].gpu.bus_id, "0000:0f:00.0");
    CHECK_STR(out[1].gpu.uuid, "MIG-bb");
    for (int f = 0; f < GPU_FACTS; f++) {
        CHECK_INT(out[0].known[f], in[0].known[f]);
        CHECK_INT(out[0].value[f], in[0].value[f]);
        CHECK(!out[1].known[f]);
    }
}

TEST(malformed_readings_are_refused)
{
    static const char gpu[] = "{\"index\":0,\"uuid\":\"a\",\"name\":\"b\",\"bus\":\"\",\"values\":";
    static const char *const ends[] = {"[[-1,0]]}", "[[999,0]]}", "[[6,\"x\"]]}", "[[6]]}"};
    static const char *const texts[] = {"", "{}", "[1]", "[{}]", "[", "[[]]"};
    struct gpu_sample *out = NULL;
    int count = 7;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK_INT(gpu_reading_read(&out, &count, texts[i], strlen(texts[i]), NULL), -EINVAL);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        AUTO(free) char *text = xasprintf("[%s%s]", gpu, ends[i]);
        CHECK_INT(gpu_reading_read(&out, &count, text, strlen(text), NULL), -EINVAL);
    }
    AUTO(strbuf) struct strbuf many = {0};
    for (int i = 0; i <= GPU_READING_MAX; i++)
        strbuf_puts(&many, i ? ",0" : "[0");
    strbuf_putc(&many, ']');
    struct err e = {0};
    CHECK_INT(gpu_reading_read(&out, &count, strbuf_str(&many), many.len, &e), -EINVAL);
    CHECK_STR(e.text, "samples of GPUs: not a list of them");
    CHECK(!out && count == 7);
}
