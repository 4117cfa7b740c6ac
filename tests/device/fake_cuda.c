/* fake_cuda.c - an object that answers for a GPU as the environment says, in the place of
 * moefold-cuda.so (MOEFOLD_BACKENDS): what is refused before anything starts is seen without a GPU.
 *
 *     FAKE_GPU="COUNT DRIVER RUNTIME MAJOR MINOR TOTAL FREE NAME"
 *     FAKE_CUDNN="cuDNN 9.19.0 (/here)"    or "", for none
 *
 * It opens no device: who gets so far has accepted the GPU, and is told so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device/entry.h"

static status refuse(error *err, const char *text)
{
    snprintf(err->text, sizeof err->text, "%s", text);
    return ERR_MACHINE;
}

static void look(cuda_gpu *out)
{
    long long total = 0, left = 0;
    memset(out, 0, sizeof *out);
    const char *word = getenv("FAKE_GPU");
    if (!word) return;
    int n = sscanf(word, "%d %d %d %d %d %lld %lld %127[^\n]", &out->count, &out->driver,
                   &out->runtime, &out->major, &out->minor, &total, &left, out->name);
    if (n < 3) abort();
    if (out->count < 0) {
        out->count = 0;
        snprintf(out->why, sizeof out->why, "GPU 0: out of order");
    }
    out->total = total;
    out->free = left;
}

static status cudnn(const char *folder, char *found, size_t room, error *err)
{
    const char *word = getenv("FAKE_CUDNN");
    (void)folder;
    if (!word || !*word) return refuse(err, "cuDNN cannot be opened");
    snprintf(found, room, "%s", word);
    return OK;
}

static status open_fake(device *d, const char *word, const device_options *o, error *err)
{
    (void)d;
    (void)word;
    (void)o;
    return refuse(err, "the fake GPU was opened");
}

status moefold_cuda_entry(int version, const device_calls *p, cuda_entry *out, error *err)
{
    (void)p;
    if (version != CUDA_ENTRY_VERSION) return refuse(err, "another version");
    memset(out, 0, sizeof *out);
    out->table.name = "cuda";
    out->table.open = open_fake;
    out->look = look;
    out->cudnn = cudnn;
    return OK;
}
