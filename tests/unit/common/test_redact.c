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

TEST(words_end_at_capitals_and_their_case_does_not_count)
{
    static const char *const secrets[] = {
        "apiKey",        "accessToken",  "Password",     "--apiKey",    "--AccessToken",
        "APIKey",        "HFToken",      "clientSecret", "credentials", "credential",
        "authtoken",     "userpassword", "passcode",     "sshkey",      "SshKey",
        "auth.password", "OAuth",        "creds",        "AuthToken"};
    static const char *const others[] = {"keyboardLayout", "maxTokens", "Tokenizer", "Monkey",
                                         "Author",         "authors",   "compass",   "KeysTotal"};
    for (size_t i = 0; i < COUNT_OF(secrets); i++)
        if (!secret(secrets[i]))
            FAIL("not a secret: %s", secrets[i]);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (secret(others[i]))
            FAIL("a secret: %s", others[i]);
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
    const char *text = "{\"lr\":0.1,\"api_key\":[\"a\"],\"db\":{\"password\":\"x\",\"key_dim\":7,"
                       "\"n_pass\":\"8\",\"url\":\"http://u:p@h\"},"
                       "\"list\":[\"Bearer x\",null]}";
    CHECK_INT(json_parse(&v, text, strlen(text), &e), 0);
    AUTO(json) json_t *shown = redact_json(NULL, v);
    AUTO(free) char *line = json_line(shown);
    CHECK_STR(line, "{\"lr\":0.1,\"api_key\":[\"***\"],\"db\":{\"password\":\"***\",\"key_dim\":7,"
                    "\"n_pass\":\"8\",\"url\":\"http://u:***@h\"},"
                    "\"list\":[\"Bearer ***\",null]}");
    AUTO(json) json_t *whole = redact_json("token", json_string("a"));
    CHECK_STR(json_string_value(whole), "***");
    AUTO(json)
    json_t *group =
        redact_json("auth", json_pack("{s:s,s:[i,s],s:b}", "user", "ann", "list", 1, "b", "on", 1));
    AUTO(free) char *shown_group = json_line(group);
    CHECK_STR(shown_group, "{\"user\":\"***\",\"list\":[1,\"***\"],\"on\":true}");
}

/* Values that no text may have: what stands in it, and what is shown. */
TEST(secrets_in_texts_are_hidden_and_the_rest_stays)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"bad --token s1 given", "bad --token *** given"},
        {"bash -c 'train --api-key \"a b\" --lr 1'", "bash -c 'train --api-key \"***\" --lr 1'"},
        {"--apiKey s1 --AccessToken=s2", "--apiKey *** --AccessToken=***"},
        {"GET http://h/x?token=s1&n=2", "GET http://h/x?token=***&n=2"},
        {"http://h/?n=1&api_key=s1#top", "http://h/?n=1&api_key=***"},
        {"Server=h;User=ann;Password=s1;Port=1", "Server=h;User=ann;Password=***;Port=1"},
        {"password = \"s 1\"", "password = \"***\""},
        {"curl -u ann:s1 http://h", "curl -u ann:*** http://h"},
        {"curl --user 'ann:s 1' h", "curl --user 'ann:***' h"},
        {"--auth={'password': 's1', 'n': 1}", "--auth=***"},
        {"{'password': 's1', 'n': 1}", "{'password': '***', 'n': 1}"},
        {"{\"secret\": [\"a\", \"b\"], \"x\": 1}", "{\"secret\": ***, \"x\": 1}"},
        {"password: hunter2", "password: ***"},
        {"connect(api_key=abc, host=h)", "connect(api_key=***, host=h)"},
        {"--auth Bearer s1 x", "--auth Bearer *** x"},
        {"Command '['t', '--token', 'a b', '--n', '1']'",
         "Command '['t', '--token', '***', '--n', '1']'"},
        {"['t', '--password=a b', 'c']", "['t', '--password=***', 'c']"},
        {"sh -c 'HF_TOKEN=a train --n 1'", "sh -c 'HF_TOKEN=*** train --n 1'"},
        /* nothing to hide */
        {"--key_dim=64 --n_pass 3 --token_dropout=1e-3", NULL},
        {"{'key': 3, 'auth': true, 'pass': [1, 2]}", NULL},
        {"TOKENIZERS_PARALLELISM=false", NULL},
        {"option '--token' needs a value", NULL},
        {"unknown key: lr", NULL},
        {"KeyError: 'lr'", NULL},
        {"if key == lr", NULL},
        {"docker run -u 1000:1000 -v /a:/b", NULL},
        {"scp -u host:/path", NULL},
        {"api_key:\n  values: [1]", NULL},
        {"--password=", NULL},
        {"secret=[[x", "secret=***"},
        {"secret='", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_text(rows[i].text, rows[i].shown ? rows[i].shown : rows[i].text);
}

