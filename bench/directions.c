/* directions.c - prints the tables of docs/DIRECTIONS.md: known configurations beside their plans,
 * the two spellings of long context, and published differences beside ours. --only known, context
 * or deltas: one of the parts. */
#include "directions_context.h"
#include "directions_deltas.h"
#include "directions_known.h"

typedef struct part {
    const char *name;
    status (*print)(arena *a, error *err);
} part;

static const part parts[] = {
    {"known", print_known}, {"context", print_context}, {"deltas", print_all_deltas}};

int main(int argc, char **argv)
{
    const char *only = argc == 3 && strcmp(argv[1], "--only") == 0 ? argv[2] : NULL;
    error err = {{0}};
    status st = OK;
    bool any = false;
    if (argc > 1 && !only) {
        fprintf(stderr, "directions: directions [--only known | context | deltas]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !st; i++) {
        if (only && strcmp(only, parts[i].name) != 0) continue;
        arena *a = arena_create();
        any = true;
        st = parts[i].print(a, &err);
        arena_destroy(a);
    }
    if (!any) st = error_set(&err, ERR_INPUT, "--only %s: known, context or deltas", only);
    if (st) fprintf(stderr, "directions: %s\n", err.text);
    return (int)st;
}
