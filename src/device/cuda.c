/* cuda.c - opens the CUDA object and joins its table with what is the program's own. */
#include "device/cuda.h"

#include <string.h>

#include "base/object.h"
#include "program/target.h"

static const object_name object = {.what = "moefold.device=cuda",
                                   .file = "moefold-cuda.so",
                                   .symbol = CUDA_ENTRY_NAME,
                                   .repair =
                                       "install the CUDA toolkit (nvcc in PATH, cuBLAS, cuDNN)"};

static void fail(comm *c, const char *why)
{
    comm_abort(c, ERR_MACHINE, why);
}

/* Opened once; ranks that are threads open it one after another, before they run. */
static status entry_of(const cuda_entry **out, error *err)
{
    static cuda_entry entry;
    static bool open;
    static const cuda_program program = {.members = comm_members, .fail = fail};
    *out = &entry;
    if (open) return OK;
    void *symbol;
    cuda_entry_function *function;
    status s = object_open(&object, &symbol, err);
    if (s) return s;
    memcpy(&function, &symbol, sizeof symbol);
    s = function(CUDA_ENTRY_VERSION, &program, &entry, err);
    entry.table.target = target_row_cuda;
    open = !s;
    return s;
}

status device_cuda_table(const device_table **out, error *err)
{
    const cuda_entry *entry;
    status s = entry_of(&entry, err);
    *out = &entry->table;
    return s;
}

status device_cuda_look(cuda_gpu *out, error *err)
{
    const cuda_entry *entry;
    status s = entry_of(&entry, err);
    return s ? s : entry->look(out, err);
}
