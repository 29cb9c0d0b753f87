/* test_xid - what the codes of NVIDIA's catalogue ask for. */
#include "launcher/gpu/xid.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(codes_ask_for_what_the_catalogue_says)
{
    static const struct {
        int code;
        enum xid_class class;
    } rows[] = {{8, XID_PROGRAM},   {13, XID_PROGRAM},  {43, XID_IGNORE},  {45, XID_LOOK},
                {46, XID_RESET},    {71, XID_PROGRAM},  {74, XID_LOOK},    {79, XID_RESTART},
                {95, XID_RESET},    {100, XID_PROGRAM}, {109, XID_RESET},  {110, XID_RESET},
                {130, XID_PROGRAM}, {136, XID_RESET},   {137, XID_IGNORE}, {151, XID_RESTART},
                {155, XID_RESET},   {157, XID_IGNORE},  {171, XID_LOOK},   {0, XID_LOOK},
                {73, XID_LOOK},     {9999, XID_LOOK},   {154, XID_LOOK},   {158, XID_RESET}};
    const char *meaning;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (xid_classify(rows[i].code, &meaning) != rows[i].class)
            FAIL("Xid %d: %s", rows[i].code, meaning);
    (void)xid_classify(73, &meaning);
    CHECK_STR(meaning, "see NVIDIA's catalogue of Xid errors");
    CHECK_STR(xid_advice(119), "reset the GPU");
    CHECK_STR(xid_advice(79), "restart the machine");
    CHECK(!xid_advice(13));
}
