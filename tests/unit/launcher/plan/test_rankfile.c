#include "launcher/plan/hostfile.h"

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* "c01/1:0 c02/-": host and slots of each rank, or the error. */
static char *read_as(const char *text, const struct hosts *known)
{
    AUTO(rankfile) struct rankfile *f = NULL;
    AUTO(strbuf) struct strbuf b = {0};
    struct err e = {0};
    if (hostfile_parse_ranks(&f, "ranks", text, known, &e) < 0) {
        CHECK_INT(hostfile_parse_ranks(&f, "ranks", text, known, NULL), -EINVAL);
        CHECK(f == NULL);
        return xstrdup(e.text);
    }
    for (int i = 0; i < f->count; i++)
        strbuf_printf(&b, "%s%s/%s", i ? " " : "", f->locations[i].host,
                      f->locations[i].slots ? f->locations[i].slots : "-");
    return strbuf_take(&b);
}

TEST(each_rank_has_its_host_and_its_slots)
{
    static const char *const cases[][2] = {
        {"rank 0=a slot=1:0-2\nrank 1=b slot=0,2\n", "a/1:0-2 b/0,2"},
        {"\xef\xbb\xbf"
         "rank 0 = a   slots = 1:*;0:3 # comment\r\n\r\n# more\nrank 1=a\r\n",
         "a/1:*;0:3 a/-"},
        {"rank 2=c\nrank 0=a\nrank 1=b slot=p0", "a/- b/p0 c/-"},
        {"rank 0=+n1\nrank 1=+n0 slot=1", "two/- one/1"},
        {"rank 0=a\nrank 0=b\n", "ranks:2: rank 0 occurs twice"},
        {"rank 0=a\nrank 2=b\n", "ranks: rank 1 is missing"},
        {"rank -1=a\n", "ranks:1: rank: -1 is out of range (0 to 1048575)"},
        {"rank x=a\n", "ranks:1: rank: 'x' is not a number"},
        {"rank 0\n", "ranks:1: not in the form 'rank N=HOST slot=CPUS'"},
        {"rank 0=a slot\n", "ranks:1: not in the form 'rank N=HOST slot=CPUS'"},
        {"rank 0=a slut=1\n", "ranks:1: not in the form 'rank N=HOST slot=CPUS'"},
        {"rank 0=a slot=1 2\n", "ranks:1: not in the form 'rank N=HOST slot=CPUS'"},
        {"task 0=a slot=1\n", "ranks:1: not in the form 'rank N=HOST slot=CPUS'"},
        {"rank 0=+n2\n", "ranks:1: '+n2': must be +n0 to +n1"},
        {"rank 0=-a\n", "ranks:1: hosts '-a': invalid host name '-a'"},
        {"# nothing\n", "ranks: no rank is listed"},
    };
    AUTO(hosts) struct hosts *known = xzalloc(sizeof *known);
    hosts_add(known, "one", 1, 0);
    hosts_add(known, "two", 1, 0);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = read_as(cases[i][0], known);
        CHECK_STR(got, cases[i][1]);
    }
    AUTO(free) char *alone = read_as("rank 0=+n0", NULL);
    CHECK_STR(alone, "ranks:1: '+n0': the job has no host list");
}

TEST(the_hosts_of_the_file_have_a_slot_per_rank)
{
    AUTO(rankfile) struct rankfile *f = NULL;
    struct err e = {0};
    CHECK_INT(hostfile_parse_ranks(&f, "ranks", "rank 0=a\nrank 1=b\nrank 2=a\n", NULL, &e), 0);
    CHECK_INT(f->hosts->count, 2);
    CHECK_INT(f->hosts->at[0].slots, 2);
    CHECK_INT(f->hosts->at[1].slots, 1);
}

TEST(a_rank_file_that_cannot_be_read_is_named)
{
    struct rankfile *f = NULL;
    struct err e = {0};
    CHECK_INT(hostfile_read_ranks(&f, "/nowhere/ranks", NULL, &e), -ENOENT);
    CHECK_STR(e.text, "rank file '/nowhere/ranks': No such file or directory");
}
