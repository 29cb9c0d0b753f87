#include "hpo/space/config_node.h"

#include "common/mem.h"
#include "common/yaml.h"
#include "tests/unit/test.h"

static const char text[] = "a:\n  x: 3\n  ~y/: hello\n  list: [1, true]\nb: 7\n";

static struct yaml_doc *doc(void)
{
    struct yaml_doc *d = NULL;
    CHECK_INT(yaml_read(&d, text, sizeof text - 1, "f.yaml", NULL, NULL), 0);
    return d;
}

TEST(members_are_read_with_their_type)
{
    AUTO(yaml_doc) struct yaml_doc *d = doc();
    struct config_node root = config_node_root(d), a = config_node_member(&root, "a");
    int x = 0;
    double r = 0;
    AUTO(free) char *y = NULL;
    CHECK_INT(config_node_int(&x, &a, "x", 0, 5, NULL), 0);
    CHECK_INT(config_node_real(&r, &a, "x", NULL), 0);
    CHECK_INT(config_node_text(&y, &a, "~y/", NULL), 0);
    CHECK_INT(x, 3);
    CHECK_NEAR(r, 3, 0);
    CHECK_STR(y, "hello");
}

TEST(a_missing_member_leaves_the_output)
{
    AUTO(yaml_doc) struct yaml_doc *d = doc();
    struct config_node root = config_node_root(d);
    int x = 12;
    bool b = true;
    CHECK_INT(config_node_int(&x, &root, "none", 0, 5, NULL), 0);
    CHECK_INT(config_node_bool(&b, &root, "none", NULL), 0);
    CHECK_INT(x, 12);
    CHECK(b && !config_node_has(&root, "none"));
}

TEST(errors_say_where)
{
    AUTO(yaml_doc) struct yaml_doc *d = doc();
    struct config_node root = config_node_root(d), a = config_node_member(&root, "a");
    struct config_node list = config_node_member(&a, "list"), second = config_node_item(&list, 1);
    struct err e = {0};
    int x = 0;
    CHECK_INT(config_node_int(&x, &a, "x", 4, 5, &e), -EINVAL);
    CHECK_STR(e.text, "f.yaml:2:3: 'x' must be from 4 to 5, not 3");
    CHECK_INT(config_node_int(&x, &a, "~y/", 4, 5, &e), -EINVAL);
    CHECK_STR(e.text, "f.yaml:3:3: '~y/' must be an integer, not a string");
    config_node_error(&second, &e, "no");
    CHECK_STR(e.text, "f.yaml:4:13: no");
    struct config_node json = config_node_of_json(a.value), inner = config_node_member(&json, "x");
    config_node_error(&inner, &e, "no");
    CHECK_STR(e.text, "/x: no");
}

TEST(an_unknown_key_is_named_with_the_nearest)
{
    AUTO(yaml_doc) struct yaml_doc *d = doc();
    struct config_node root = config_node_root(d);
    static const char *const names[] = {"a", "bb"};
    struct err e = {0};
    CHECK_INT(config_node_only_keys(&root, names, 2, "the file", &e), -EINVAL);
    CHECK_STR(e.text, "f.yaml:5:1: unknown key 'b' in the file");
    struct config_node b = config_node_member(&root, "b");
    CHECK_INT(config_node_only_keys(&b, names, 2, "b", &e), -EINVAL);
    CHECK_STR(e.text, "f.yaml:5:1: b must be a mapping, not an integer");
}

TEST(a_path_that_does_not_fit_is_cut)
{
    AUTO(yaml_doc) struct yaml_doc *d = doc();
    struct config_node n = config_node_root(d);
    for (int i = 0; i < 500; i++)
        n = config_node_member(&n, "~/~/~");
    CHECK(strlen(n.path) < sizeof n.path);
}
