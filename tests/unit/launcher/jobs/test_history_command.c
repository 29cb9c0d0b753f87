/* test_history_command - what identifies a program, from its command. */
#include "launcher/jobs/history_command.h"

#include "common/mem.h"
#include "tests/unit/test.h"

enum { WORDS_MAX = 16 };

/* Reads a command of words without spaces. */
static struct history_command read_words(const char *text)
{
    AUTO(free) char *copy = xstrdup(text);
    char *argv[WORDS_MAX + 1] = {0}, *rest = copy;
    for (int i = 0; i < WORDS_MAX && (argv[i] = strsep(&rest, " ")); i++)
        ;
    struct history_command c;
    history_command_read(&c, argv, "/home/ada");
    return c;
}

TEST(the_program_is_the_script_or_module_or_binary)
{
    static const struct {
        const char *command, *program;
    } rows[] = {
        {"python3 train.py --lr 1", "/home/ada/train.py"},
        {"/usr/bin/python3.11 -u -X dev ./train.py", "/home/ada/train.py"},
        {"python /srv/train.py", "/srv/train.py"},
        {"python3 -m trainer.main --lr 1", "-m trainer.main"},
        {"python3 -c pass", "python3"},
        {"python3", "python3"},
        {"python3 -X", "python3"},
        {"pythonic train.py", "pythonic"},
        {"./train --lr 1", "/home/ada/train"},
        {"build/train", "/home/ada/build/train"},
        {"/srv/train", "/srv/train"},
        {"train", "train"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct history_command c = read_words(rows[i].command);
        CHECK_STR(c.program, rows[i].program);
        history_command_end(&c);
    }
}

TEST(the_batch_is_read_from_its_option)
{
    static const struct {
        const char *command;
        int batch;
    } rows[] = {
        {"train --batch-size 8", 8},
        {"train --batch_size=16", 16},
        {"train --batch 4 --lr 1", 4},
        {"train -b 32", 32},
        {"train", -1},
        {"train --batch-size", -1},
        {"train --batch-size x", -1},
        {"train -b 0", -1},
        {"train --batches 8", -1},
        {"train -b -3", -1},
        {"train -b 8 -b 16", 16},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct history_command c = read_words(rows[i].command);
        CHECK_INT(c.batch, rows[i].batch);
        history_command_end(&c);
    }
}

/* Returns true if both commands have the same hash. */
static bool same(const char *a, const char *b)
{
    struct history_command x = read_words(a), y = read_words(b);
    CHECK_INT(strlen(x.hash), 16);
    bool equal = strcmp(x.hash, y.hash) == 0;
    history_command_end(&x);
    history_command_end(&y);
    return equal;
}

TEST(the_hash_is_of_all_options_but_the_batch)
{
    CHECK(same("train --lr 1 -b 8", "train --lr 1 --batch-size=16"));
    CHECK(same("python3 -u train.py --lr 1", "python3 train.py --lr 1"));
    CHECK(!same("train --lr 1", "train --lr 2"));
    CHECK(!same("train --lr 1", "train --lr1"));
    CHECK(!same("train -b x", "train")); /* not a batch size */
}
