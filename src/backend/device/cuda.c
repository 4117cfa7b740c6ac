/* cuda.c - opens the CUDA object and joins its table with what is the program's own. */
#include "backend/device/cuda.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

#include "base/object.h"
#include "base/text.h"
#include "backend/device/calls.h"
#include "hardware/hardware.h"
#include "ir/target.h"

static const object_name object = {.what = "moefold.device=cuda",
                                   .file = "moefold-cuda.so",
                                   .symbol = CUDA_ENTRY_NAME,
                                   .repair =
                                       "install the CUDA toolkit (nvcc in PATH, cuBLAS, cuDNN)"};

static cuda_entry opened;

static status open_entry(error *err)
{
    void *symbol;
    cuda_entry_function *function;
    status s = object_open(&object, &symbol, err);
    if (s) return s;
    memcpy(&function, &symbol, sizeof symbol);
    s = function(CUDA_ENTRY_VERSION, &device_comm_calls, &opened, err);
    opened.table.target = target_row_cuda;
    return s;
}

/* Opened once, by whichever rank comes first. */
static status entry_of(const cuda_entry **out, error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool open;
    *out = &opened;
    pthread_mutex_lock(&lock);
    status s = open ? OK : open_entry(err);
    open = !s;
    pthread_mutex_unlock(&lock);
    return s;
}

/* ---- which GPUs can be used */

static status none_is_there(const cuda_gpu *g, error *err)
{
    if (g->driver > 0 && g->driver < g->runtime)
        return error_set(err, ERR_MACHINE,
                         "the GPU's driver supports CUDA %d.%d, but this program needs %d.%d; "
                         "repair: install a newer driver, or set moefold.device=cpu",
                         g->driver / 1000, g->driver / 10 % 100, g->runtime / 1000,
                         g->runtime / 10 % 100);
    return error_set(err, ERR_MACHINE, "there is no usable GPU (%s); repair: moefold.device=cpu",
                     g->driver == 0 ? "no NVIDIA driver is installed"
                     : g->why[0]    ? g->why
                                    : "none is visible; check CUDA_VISIBLE_DEVICES");
}

status device_cuda_judge(const cuda_gpu *g, error *err)
{
    if (g->count < 1) return none_is_there(g, err);
    if (g->major == 9 && g->minor == 0) return OK;
    return error_set(err, ERR_MACHINE,
                     "%s has compute capability %d.%d: our kernels need 9.0 (Hopper: H100, H200, "
                     "H20); repair: moefold.device=cpu",
                     g->name, g->major, g->minor);
}

/* ---- asking */

status device_cuda_look(cuda_gpu *out, error *err)
{
    const cuda_entry *entry;
    status s = entry_of(&entry, err);
    if (s) return s;
    entry->look(out);
    return device_cuda_judge(out, err);
}

status device_cuda_table(const device_table **out, error *err)
{
    const cuda_entry *entry;
    cuda_gpu found;
    status s = entry_of(&entry, err);
    *out = &entry->table;
    return s ? s : device_cuda_look(&found, err);
}

/* ---- its files */

const char *device_cuda_word(const cuda_gpu *g, arena *a)
{
    const char *name = g->name;
    if (text_starts(name, "NVIDIA ")) name += strlen("NVIDIA ");
    char *word = arena_copy(a, name, strcspn(name, " "));
    for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c);
    return word;
}

const char *device_cuda_tuned(const cuda_gpu *g, arena *a)
{
    const char *path = hardware_file(arena_text(a, "%s-cublaslt.txt", device_cuda_word(g, a)), a);
    return path ? path : "";
}

status device_cuda_cudnn(const char *folder, char *found, size_t room, error *err)
{
    const cuda_entry *entry;
    status s = entry_of(&entry, err);
    return s ? s : entry->cudnn(folder, found, room, err);
}
