/* cudnn_open.c - see cudnn_open.h. */
#define _GNU_SOURCE /* dlinfo */
#include "backend/cuda/kernels/cudnn_open.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define LIBRARY "libcudnn.so.9"

static struct {
    pthread_mutex_t lock;
    bool tried;
    status result;
    error err;
    char folder[4096], found[4200];
    cudnn_library functions;
} dnn = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cudnn_use(const char *folder)
{
    pthread_mutex_lock(&dnn.lock);
    snprintf(dnn.folder, sizeof dnn.folder, "%s", folder ? folder : "");
    pthread_mutex_unlock(&dnn.lock);
}

const char *cudnn_found(void)
{
    return dnn.found;
}

static const char *folder_of(void)
{
    const char *named = getenv("MOEFOLD_CUDNN");
    return dnn.folder[0] ? dnn.folder : named && named[0] ? named : NULL;
}

static void *open_in(const char *folder, const char *name)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_is_plain(path) ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

/* The parts are opened by their names later on, which LD_LIBRARY_PATH may lead elsewhere: what is
 * loaded already is taken instead. Parts that a version does not have are no error. */
static void *open_library(const char *folder)
{
    static const char *const parts[] = {
        "libcudnn_graph.so.9", "libcudnn_heuristic.so.9", "libcudnn_engines_runtime_compiled.so.9",
        "libcudnn_engines_precompiled.so.9", "libcudnn_engines_tensor_ir.so.9"};
    if (!folder) return dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) open_in(folder, parts[i]);
    return open_in(folder, LIBRARY);
}

static status find_functions(void *library, const char *where, error *err)
{
    static const char *const names[] = {
#define X(name) #name,
        CUDNN_FUNCTIONS(X)
#undef X
    };
    void *found[sizeof names / sizeof names[0]];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found[i] = dlsym(library, names[i]);
        if (!found[i])
            return error_set(err, ERR_MACHINE, "%s has no %s: is it cuDNN 9?", where, names[i]);
    }
    _Static_assert(sizeof found == sizeof dnn.functions, "nothing but functions");
    memcpy(&dnn.functions, found, sizeof found);
    return OK;
}

static status open_now(error *err)
{
    const char *folder = folder_of();
    void *library = open_library(folder);
    if (!library) {
        const char *why = dlerror(); /* none: the folder has no such file */
        return error_set(
            err, ERR_MACHINE,
            "cuDNN, which BF16 attention needs, cannot be opened: %s%s; name the folder "
            "of " LIBRARY " with moefold.cudnn_path or MOEFOLD_CUDNN",
            why ? why : folder, why ? "" : "/" LIBRARY ": no such file");
    }
    struct link_map *map = NULL;
    const char *where = LIBRARY;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0]) where = map->l_name;
    status s = find_functions(library, where, err);
    if (s != OK) return s;
    const size_t v = dnn.functions.cudnnGetVersion();
    if (v < CUDNN_OLDEST)
        return error_set(
            err, ERR_MACHINE,
            "%s is cuDNN %zu.%zu.%zu, which is too old: %d.%d or newer is needed; name "
            "the folder of another with moefold.cudnn_path or MOEFOLD_CUDNN",
            where, v / 10000, v / 100 % 100, v % 100, CUDNN_OLDEST / 10000,
            CUDNN_OLDEST / 100 % 100);
    snprintf(dnn.found, sizeof dnn.found, "cuDNN %zu.%zu.%zu (%.*s)", v / 10000, v / 100 % 100,
             v % 100, 4096, where);
    return OK;
}

status cudnn_open(const cudnn_library **lib, error *err)
{
    pthread_mutex_lock(&dnn.lock);
    if (!dnn.tried) dnn.result = open_now(&dnn.err);
    dnn.tried = true;
    pthread_mutex_unlock(&dnn.lock);
    if (dnn.result == OK)
        *lib = &dnn.functions;
    else
        *err = dnn.err;
    return dnn.result;
}
