/* colour.h - colour where a person looks: on a terminal, unless NO_COLOR is set or TERM is dumb. */
#ifndef BASE_COLOUR_H
#define BASE_COLOUR_H

#include <stdio.h>

typedef enum colour {
    COLOUR_NONE,
    COLOUR_ERROR,   /* red */
    COLOUR_WARNING, /* yellow */
    COLOUR_OK,      /* green */
    COLOUR_HEADING, /* bold */
    COLOUR_FAINT,
} colour;

/* What switches a colour on, and off again, for this stream: "" where there is no colour. Printed
 * as %s around a padded text, so that widths count letters only. */
const char *colour_on(FILE *out, colour c);
const char *colour_off(FILE *out);

/* One text in a colour. */
void colour_print(FILE *out, colour c, const char *text);

#endif
