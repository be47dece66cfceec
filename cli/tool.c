/* corestack: the command-line tool in one process. */
#include "cli.h"

int main(int argc, char **argv) {
    return cli_main(argc, argv, NULL);
}
