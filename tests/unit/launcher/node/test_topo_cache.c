#include "launcher/node/topo.h"

#include <sys/stat.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/drover-test-XXXXXX";

static void own_cache(void)
{
    CHECK(mkdtemp(dir) != NULL);
    setenv("XDG_CACHE_HOME", dir, 1);
}

static int shell(const char *what)
{
    AUTO(free) char *command = xasprintf("cd '%s' && %s", dir, what);
    return system(command);
}

static void check_kept(const char *key, const char *expected)
{
    size_t len = 99;
    AUTO(free) char *xml = topo_cache_get(key, &len);
    if (expected) {
        CHECK_STR(xml, expected);
        CHECK_INT(len, strlen(expected));
    } else
        CHECK(xml == NULL);
}

TEST(what_is_put_is_got_under_its_own_key_only)
{
    own_cache();
    check_kept("k1", NULL);
    topo_cache_put("k1", "<a/>", 4);
    check_kept("k1", "<a/>");
    check_kept("k2", NULL);
    check_kept("k", NULL);
    topo_cache_put("k1", "<b></b>", 7);
    check_kept("k1", "<b></b>");
    CHECK_INT(shell("test $(ls drover | wc -l) = 1 && rm -rf drover"), 0); /* no partial file */
    CHECK_INT(rmdir(dir), 0);
}

TEST(a_damaged_or_cut_file_is_ignored)
{
    own_cache();
    static const char *const harm[] = {
        "f=$(ls drover/*); printf X | dd of=$f bs=1 seek=60 conv=notrunc status=none",
        "f=$(ls drover/*); truncate -s -1 $f",
        "f=$(ls drover/*); truncate -s 10 $f",
        "f=$(ls drover/*); : > $f",
        "f=$(ls drover/*); echo x >> $f",
        "f=$(ls drover/*); rm $f; mkdir $f; rmdir $f; mkfifo $f"};
    for (size_t i = 0; i < COUNT_OF(harm); i++) {
        topo_cache_put("key", "<topology/>", 11);
        check_kept("key", "<topology/>");
        CHECK_INT(shell(harm[i]), 0);
        check_kept("key", NULL);
    }
    CHECK_INT(shell("rm -rf drover"), 0);
    CHECK_INT(rmdir(dir), 0);
}

TEST(what_others_could_have_written_is_ignored)
{
    own_cache();
    topo_cache_put("key", "<topology/>", 11);
    CHECK_INT(shell("chmod 666 drover/*"), 0);
    check_kept("key", NULL);
    CHECK_INT(shell("chmod 600 drover/*"), 0);
    check_kept("key", "<topology/>");
    CHECK_INT(shell("mv drover real && ln -s real drover"), 0); /* then /tmp is used */
    check_kept("key", NULL);
    CHECK_INT(shell("rm drover && mv real drover && f=$(ls drover/*) && mv $f x && ln -s ../x $f"),
              0);
    check_kept("key", NULL);
    if (geteuid() == 0) {
        CHECK_INT(shell("f=$(ls drover/*) && mv x $f && chown 1:1 drover"), 0);
        check_kept("key", NULL);
    }
    CHECK_INT(shell("rm -rf drover x"), 0);
    CHECK_INT(rmdir(dir), 0);
}

TEST(without_a_home_a_private_directory_in_tmp_is_used)
{
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    topo_cache_put("test of drover", "<t/>", 4);
    check_kept("test of drover", "<t/>");
    AUTO(free) char *path = xasprintf("/tmp/drover-%u", (unsigned)geteuid());
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0700);
}

TEST(the_key_follows_the_cpus_and_there_is_none_when_hwloc_looks_elsewhere)
{
    unsetenv("HWLOC_XMLFILE");
    AUTO(free) char *a = topo_cache_key(), *b = topo_cache_key();
    CHECK(a != NULL);
    CHECK_STR(a, b);
    CHECK_HAS(a, "boot=");
    CHECK_HAS(a, "cpus=");
    CHECK(strchr(a, '\n') == NULL);
    setenv("HWLOC_XMLFILE", "/x", 1);
    CHECK(topo_cache_key() == NULL);
}
