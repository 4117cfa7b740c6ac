/* packing.c - how far the region of saved buffers ends above the bytes that live at once. */
#include "predict/packing_rows.h"

int main(void)
{
    packing_list l = {.a = arena_create()};
    error err = {{0}};
    if (packing_all(&l, &err)) {
        fprintf(stderr, "packing: %s\n", err.text);
        return ERR_INPUT;
    }
    packing_print(&l, stdout);
    arena_destroy(l.a);
    return 0;
}
