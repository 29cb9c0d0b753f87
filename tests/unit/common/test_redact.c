/* redact: names whose values are hidden. */
#include "common/redact.h"

#include "common/json.h"
#include "common/mem.h"

#include "tests/unit/test.h"

static bool secret(const char *name)
{
    return redact_is_secret_name(name, strlen(name));
}

TEST(variables_with_a_mark_anywhere_are_secret)
{
    CHECK(secret("HF_TOKEN"));
    CHECK(secret("WANDB_API_KEY"));
    CHECK(secret("AWS_SECRET_ACCESS_KEY"));
    CHECK(secret("PGPASSWORD"));
    CHECK(secret("MY_CREDENTIALS"));
    CHECK(secret("DB_PASS"));
    CHECK(secret("MYSQL_PWD"));
    CHECK(secret("HTTP_AUTH"));
    CHECK(!secret("PATH"));
    CHECK(!secret("PWD"));
    CHECK(!secret("OLDPWD"));
    CHECK(!secret("AUTHOR"));
    CHECK(!secret("BYPASS_X"));
    CHECK(!secret("NCCL_DEBUG"));
    CHECK(!secret(""));
}

TEST(options_in_lower_case_are_secret_by_whole_words)
{
    CHECK(secret("--api-key"));
    CHECK(secret("--hf_token"));
    CHECK(secret("password"));
    CHECK(secret("--pass"));
    CHECK(secret("--pwd"));
    CHECK(secret("--auth"));
    CHECK(secret("--author-token"));
    CHECK(!secret("--author"));
    CHECK(!secret("--passes"));
    CHECK(!secret("--tokenizer"));
    CHECK(!secret("--max-tokens"));
    CHECK(!secret("--keyboard"));
    CHECK(!secret("monkey"));
}

TEST(only_the_name_is_looked_at)
{
    CHECK(!redact_is_secret_name("lr=TOKEN", 2));
}

TEST(a_command_line_is_shown_without_its_secrets)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, (char *[]){(char *)"train", (char *)"-x", (char *)"HF_TOKEN=abc",
                                  (char *)"--api-key", (char *)"def", (char *)"--password=ghi",
                                  (char *)"--lr=0.1", NULL});
    CHECK_STR(strbuf_str(&b), "train -x HF_TOKEN=*** --api-key *** --password=*** --lr=0.1");
}

TEST(a_name_that_is_passed_on_hides_nothing_behind_it)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, (char *[]){(char *)"-x", (char *)"HF_TOKEN", (char *)"./train", NULL});
    CHECK_STR(strbuf_str(&b), "-x HF_TOKEN ./train");
    strbuf_reset(&b);
    redact_command(&b, NULL);
    CHECK_STR(strbuf_str(&b), "");
}

static void check_text(const char *text, const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_text(&b, text);
    CHECK_STR(strbuf_str(&b), want);
}

TEST(passwords_in_urls_are_hidden)
{
    check_text("postgres://ann:pa:ss@db:5432/x?a=b@c", "postgres://ann:***@db:5432/x?a=b@c");
    check_text("a http://u:p@h and http://v:q@i", "a http://u:***@h and http://v:***@i");
    check_text("http://host:80/a@b", "http://host:80/a@b");
    check_text("http://user@host", "http://user@host");
    check_text("http://u:@h", "http://u:@h");
}

TEST(the_value_of_an_authorization_header_is_hidden)
{
    check_text("Authorization: Bearer abc.def", "Authorization: Bearer ***");
    check_text("curl -H 'authorization: Basic YWJj' x", "curl -H 'authorization: Basic ***' x");
    check_text("Authorization:abc", "Authorization:***");
    check_text("Bearer abc", "Bearer ***");
    check_text("forbearer", "forbearer");
}

TEST(words_of_a_command_line_are_texts)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, (char *[]){(char *)"a", (char *)"--pass", (char *)"x y",
                                  (char *)"--db=http://u:p@h", (char *)"-H",
                                  (char *)"Authorization: Bearer t", NULL});
    CHECK_STR(strbuf_str(&b), "a --pass *** --db=http://u:***@h -H Authorization: Bearer ***");
}

TEST(other_names_of_secrets)
{
    static const char *const names[] = {"--passphrase", "KEY_PASSPHRASE", "PASSPHRASE", "--bearer",
                                        "BEARER"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK(secret(names[i]));
    CHECK(!secret("--bearers") && !secret("--forbearer"));
}

TEST(headers_with_secrets_are_hidden)
{
    check_text("X-Api-Key: abc", "X-Api-Key: ***");
    check_text("curl -H 'PRIVATE-TOKEN:abc' u", "curl -H 'PRIVATE-TOKEN:***' u");
    check_text("Proxy-Authorization: Basic YWJj x", "Proxy-Authorization: Basic *** x");
    check_text("Cookie: a=b; c=d", "Cookie: ***");
    check_text("Content-Type: text/plain", "Content-Type: text/plain");
    check_text("unknown key: lr", "unknown key: lr");
    check_text("X-Api-Key:", "X-Api-Key:");
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b, (char *[]){(char *)"curl", (char *)"Authorization:", (char *)"Bearer",
                                  (char *)"abc", (char *)"X-Api-Key:", (char *)"def",
                                  (char *)"--bearer", (char *)"ghi", (char *)"url", NULL});
    CHECK_STR(strbuf_str(&b), "curl Authorization: Bearer *** X-Api-Key: *** --bearer *** url");
}

TEST(tokens_of_services_are_known_by_their_first_letters)
{
    check_text("--x hf_abcdefghijABCDEFGHIJ0123456789abcd y", "--x *** y");
    check_text("ghp_abcdefghijABCDEFGHIJ0123456789abcd", "***");
    check_text("a=github_pat_11ABC_abcdefghijABCDEFGHIJ0123456789", "a=***");
    check_text("AKIAABCDEFGH12345678", "***");
    check_text("'sk-proj-abcdefghij_ABCDEFGHIJ-0123456789abcd'", "'***'");
    check_text("hf_model", "hf_model");
    check_text("my_hf_abcdefghijABCDEFGHIJ0123456789abcd",
               "my_hf_abcdefghijABCDEFGHIJ0123456789abcd");
    check_text("sk-a-long-name-of-an-experiment-without-figures",
               "sk-a-long-name-of-an-experiment-without-figures");
    check_text("task-12345678901234567890123456789012345",
               "task-12345678901234567890123456789012345");
}

TEST(json_is_shown_without_its_secrets)
{
    struct err e = {0};
    json_t *v = NULL;
    const char *text =
        "{\"lr\":0.1,\"api_key\":[\"a\"],\"db\":{\"password\":7,\"url\":\"http://u:p@h\"},"
        "\"list\":[\"Bearer x\",null]}";
    CHECK_INT(json_parse(&v, text, strlen(text), &e), 0);
    AUTO(json) json_t *shown = redact_json(NULL, v);
    AUTO(free) char *line = json_line(shown);
    CHECK_STR(
        line,
        "{\"lr\":0.1,\"api_key\":\"***\",\"db\":{\"password\":\"***\",\"url\":\"http://u:***@h\"},"
        "\"list\":[\"Bearer ***\",null]}");
    AUTO(json) json_t *whole = redact_json("token", json_integer(7));
    CHECK_STR(json_string_value(whole), "***");
}
