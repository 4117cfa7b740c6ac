/* heading.c - lines that start a block: "Memory   of rank 3". */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { HEADING = 9 };

void cli_print(const char *heading, const char *format, ...)
{
    va_list args;
    if (*heading == '\n') putchar(*heading++);
    int blanks = HEADING - (int)strlen(heading);
    colour_print(stdout, COLOUR_HEADING, heading);
    printf("%*s", blanks > 0 ? blanks : 0, "");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}
