/* redact: names whose values are hidden. */
#include "common/redact.h"

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
    CHECK(!secret("PATH"));
    CHECK(!secret("NCCL_DEBUG"));
    CHECK(!secret(""));
}

TEST(options_in_lower_case_are_secret_by_whole_words)
{
    CHECK(secret("--api-key"));
    CHECK(secret("--hf_token"));
    CHECK(secret("password"));
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
