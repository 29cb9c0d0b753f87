#include "collectives/bench/analysis/transport_control.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(every_outcome_of_the_control_runs_names_what_is_at_fault)
{
    static const struct {
        bool small, p2p_off, shm_off; /* is the run right then? */
        int runs;
        const char *text;
    } rows[] = {
        {false, true, true, 2, "P2P between GPUs"},  {false, false, true, 3, "shared memory is at"},
        {false, false, false, 3, "neither P2P nor"}, {true, true, true, 2, "P2P between GPUs"},
        {true, false, true, 3, "shared memory is"},  {true, false, false, 3, "neither P2P nor"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct transport_control t = {0};
        struct transport_control_run r;
        AUTO(strbuf) struct strbuf text = {0};
        while (transport_control_next(&t, &r)) {
            CHECK_INT(r.disabled, t.runs);
            CHECK_INT(r.small, t.runs == 0 || !rows[i].small);
            transport_control_add(&t, r.disabled == 0   ? rows[i].small
                                      : r.disabled == 1 ? rows[i].p2p_off
                                                        : rows[i].shm_off);
        }
        CHECK_INT(t.runs, rows[i].runs);
        transport_control_text(&text, &t);
        CHECK_HAS(strbuf_str(&text), rows[i].text);
        CHECK_INT(strstr(strbuf_str(&text), "sizes up to 1 MiB are right") != NULL, rows[i].small);
    }
}
