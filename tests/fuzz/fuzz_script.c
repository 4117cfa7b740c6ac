/* fuzz_script.c - launch scripts: the walk ends, whatever the bytes, and marks stay whole. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "config/megatron_reader.h"

/* A mark is one letter, a name and another letter. */
static void fuzz_words(const shell_words *w)
{
    MUST(w->n >= 0 && w->n <= w->room);
    for (int i = 0; i < w->n; i++) {
        bool open = false;
        for (const char *c = w->text[i]; *c; c++) {
            if (*c == SHELL_MARK) MUST(!open);
            if (*c == SHELL_MARK_END) MUST(open);
            open = *c == SHELL_MARK || (open && *c != SHELL_MARK_END);
        }
        MUST(!open);
        MUST(w->line[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena *a = arena_create();
    error err = {0};
    shell_result out;
    shell_set sets[] = {{"TP", "2", false}, {"1", "x y", false}};
    shell_source from = {
        .name = "run.sh", .data = (const char *)data, .n = n, .line = 1, .sets = sets, .n_sets = 2};
    status s = shell_read(a, &from, &out, &err);
    if (fuzz_accepted(s, &err)) {
        MUST(out.n_notes <= SHELL_NOTES_MAX && out.n_commands <= SHELL_COMMANDS_MAX);
        fuzz_words(&out.arrays);
        for (int i = 0; i < out.n_commands; i++) {
            fuzz_words(&out.commands[i].words);
            fuzz_words(&out.commands[i].environment);
        }
    }
    recipe *r = ARENA_NEW(a, recipe);
    recipe_init(r, a, "run.sh");
    error other = {0};
    reader rd = {.r = r, .name = "run.sh", .where = "run.sh", .err = &other, .in_file = true};
    s = megatron_script(&rd, (const char *)data, n, sets, NULL);
    if (!s) s = reader_finish(&rd);
    if (fuzz_accepted(s, &other)) fuzz_settings(r);
    arena_destroy(a);
    return 0;
}
