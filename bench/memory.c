/* memory.c - memory as Megatron would report it, beside what was measured: `memory
 * [PART-OF-AN-ID]`. */
#include "accuracy_memory.h"

int main(int argc, char **argv)
{
    arena *a = arena_create();
    error err = {{0}};
    status st = memory_table(argc > 1 ? argv[1] : "", a, &err);
    if (st) fprintf(stderr, "memory: %s\n", err.text);
    arena_destroy(a);
    return (int)st;
}
