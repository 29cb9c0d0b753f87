/* test_serve_request - what a path asks for, and who may ask. */
#include "serve/serve_request.h"

#include "tests/unit/test.h"

static const char token[] = "0123456789abcdef";

TEST(each_path_has_one_route)
{
    static const struct {
        const char *path;
        enum serve_route_kind kind;
        const char *sweep;
        int trial;
    } rows[] = {
        {"/", SERVE_ROUTE_FILE, "", 0},
        {"/main.js", SERVE_ROUTE_FILE, "", 0},
        {"/api/sweeps", SERVE_ROUTE_SWEEPS, "", 0},
        {"/api/jobs", SERVE_ROUTE_JOBS, "", 0},
        {"/api/digits/cols", SERVE_ROUTE_COLUMNS, "digits", 0},
        {"/api/api/overview", SERVE_ROUTE_OVERVIEW, "api", 0},
        {"/api/digits/trial/17", SERVE_ROUTE_TRIAL, "digits", 17},
        {"/api/digits/log/3/stderr", SERVE_ROUTE_LOG, "digits", 3},
        {"/api/digits/events", SERVE_ROUTE_EVENTS, "digits", 0},
        {"/api/digits/control", SERVE_ROUTE_CONTROL, "digits", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct serve_route r = serve_route_of(rows[i].path, "");
        CHECK_INT(r.kind, rows[i].kind);
        CHECK_STR(r.sweep, rows[i].sweep);
        CHECK_INT(r.trial, rows[i].trial);
    }
}

TEST(other_paths_have_none)
{
    static const char *const paths[] = {"",
                                        "main.js",
                                        "//",
                                        "/a/b",
                                        "/api",
                                        "/api/",
                                        "/api/digits",
                                        "/api//cols",
                                        "/api/digits/cols/",
                                        "/api/digits/cols/1",
                                        "/api/digits/trial/",
                                        "/api/digits/trial/x",
                                        "/api/digits/trial/-1",
                                        "/api/digits/trial/99999999999",
                                        "/api/digits/log/1/passwd",
                                        "/api/digits/log/1",
                                        "/../sweep.db",
                                        "/api/digits/log/1/stdout/x",
                                        "/a/b/c/d/e/f/g"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        enum serve_route_kind kind = serve_route_of(paths[i], "").kind;
        if (kind != SERVE_ROUTE_NONE &&
            !(kind == SERVE_ROUTE_FILE && strcmp(paths[i], "/api") == 0))
            FAIL("'%s' has route %d", paths[i], kind);
    }
    char *longest = xcalloc(200, 1);
    memset(longest, 'a', 199);
    memcpy(longest, "/api/", 5);
    CHECK_INT(serve_route_of(longest, "").kind, SERVE_ROUTE_NONE);
    free(longest);
}

TEST(a_prefix_is_removed_whether_or_not_a_proxy_has_done_so)
{
    CHECK_INT(serve_route_of("/a/b/api/sweeps", "/a/b").kind, SERVE_ROUTE_SWEEPS);
    CHECK_INT(serve_route_of("/api/sweeps", "/a/b").kind, SERVE_ROUTE_SWEEPS);
    CHECK_STR(serve_route_of("/a/b/", "/a/b").file, "index.html");
    CHECK_INT(serve_route_of("/a/bc/api/sweeps", "/a/b").kind, SERVE_ROUTE_NONE);
}

TEST(a_number_of_a_query_is_a_whole_number_in_its_range)
{
    int64_t n = 7;
    CHECK_INT(serve_request_number(&n, NULL, 0, 9, 5), 0);
    CHECK_INT(n, 5);
    CHECK_INT(serve_request_number(&n, "9", 0, 9, 5), 0);
    CHECK_INT(n, 9);
    static const char *const bad[] = {"", "10", "-1", "1x", " 1", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(serve_request_number(&n, bad[i], 0, 9, 5), -EINVAL);
}

TEST(only_names_of_this_server_are_accepted_as_Host)
{
    char *hosts[] = {(char *)"localhost", (char *)"127.0.0.1", (char *)"[::1]", NULL};
    static const char *const good[] = {"localhost", "LOCALHOST:8642", "127.0.0.1:1", "[::1]:80"};
    static const char *const bad[] = {"evil.com",
                                      "localhost.evil.com",
                                      "localhost:80.evil",
                                      "127.0.0.1.nip.io",
                                      "",
                                      "[::1",
                                      "localhost:80@evil",
                                      "[::1]x",
                                      ":80"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(serve_request_host_ok(good[i], hosts));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (serve_request_host_ok(bad[i], hosts))
            FAIL("'%s' was accepted", bad[i]);
    CHECK(!serve_request_host_ok(NULL, hosts));
}

TEST(a_change_comes_from_the_page_itself)
{
    CHECK(serve_request_origin_ok(NULL, "localhost:8642"));
    CHECK(serve_request_origin_ok("http://localhost:8642", "localhost:8642"));
    CHECK(!serve_request_origin_ok("http://evil.com", "localhost:8642"));
    CHECK(!serve_request_origin_ok("http://localhost:8643", "localhost:8642"));
    CHECK(!serve_request_origin_ok("null", "localhost:8642"));
}

TEST(a_token_is_accepted_as_a_whole)
{
    CHECK(serve_request_token_ok("0123456789abcdef", token));
    CHECK(!serve_request_token_ok("0123456789abcdee", token));
    CHECK(!serve_request_token_ok("0123456789abcdef0", token));
    CHECK(!serve_request_token_ok("", token));
    CHECK(!serve_request_token_ok(NULL, token));
}

TEST(a_cookie_is_found_among_others)
{
    CHECK(serve_request_cookie_ok("drover_1=0123456789abcdef", "drover_1", token));
    CHECK(serve_request_cookie_ok("a=b; drover_1=0123456789abcdef; c=d", "drover_1", token));
    CHECK(serve_request_cookie_ok("drover_1=x; drover_1=0123456789abcdef", "drover_1", token));
    CHECK(!serve_request_cookie_ok("xdrover_1=0123456789abcdef", "drover_1", token));
    CHECK(!serve_request_cookie_ok("drover_12=0123456789abcdef", "drover_1", token));
    CHECK(!serve_request_cookie_ok("drover_1", "drover_1", token));
    CHECK(!serve_request_cookie_ok("", "drover_1", token));
    CHECK(!serve_request_cookie_ok(NULL, "drover_1", token));
}
