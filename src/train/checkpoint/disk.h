/* disk.h - files and folders that a crash must not leave half written.
 *
 * The order that makes it so: write beside, sync the file, sync its folder, rename, sync the folder
 * above. A name then stands for all of the new content or all of the old. Failures are ERR_MACHINE
 * with the path and the system's reason. */
#ifndef TRAIN_CHECKPOINT_DISK_H
#define TRAIN_CHECKPOINT_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* All of n bytes, wherever the system stops. */
status disk_write(int fd, const char *path, const void *bytes, size_t n, error *err);

/* A new file with this content, synced. What is there already, a link too, is a failure. */
status disk_create(const char *path, const void *bytes, size_t n, error *err);

/* The folder and those above it, each synced into its own; one that exists is fine. */
status disk_make_folders(const char *path, error *err);

/* A folder that is not there yet, in one that is. */
status disk_make_new_folder(const char *path, error *err);

status disk_sync_folder(const char *path, error *err);

/* Renames and syncs the folder above the new name. */
status disk_rename(const char *from, const char *to, error *err);

/* With all that it holds; what is not there is fine, and what cannot be removed is left. */
void disk_remove(const char *path);

#endif
