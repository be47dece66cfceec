/*
 * One fault for each sanitizer, chosen by the first argument. Built under AddressSanitizer and
 * UndefinedBehaviorSanitizer only, where the tests pass when the fault is reported: they show that
 * a clean run means something.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    char *volatile place = malloc(8);
    volatile int most = INT_MAX;
    if (count != 2 || !place)
        return 0;
    if (strcmp(arguments[1], "bounds") == 0)
        place[count + 6] = 1;
    if (strcmp(arguments[1], "overflow") == 0)
        most += count;
    if (strcmp(arguments[1], "leak") == 0)
        place = NULL;
    free(place);
    return 0;
}
