/* drover-bench: `drover bench …` hands over to it with its arguments as they were. */
#include <stdio.h>
#include <string.h>

#include "collectives/bench/cmd/cmd_bench.h"
#include "common/log.h"
#include "common/own_process.h"

int main(int argc, char **argv)
{
    own_process_exit_without_memory();
    log_open("drover bench");
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("drover-bench " DROVER_VERSION);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "bench") != 0) {
        fputs("drover-bench is called by drover: drover bench OP [options]\n", stderr);
        return 2;
    }
    return cmd_bench(argc, argv);
}
