/* hardware.c - finding hardware files, and reading curves. */
#define _GNU_SOURCE
#include "hardware/hardware.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/yaml.h"

double curve_at(const curve *c, double x)
{
    if (c->n == 0) return 1;
    if (!(x > c->x[0])) return c->y[0];
    int i = c->n - 1;
    if (x >= c->x[i]) return c->y[i];
    while (x < c->x[i]) i--;
    return exp2(c->log_y[i] + c->slope[i] * (log2(x) - c->log_x[i]));
}

/* ---- folders */

enum { FOLDERS_MAX = 16, PARENTS = 5 };

typedef struct folders {
    const char *list[FOLDERS_MAX];
    int n;
} folders;

static void add_folder(folders *f, const char *path)
{
    if (f->n < FOLDERS_MAX && file_is_folder(path)) f->list[f->n++] = path;
}

/* Where a file lies, and the folders above it: its own tree, or where it was installed. */
static void add_above(folders *f, const char *file, arena *a)
{
    char *here = arena_copy(a, file, strlen(file));
    for (int i = 0; i < PARENTS; i++) {
        char *slash = strrchr(here, '/');
        if (!slash) break;
        *slash = 0;
        if (i) add_folder(f, arena_text(a, "%s/hardware", here));
        add_folder(f, arena_text(a, "%s/share/moefold/hardware", here));
    }
}

/* Of the shared library that this is in, then of the program. */
static folders folders_of_program(arena *a)
{
    folders f = {.n = 0};
    Dl_info object;
    char library[PATH_MAX] = "", program[PATH_MAX];
    bool found = dladdr((void *)(uintptr_t)&add_above, &object) && object.dli_fname;
    if (found && realpath(object.dli_fname, library)) add_above(&f, library, a);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    if (strcmp(program, library) != 0) add_above(&f, program, a);
    return f;
}

static bool is_plain(const char *name)
{
    for (const char *s = name; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '-' && *s != '_') return false;
    return *name != 0;
}

static char *changed_case(arena *a, const char *name, size_t n, int (*change)(int))
{
    char *out = arena_copy(a, name, n);
    for (char *s = out; *s; s++) *s = (char)change((unsigned char)*s);
    return out;
}

/* ---- names */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* As cluster.gpu spells it, where it knows it. */
static const char *spelled(arena *a, const char *file, size_t n)
{
    const char *name = arena_copy(a, file, n);
    const gpu *g = gpu_find(name);
    return g ? g->name : name;
}

/* Found by the name of its GPU. */
static bool is_measured(const char *file)
{
    static const char tail[] = "-measured.yaml";
    size_t n = strlen(file), own = sizeof tail - 1;
    return n > own && strcmp(file + n - own, tail) == 0;
}

enum { NAMES_MAX = 256 };

static int names_in(const char *folder, const char **out, arena *a)
{
    int n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir)) && n < NAMES_MAX;) {
        size_t length = strlen(e->d_name);
        if (length > 5 && text_is_plain(e->d_name) &&
            strcmp(e->d_name + length - 5, ".yaml") == 0 && !is_measured(e->d_name))
            out[n++] = spelled(a, e->d_name, length - 5);
    }
    closedir(dir);
    return n;
}

const char *const *hardware_names(int *n, arena *a)
{
    const char **out = ARENA_ARRAY(a, const char *, NAMES_MAX);
    folders f = folders_of_program(a);
    *n = 0;
    for (int i = 0; i < f.n && !*n; i++) *n = names_in(f.list[i], out, a);
    if (*n) qsort(out, (size_t)*n, sizeof *out, by_name);
    return out;
}

static status nobody(const char *name, arena *a, error *err)
{
    int n;
    const char *const *names = hardware_names(&n, a);
    textbuf t = text_init(a);
    for (int i = 0; i < n; i++) text_add(&t, "%s%s", i ? ", " : "", names[i]);
    if (!n)
        return error_set(err, ERR_INPUT,
                         "no hardware description \"%.80s\": there is no folder hardware/ above "
                         "the program; give the path of a .yaml file",
                         name);
    const char *near = text_meant(a, name, names, n);
    return error_set(err, ERR_INPUT,
                     "no hardware description for \"%.80s\"%s%s%s; shipped are %s; for another "
                     "machine give the path of a file like hardware/h100.yaml",
                     name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", t.s);
}

/* ---- reading */

static status read_path(hardware *h, const char *path, arena *a, error *err)
{
    char *data;
    size_t n;
    TRY(file_read(a, path, YAML_BYTES_MAX, &data, &n, err));
    return hardware_parse(h, path, data, n, a, err);
}

status hardware_read(hardware *h, const char *name, arena *a, error *err)
{
    if (!is_plain(name))
        return strchr(name, '/') || strchr(name, '.') ? read_path(h, name, a, err)
                                                      : nobody(name, a, err);
    const char *small = changed_case(a, name, strlen(name), tolower);
    folders f = folders_of_program(a);
    for (int i = 0; i < f.n; i++) {
        const char *path = arena_text(a, "%s/%s.yaml", f.list[i], small);
        if (file_exists(path)) return read_path(h, path, a, err);
    }
    return nobody(name, a, err);
}

const char *hardware_file(const char *name, arena *a)
{
    const char *home = getenv("HOME"), *here = arena_text(a, "./hardware/%s", name);
    const char *own = arena_text(a, "%s/.config/moefold/hardware/%s", home ? home : "", name);
    if (file_exists(here)) return here;
    if (home && file_exists(own)) return own;
    folders f = folders_of_program(a);
    for (int i = 0; i < f.n; i++) {
        const char *path = arena_text(a, "%s/%s", f.list[i], name);
        if (file_exists(path)) return path;
    }
    return NULL;
}

void hardware_leave(hardware *h, double headroom)
{
    int64_t left = (int64_t)((double)h->memory * (1 - headroom));
    h->usable = left > 1 ? left : 1;
}

gpu hardware_gpu(const hardware *h)
{
    return (gpu){h->name, h->path, h->arch, h->memory, h->gpus_per_node, h->nvlink_domain};
}

status hardware_has_stack(const hardware *h, const char *name, error *err)
{
    char known[256] = "";
    size_t n = 0;
    for (int i = 0; i < h->n_stacks; i++) {
        if (!name || text_equal(h->stacks[i].name, name)) return OK;
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "",
                                  h->stacks[i].name);
    }
    if (!name) return OK;
    return error_set(
        err, ERR_INPUT,
        "moefold.stack=%.40s: %s describes %s; repair: name one of those, or null for the newest",
        name, h->path, known);
}
