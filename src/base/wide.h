/* wide.h - functions whose loops are compiled for each width of vectors. */
#ifndef BASE_WIDE_H
#define BASE_WIDE_H

/* The loader takes the one for the processor. Not under the thread sanitizer: it instruments the
 * function that chooses, too, which runs before it is there. */
#if defined(__x86_64__) && defined(__linux__) && defined(__has_attribute) &&                       \
    !defined(__SANITIZE_THREAD__)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

/* Under a sanitizer loops stay loops. That is no reason for clang to stop. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#endif
