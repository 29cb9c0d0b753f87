/* private_dir: the usual name, and another one if that is not private. */
#include "common/private_dir.h"

#include <sys/stat.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static char base[64];

static char *usual_name(void)
{
    snprintf(base, sizeof base, "/tmp/drover-test-XXXXXX");
    CHECK(mkdtemp(base));
    return xasprintf("%s/drover-%u", base, (unsigned)geteuid());
}

static void remove_base(void)
{
    AUTO(free) char *command = xasprintf("rm -r '%s'", base);
    CHECK_INT(system(command), 0);
}

/* Returns the directory, after checking that a second call finds it again. */
static char *found(void)
{
    char *first = NULL;
    AUTO(free) char *second = NULL;
    CHECK_INT(private_dir_in(&first, base, NULL), 0);
    CHECK_INT(private_dir_in(&second, base, NULL), 0);
    CHECK_STR(second, first);
    struct stat st;
    CHECK_INT(lstat(first, &st), 0);
    CHECK(S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700);
    return first;
}

TEST(it_is_created_with_its_usual_name)
{
    AUTO(free) char *usual = usual_name();
    AUTO(free) char *got = found();
    CHECK_STR(got, usual);
    remove_base();
}

TEST(a_name_that_others_can_access_is_replaced)
{
    AUTO(free) char *usual = usual_name();
    AUTO(free) char *open_dir = xasprintf("%s-aaaaaa", usual);
    CHECK(mkdir(usual, 0700) == 0 && chmod(usual, 0750) == 0);
    CHECK(mkdir(open_dir, 0700) == 0 && chmod(open_dir, 0777) == 0);
    AUTO(free) char *got = found();
    CHECK(strncmp(got, usual, strlen(usual)) == 0 && got[strlen(usual)] == '-');
    CHECK(strcmp(got, open_dir) != 0);
    CHECK_INT(private_dir_check(usual, NULL), -EPERM);
    remove_base();
}

TEST(a_link_or_a_file_is_replaced)
{
    AUTO(free) char *usual = usual_name();
    AUTO(free) char *target = xasprintf("%s/target", base);
    CHECK(mkdir(target, 0700) == 0 && symlink(target, usual) == 0);
    AUTO(free) char *got = found();
    CHECK(strcmp(got, usual) != 0);
    CHECK_INT(rmdir(got), 0);
    CHECK_INT(unlink(usual), 0);
    AUTO(file) FILE *f = fopen(usual, "w");
    CHECK(f);
    AUTO(free) char *again = found();
    CHECK(strcmp(again, usual) != 0);
    remove_base();
}

TEST(a_directory_of_another_user_is_replaced)
{
    AUTO(free) char *usual = usual_name();
    if (mkdir(usual, 0700) < 0 || chown(usual, 12345, 12345) < 0)
        SKIP("needs root, to give a directory to another user");
    AUTO(free) char *got = found();
    CHECK(strcmp(got, usual) != 0);
    remove_base();
}

TEST(a_base_that_does_not_exist_is_an_error_that_names_it)
{
    AUTO(free) char *usual = usual_name();
    CHECK_INT(rmdir(base), 0);
    struct err e = {0};
    char *got = NULL;
    CHECK_INT(private_dir_in(&got, base, &e), -ENOENT);
    CHECK_HAS(e.text, usual);
}
