/* test_report_anonymous - names of hosts and users, paths and addresses, and what is none of
 * them. */
#include "launcher/report/report_anonymous.h"

#include "common/json.h"
#include "tests/unit/test.h"

static void check(const char *text, const char *want)
{
    AUTO(report_anonymous) struct report_anonymous *a = report_anonymous_new();
    report_anonymous_host(a, "c01.cluster.org");
    report_anonymous_host(a, "gpu-7");
    report_anonymous_user(a, "alice");
    AUTO(free) char *got = report_anonymous_text(a, text);
    CHECK_STR(got, want);
}

TEST(known_names_are_replaced_as_words)
{
    check("c01: rank 3 on gpu-7, of Alice", "host-2: rank 3 on host-3, of user-1");
    check("C01 GPU-7", "C01 GPU-7"); /* a host may have the name of a thing */
    check("c01.cluster.org c015 malice gpu-70", "host-1 c015 malice gpu-70");
    check("run_alice_2", "run_user-1_2");
}

TEST(paths_are_replaced)
{
    check("python3 /home/bob/train.py --data=/mnt/x/y", "python3 path-1 --data=path-2");
    check("File \"/home/bob/my files/a.py\", line 3", "File \"path-1\", line 3");
    check("~/x ~bob/y ../z ./run.sh src/model.py", "path-1 path-2 path-3 path-4 path-5");
    check("-I/usr/include/x -o/a/b", "path-1 path-2");
    check("in </home/bob/x.py> </b>", "in <path-1> </b>");
    check("a:/x/y b:/x/y", "a:path-1 b:path-1");
}

TEST(addresses_are_replaced)
{
    check("10.1.2.3:29500 to fe80::1 on 0a:1b:2c:3d:4e:5f",
          "address-1:29500 to address-2 on address-3");
    check("s3://bucket/x, bob@example.com, http://u:p@h/x", "address-1, address-2, address-3");
    check("node17.example.com and n1.uni.de", "host-4 and host-5");
}

TEST(other_texts_stay)
{
    static const char *const texts[] = {
        "torch.cuda.OutOfMemoryError: 12.5 GB/s",
        "at 12:30:01, 1/2 of the trials/s",
        "--lr=0.001 --train/loss 3 eval/acc",
        "std::vector in version 1.2.3",
        "loss < 3 and x == 'a'",
        "np.float64",
        "CUDA error: (700) 3e-4",
        "",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        check(texts[i], texts[i]);
}

/* If each position looked at the rest of the text, this would take hours. */
TEST(the_time_for_a_long_text_is_proportional_to_its_length)
{
    enum { N = 1 << 20 };
    static const char *const patterns[] = {"-.", ":", "a", "a/", "\"/x "};
    AUTO(report_anonymous) struct report_anonymous *a = report_anonymous_new();
    AUTO(free) char *text = xcalloc(N + 1, 1);
    for (size_t k = 0; k < COUNT_OF(patterns); k++) {
        for (size_t i = 0; i < N; i++)
            text[i] = patterns[k][i % strlen(patterns[k])];
        AUTO(free) char *got = report_anonymous_text(a, text);
        CHECK(*got);
    }
}

TEST(root_and_localhost_are_not_names)
{
    AUTO(report_anonymous) struct report_anonymous *a = report_anonymous_new();
    report_anonymous_user(a, "root");
    report_anonymous_user(a, NULL);
    report_anonymous_user(a, "x");
    report_anonymous_host(a, "localhost");
    AUTO(free) char *got = report_anonymous_text(a, "root x localhost");
    CHECK_STR(got, "root x localhost");
}

TEST(the_same_name_has_the_same_replacement_in_all_texts)
{
    AUTO(report_anonymous) struct report_anonymous *a = report_anonymous_new();
    AUTO(json)
    json_t *in =
        json_pack("{s:[s,s],s:{s:s},s:i}", "files", "/a/b", "/a/c", "/a/b", "x", "on /a/b", "n", 3);
    AUTO(json) json_t *out = report_anonymous_json(a, in);
    AUTO(free) char *got = json_line(out);
    CHECK_STR(got, "{\"files\":[\"path-1\",\"path-2\"],\"/a/b\":{\"x\":\"on path-1\"},\"n\":3}");
}

TEST(names_stay_if_the_report_is_not_anonymous_and_secrets_do_not)
{
    AUTO(free) char *got = report_anonymous_text(NULL, "/home/bob http://bob:secret@host/x");
    AUTO(json) json_t *in = json_pack("[s]", "Authorization: Bearer abc");
    AUTO(json) json_t *out = report_anonymous_json(NULL, in);
    CHECK_STR(got, "/home/bob http://bob:***@host/x");
    CHECK(!strstr(json_string_value(json_array_get(out, 0)), "abc"));
}
