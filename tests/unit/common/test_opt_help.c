/* test_opt_help: help pages of tables of options. */
#include "common/mem.h"
#include "common/opt.h"
#include "tests/unit/test.h"

struct into {
    int ranks;
    bool dry;
    const char *host;
};

static char *help_text(const struct opt_help *h, const struct opt *table)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    opt_print_help(f, h, table);
    fclose(f);
    return text;
}

TEST(help_shows_groups_and_examples)
{
    static const struct opt table[] = {
        OPT_INT('n', "np", "N", "number of ranks", struct into, ranks, INT_MIN, INT_MAX),
        OPT_GROUP("Where ranks run"),
        OPT_FLAG(0, "allow-run-as-root", NULL, struct into, dry),
        OPT_STR('H', "host", "LIST", "nodes and their slots", struct into, host),
        OPT_GROUP("Other programs' options"),
        OPT_FLAG(0, "xml", NULL, struct into, dry),
        OPT_GROUP("Other"),
        OPT_FLAG(0, "dry-run", "print the plan and stop", struct into, dry),
        OPT_END,
    };
    AUTO(free)
    char *text = help_text(&(struct opt_help){.program = "drover run",
                                              .usage = "program",
                                              .summary = "Starts a job.",
                                              .examples = "drover run -np 2 ./a\ndrover run ./b"},
                           table);
    CHECK_STR(text, "Usage: drover run program\n"
                    "\n"
                    "Starts a job.\n"
                    "\n"
                    "Options:\n"
                    "  -n, --np N       number of ranks\n"
                    "\n"
                    "Where ranks run:\n"
                    "  -H, --host LIST  nodes and their slots\n"
                    "\n"
                    "Other:\n"
                    "      --dry-run    print the plan and stop\n"
                    "  -h, --help       show this text\n"
                    "\n"
                    "Examples:\n"
                    "  drover run -np 2 ./a\n"
                    "  drover run ./b\n");
    AUTO(free)
    char *usual =
        help_text(&(struct opt_help){"drover run", "", "Starts a job.", NULL, "hosts host"}, table);
    CHECK_STR(usual, "Usage: drover run\n\nStarts a job.\n\nWhere ranks run:\n"
                     "  -H, --host LIST  nodes and their slots\n\nOther:\n"
                     "  -h, --help       show this text\n\n"
                     "2 further options: drover run --help-all\n");
    static const struct opt hidden[] = {OPT_GROUP("Nothing"),
                                        OPT_FLAG(0, "xml", NULL, struct into, dry), OPT_END};
    AUTO(free)
    char *few = help_text(&(struct opt_help){"drover x", "", "Does it.", NULL, NULL}, hidden);
    CHECK_STR(few, "Usage: drover x\n\nDoes it.\n\nNothing:\n  -h, --help    show this text\n");
    struct into got = {0};
    int rest = 0;
    char *words[] = {"x", "--Where", "x", NULL};
    CHECK_INT(opt_parse(table, &got, 3, words, &rest, NULL), -EINVAL); /* a title is no option */
}

TEST(help_is_broken_at_80_columns)
{
    static const struct opt table[] = {
        OPT_STR(0, "map-by", "PLACE",
                "slot, core, hwthread, l3cache, numa, socket, node, ppr:N:node, and … ever more",
                struct into, host),
        OPT_END,
    };
    const struct opt_help h = {
        .program = "drover run",
        .usage = "[options] [--] program [arguments] [: [options] program [arguments]] and more",
        .summary = "Starts a job of N ranks on this node, or on the nodes of a host file or an "
                   "allocation.\n\nA second paragraph:\n    kept  as  it  is\nand a third."};
    AUTO(free) char *text = help_text(&h, table);
    CHECK_STR(text, "Usage: drover run [options] [--] program [arguments] [: [options] program\n"
                    "       [arguments]] and more\n"
                    "\n"
                    "Starts a job of N ranks on this node, or on the nodes of a host file or an\n"
                    "allocation.\n"
                    "\n"
                    "A second paragraph:\n"
                    "    kept  as  it  is\n"
                    "and a third.\n"
                    "\n"
                    "Options:\n"
                    "      --map-by PLACE  slot, core, hwthread, l3cache, numa, socket, node,\n"
                    "                      ppr:N:node, and … ever more\n"
                    "  -h, --help          show this text\n");
    for (const char *line = text; *line;) { /* '…' has three bytes, and one column */
        size_t len = strcspn(line, "\n");
        CHECK(len <= 80 + 2);
        line += len + 1;
    }
}
