/* arena.h - memory that is given back all at once.
 *
 * Everything that lives as long as a command (knobs, model, layout, messages) is taken from one
 * arena and never freed singly. Memory comes zeroed and aligned to 16 bytes. The host running out
 * of a few kilobytes ends the program with exit code 3: it is the one place outside src/cli that
 * may. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

typedef struct arena arena;

arena *arena_create(void);
void arena_destroy(arena *a);

/* One that ends with its parent, or is given back as what the parent took at that time: for
 * lists that grow while others mark and release the parent. */
arena *arena_child(arena *parent);

void *arena_take(arena *a, size_t bytes);
void *arena_take_raw(arena *a, size_t bytes); /* not zeroed: whoever takes it writes all of it */
char *arena_copy(arena *a, const char *text, size_t n); /* n bytes and a final 0 */
char *arena_text(arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for one more in a list of n that has room for `room`; twice as much where it is full. */
void *arena_larger(arena *a, const void *list, size_t used, size_t bytes);
#define ARENA_GROW(a, list, n, room)                                                               \
    do {                                                                                           \
        if ((n) < (room)) break;                                                                   \
        (room) = (room) ? (room)*2 : 64;                                                           \
        (list) = arena_larger((a), (list), sizeof *(list) * (size_t)(n),                           \
                              sizeof *(list) * (size_t)(room));                                    \
    } while (0)

/* Gives back what was taken since `arena_mark`; for searches that try many things. */
typedef struct arena_place {
    void *chunk;
    size_t used;
    int n_children;
} arena_place;
arena_place arena_mark(const arena *a);
void arena_release(arena *a, arena_place place);

#define ARENA_NEW(a, type)      ((type *)arena_take((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_take((a), sizeof(type) * (size_t)(n)))
#define ARENA_RAW(a, type, n)   ((type *)arena_take_raw((a), sizeof(type) * (size_t)(n)))

#endif
