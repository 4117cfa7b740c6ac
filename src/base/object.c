/* object.c - finding and opening shared objects of ours. */
#include "base/object.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* The folder of the program, without a final slash. */
static bool program_folder(char *out, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", out, room - 1);
    if (n <= 0) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

typedef struct found {
    char path[PATH_MAX + 64];
} found;

static bool there(found *f, const object_name *o, const char *folder, const char *below)
{
    int n = snprintf(f->path, sizeof f->path, "%s%s/%s", folder, below, o->file);
    return n > 0 && (size_t)n < sizeof f->path && file_exists(f->path);
}

static bool find(found *f, const object_name *o)
{
    char folder[PATH_MAX];
    const char *given = getenv("MOEFOLD_BACKENDS");
    if (given) return there(f, o, given, "");
    if (!program_folder(folder, sizeof folder)) return false;
    if (there(f, o, folder, "/../lib/moefold")) return true;
    if (there(f, o, folder, "")) return true;
    char *own = strrchr(folder, '/');
    if (!own) return false;
    *own = 0;
    char *parent = strrchr(folder, '/');
    if (!parent || strcmp(parent, "/tests") != 0) return false;
    *parent = 0;
    return there(f, o, folder, "");
}

bool object_is_there(const object_name *n)
{
    found f;
    return find(&f, n);
}

status object_open(const object_name *n, void **symbol, error *err)
{
    found f;
    if (!find(&f, n))
        return error_set(
            err, ERR_MACHINE, "%s: there is no %s in the program's folder%s; %s and run `make`",
            n->what, n->file,
            getenv("MOEFOLD_BACKENDS") ? " (MOEFOLD_BACKENDS says where to look)" : "", n->repair);
    void *object = dlopen(f.path, RTLD_NOW | (n->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!object)
        return error_set(err, ERR_MACHINE,
                         "%s: %s; %s, or run `make` again if it was replaced by another version",
                         n->what, dlerror(), n->repair);
    *symbol = dlsym(object, n->symbol);
    if (!*symbol)
        return error_set(err, ERR_MACHINE, "%s: %s is not a moefold library: it has no %s", n->what,
                         f.path, n->symbol);
    return OK;
}
