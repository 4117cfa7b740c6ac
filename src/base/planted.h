/* planted.h - what only a test build has: emulated devices, and faults that its environment asks
 * for.
 *
 * A function that is marked so is declared where src calls it and defined under tests/emulated
 * alone, whose objects are linked into build/moefold-test and the test programs. In a release it is
 * NULL; whoever calls it asks first. No word of the environment that plants something is known
 * there. */
#ifndef BASE_PLANTED_H
#define BASE_PLANTED_H

#define PLANTED __attribute__((weak))

#endif
