/* meta.h - metadata.json. Private to the checkpoint files and their tests. */
#ifndef TRAIN_CHECKPOINT_META_H
#define TRAIN_CHECKPOINT_META_H

#include "base/json.h"
#include "train/checkpoint/checkpoint.h"

#define CHECKPOINT_META "metadata.json"

/* The object that describes `info`, without its checksum. The caller gives it back. */
json_t *checkpoint_meta_make(const checkpoint_info *info);

/* Puts in the checksum of all else: whitespace and the order of keys do not count. */
void checkpoint_meta_seal(json_t *root);

/* Writes the sealed object as PATH/metadata.json, synced. */
status checkpoint_meta_write(json_t *root, const char *path, error *err);

/* Does the folder PATH have a metadata.json that says it is ours? Other programs have files of that
 * name. */
bool checkpoint_meta_is_ours(const char *path);

/* Reads info->path's; the other fields are set. Memory comes from `a`. */
status checkpoint_meta_read(checkpoint_info *info, arena *a, error *err);

#endif
