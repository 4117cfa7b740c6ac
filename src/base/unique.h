/* unique.h - random text for names that nobody else may have or guess. */
#ifndef BASE_UNIQUE_H
#define BASE_UNIQUE_H

enum { UNIQUE_TEXT = 17 }; /* 16 hexadecimal digits and a 0 */

/* 64 random bits of the system's. Who makes a file of such a name still asks for a new one (O_EXCL,
 * mkdir): the name is hard to guess, not reserved. */
void unique_text(char out[UNIQUE_TEXT]);

#endif
