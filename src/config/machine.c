/* machine.c - what cluster.gpu stands for: a shipped name, or a hardware file of the user's.
 *
 * I1  Shipped names win: a file of that name is meant only where the word is a path ("./h100").
 * I2  In a recipe the path starts at the current folder, wherever it was written. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "hardware/hardware.h"
#include "config/recipe.h"

const gpu *recipe_gpu(const recipe *r)
{
    const char *word = recipe_word(r, K_GPU);
    if (!word) return NULL;
    const gpu *shipped = gpu_find(word); /* I1 */
    if (shipped) return shipped;
    return r->machine && strcmp(r->machine->path, word) == 0 ? r->machine : NULL;
}

bool recipe_on_cpu(const recipe *r)
{
    const gpu *g = recipe_gpu(r);
    return g && g->arch == ARCH_CPU;
}

status recipe_read_machine(recipe *r, error *err)
{
    const char *word = recipe_word(r, K_GPU);
    if (!word || recipe_gpu(r) || !knob_is_path(word)) return OK;
    hardware *h = ARENA_NEW(r->a, hardware);
    const char *why = r->knob[K_GPU].why;
    status s = hardware_read(h, word, r->a, err);
    if (s) return error_prefix(err, s, "%s: %s=%s", why, knobs[K_GPU].key, word);
    gpu *g = ARENA_NEW(r->a, gpu);
    *g = hardware_gpu(h);
    g->path = word;
    r->machine = g;
    return OK;
}

/* ---- paths */

static const char *without_dot(const char *path)
{
    while (path[0] == '.' && path[1] == '/' && path[2] && path[2] != '/') path += 2;
    return path;
}

/* A path without a slash could be taken for a name. */
static const char *as_path(arena *a, const char *path)
{
    return strchr(path, '/') ? path : arena_text(a, "./%s", path);
}

value recipe_located(recipe *r, knob_id k, value v, const char *folder)
{
    if (!knobs[k].path || v.kind != V_TEXT || gpu_find(v.text) || v.text[0] == '/') return v;
    const char *path = arena_text(r->a, "%s%s", folder, *folder ? without_dot(v.text) : v.text);
    bool meant = knob_is_path(v.text) || (file_exists(path) && !file_is_folder(path));
    return meant ? value_of_text(as_path(r->a, path)) : v;
}

/* The file's folder without links. The file may be one: it is not ours to say where that leads. */
static const char *whole_path(arena *a, const char *file)
{
    char folder[PATH_MAX];
    const char *at = file_folder(a, file);
    if (!file_exists(file) || !realpath(*at ? at : ".", folder)) return NULL;
    const char *name = file + strlen(at);
    return arena_text(a, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
}

/* From one folder to a file; both are whole and their folders without links. */
static const char *path_between(arena *a, const char *folder, const char *file)
{
    size_t same = 0; /* letters of the folders that both have, with the slash behind them */
    for (size_t i = 0; folder[i] && folder[i] == file[i]; i++)
        if (folder[i] == '/') same = i + 1;
    textbuf t = text_init(a);
    for (const char *p = folder + same; *p; p++)
        if (*p == '/') text_add(&t, "../");
    text_add(&t, "%s", file + same);
    return as_path(a, t.s);
}

void recipe_relocate(recipe *r, const char *file)
{
    const char *word = recipe_word(r, K_GPU);
    char folder[PATH_MAX];
    if (!word || gpu_find(word) || !knob_is_path(word) || word[0] == '/') return;
    const char *at = file_folder(r->a, file);
    const char *target = whole_path(r->a, word);
    if (!target || !realpath(*at ? at : ".", folder)) return;
    const char *from = strcmp(folder, "/") == 0 ? folder : arena_text(r->a, "%s/", folder);
    gpu *g = ARENA_NEW(r->a, gpu);
    if (r->machine) {
        *g = *r->machine;
        g->path = path_between(r->a, from, target);
        r->machine = g;
    }
    r->knob[K_GPU].v = value_of_text(path_between(r->a, from, target));
}
