/* look.c - verifies a checkpoint on disk before it gets its final name.
 *
 * Sizes and headers of the files on disk are checked instead of trusting what ranks report. This
 * finds a disk that loses files, another job, or a person with rm, while the previous checkpoint
 * still exists. */
#include "train/checkpoint/look.h"

#include "train/checkpoint/meta.h"
#include "train/checkpoint/tensor_file.h"

static status look_at(const checkpoint_info *info, const checkpoint_file *f, arena *a, error *err)
{
    const char *path = arena_text(a, "%s/%s", info->path, f->name);
    int64_t bytes;
    uint64_t sum;
    status s = tensor_file_header(path, &bytes, &sum, err);
    if (s) return s;
    if (bytes != f->bytes)
        return error_set(err, ERR_INPUT, "%s: has %lld bytes; %lld were written", path,
                         (long long)bytes, (long long)f->bytes);
    if (sum != f->header_sum)
        return error_set(err, ERR_INPUT, "%s: its header is not the one that was written", path);
    return OK;
}

status checkpoint_look(const char *path, error *err)
{
    arena *a = arena_create();
    checkpoint_info info = {.path = path};
    status s = checkpoint_meta_read(&info, a, err);
    arena_place mark = arena_mark(a);
    for (int i = 0; i < info.n_files && !s; i++, arena_release(a, mark))
        s = look_at(&info, &info.files[i], a, err);
    arena_destroy(a);
    if (!s) return OK;
    return error_prefix(err, ERR_MACHINE,
                        "the checkpoint differs from what was written; the one before it is kept");
}
