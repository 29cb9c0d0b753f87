#include "common/no_memory.h"

#include <jansson.h>
#include <uv.h>

#include "tests/unit/test.h"

TEST(libraries_get_memory_and_return_it)
{
    uv_loop_t loop;
    no_memory_exits();
    json_t *list = json_pack("[s,i]", "text", 3);
    CHECK_STR(json_string_value(json_array_get(list, 0)), "text");
    json_decref(list);
    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(uv_loop_close(&loop), 0);
}