TEST(a_secret_is_shown_in_no_form_of_it)
{
    static const char *const names[] = {"password",    "apiKey",   "AccessToken", "hf_token",
                                        "credentials", "API_KEY",  "authtoken",   "auth.password",
                                        "sshkey",      "passcode", "clientSecret"};
    static const char *const forms[] = {"--%s=%s",       "--%s='%s'",        "x --%s %s y",
                                        "{'%s': '%s'}",  "{\"%s\":\"%s\"}",  "u?%s=%s&b=1",
                                        "a=1;%s=%s;b=2", "export %s=\"%s\"", "f(%s=%s, 1)",
                                        "%s = '%s'",     "{'%s': ['%s']}",   "bash -c 'x --%s %s'"};
    static const char *const shown[] = {"7", "-1.5e-3", "true", "False"};
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        for (size_t f = 0; f < COUNT_OF(forms); f++) {
            AUTO(strbuf) struct strbuf text = {0}, b = {0};
            strbuf_printf(&text, forms[f], names[n], "zq$xv");
            redact_text(&b, strbuf_str(&text));
            if (strstr(strbuf_str(&b), "zq") || !strstr(strbuf_str(&b), "***"))
                FAIL("%s -> %s", strbuf_str(&text), strbuf_str(&b));
            for (size_t v = 0; v < COUNT_OF(shown); v++) {
                strbuf_reset(&text);
                strbuf_printf(&text, forms[f], names[n], shown[v]);
                check_text(strbuf_str(&text), strbuf_str(&text));
            }
        }
    }
}

TEST(values_with_blanks_and_values_of_groups_are_hidden_in_arguments)
{
    AUTO(strbuf) struct strbuf b = {0};
    redact_command(&b,
                   (char *[]){"t", "--password=x y", "--cred={'client_secret': 'a'}",
                              "--secret=['a', 'b']", "--cfg={'auth': {'password': 'a'}, 'n': 1}",
                              "--key_dim=64", "--n_pass", "3", "-u", "ann:x y", "--user", "1:2",
                              "sh -c 'a --token b'", NULL});
    CHECK_STR(strbuf_str(&b),
              "t --password=*** --cred=*** --secret=*** --cfg={'auth': ***, 'n': 1} "
              "--key_dim=64 --n_pass 3 -u ann:*** --user 1:2 sh -c 'a --token ***'");
}

TEST(the_time_for_a_long_text_is_proportional_to_its_length)
{
    enum { N = 1 << 20 };
    static const char *const patterns[] = {"-.",      "key=[", "key='", "-u a:b ",
                                           "a.key: ", "{",     "eyJ"};
    AUTO(free) char *text = xcalloc(N + 1, 1);
    for (size_t k = 0; k < COUNT_OF(patterns); k++) {
        for (size_t i = 0; i < N; i++)
            text[i] = patterns[k][i % strlen(patterns[k])];
        AUTO(strbuf) struct strbuf b = {0};
        redact_text(&b, text);
        CHECK(b.len > 0);
    }
}
