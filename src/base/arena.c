/* arena.c - a list of chunks; the newest serves.
 *
 * I1  A chunk is never moved, so pointers stay valid until release or destroy.
 * I2  Memory that is handed out is zero, but for `arena_take_raw`.
 * I3  What is released stays with the arena and serves again: searches mark and release by the
 *     million.
 * I4  Under the address sanitizer what is not handed out may not be touched, and raw memory comes
 *     full of 0xA5, so that a use after release and a forgotten field are seen. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/caller.h"
#include "base/status.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED)
#include <sanitizer/asan_interface.h>
__attribute__((noinline)) static void forbid(void *p, size_t bytes) /* inlined, gcc 12 warns */
{
    __asan_poison_memory_region(p, bytes);
}
static void allow(void *p, size_t bytes)
{
    __asan_unpoison_memory_region(p, bytes);
    memset(p, 0xA5, bytes);
}
#else
static void forbid(void *p, size_t bytes)
{
    (void)p, (void)bytes;
}
static void allow(void *p, size_t bytes)
{
    (void)p, (void)bytes;
}
#endif

typedef struct chunk {
    struct chunk *older;
    size_t size, used;
    _Alignas(16) unsigned char bytes[];
} chunk;

struct arena {
    caller_held held; /* by a call of another program */
    chunk *newest;
    chunk *spare;                /* I3 */
    arena *newest_child, *older; /* of its own; of its parent's */
    int n_children;
};

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

static void *must(size_t bytes)
{
    void *memory = bytes < PTRDIFF_MAX && caller_takes(bytes) ? malloc(bytes) : NULL;
    if (memory) return memory;
    caller_no_memory();
    fputs("moefold: the host has no memory left\n", stderr);
    _Exit(ERR_MACHINE);
}

/* The first spare chunk that is large enough; NULL: none. */
static chunk *take_spare(arena *a, size_t bytes)
{
    for (chunk **c = &a->spare; *c; c = &(*c)->older)
        if ((*c)->size >= bytes) {
            chunk *found = *c;
            *c = found->older;
            return found;
        }
    return NULL;
}

static chunk *chunk_create(size_t bytes)
{
    size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    if (size > SIZE_MAX - sizeof(chunk)) must(SIZE_MAX);
    chunk *c = must(sizeof(chunk) + size);
    c->size = size;
    forbid(c->bytes, size); /* I4 */
    return c;
}

static void add_chunk(arena *a, size_t bytes)
{
    chunk *c = take_spare(a, bytes);
    if (!c) c = chunk_create(bytes);
    c->older = a->newest;
    c->used = 0;
    a->newest = c;
}

static void give_back(void *a)
{
    arena_destroy(a);
}

arena *arena_create(void)
{
    arena *a = must(sizeof *a);
    *a = (arena){0};
    caller_holds(&a->held, give_back, a);
    add_chunk(a, CHUNK_BYTES);
    return a;
}

static void free_all(chunk *c)
{
    while (c) {
        chunk *older = c->older;
        caller_gives(sizeof(chunk) + c->size);
        free(c);
        c = older;
    }
}

arena *arena_child(arena *parent)
{
    arena *a = arena_create();
    a->older = parent->newest_child;
    parent->newest_child = a;
    parent->n_children++;
    caller_drops(&a->held); /* its parent gives it back */
    return a;
}

static void end_children(arena *a, int left)
{
    for (; a->n_children > left; a->n_children--) {
        arena *child = a->newest_child;
        a->newest_child = child->older;
        arena_destroy(child);
    }
}

void arena_destroy(arena *a)
{
    if (!a) return;
    end_children(a, 0);
    free_all(a->newest);
    free_all(a->spare);
    caller_drops(&a->held);
    caller_gives(sizeof *a);
    free(a);
}

void *arena_take_raw(arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGN) must(SIZE_MAX);
    size_t whole = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (whole > a->newest->size - a->newest->used) add_chunk(a, whole);
    chunk *c = a->newest;
    void *p = c->bytes + c->used;
    c->used += whole;
    allow(p, bytes);
    return p;
}

void *arena_take(arena *a, size_t bytes)
{
    return memset(arena_take_raw(a, bytes), 0, bytes); /* I2 */
}

void *arena_larger(arena *a, const void *list, size_t used, size_t bytes)
{
    void *larger = arena_take_raw(a, bytes);
    if (used) memcpy(larger, list, used);
    return larger;
}

char *arena_copy(arena *a, const char *text, size_t n)
{
    char *copy = arena_take(a, n + 1);
    memcpy(copy, text, n);
    return copy;
}

char *arena_text(arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_take(a, (size_t)(n < 0 ? 0 : n) + 1);
    if (n > 0) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

arena_place arena_mark(const arena *a)
{
    return (arena_place){a->newest, a->newest->used, a->n_children};
}

void arena_release(arena *a, arena_place place)
{
    end_children(a, place.n_children);
    while (a->newest != place.chunk) {
        chunk *c = a->newest;
        forbid(c->bytes, c->used);
        a->newest = c->older;
        c->older = a->spare;
        a->spare = c;
    }
    forbid(a->newest->bytes + place.used, a->newest->used - place.used);
    a->newest->used = place.used;
}
