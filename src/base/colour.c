/* colour.c - escape sequences, or none. The answer for a stream is found once. */
#include "base/colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wanted(FILE *out)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(out));
}

static bool coloured(FILE *out)
{
    static int known[2]; /* 0: not asked yet; 1: no; 2: yes */
    int which = out == stderr;
    if (!known[which]) known[which] = 1 + wanted(out);
    return known[which] == 2;
}

const char *colour_on(FILE *out, colour c)
{
    static const char *const codes[] = {"",         "\033[1;31m", "\033[33m",
                                        "\033[32m", "\033[1m",    "\033[2m"};
    return c != COLOUR_NONE && coloured(out) ? codes[c] : "";
}

const char *colour_off(FILE *out)
{
    return coloured(out) ? "\033[0m" : "";
}

void colour_print(FILE *out, colour c, const char *text)
{
    fprintf(out, "%s%s%s", colour_on(out, c), text, c ? colour_off(out) : "");
}
