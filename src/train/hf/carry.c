/* carry.c - copying what goes with a model. */
#include "train/hf/carry.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "train/checkpoint/tensor_file_disk.h"

enum { FILE_BYTES_MAX = 1 << 29, FILES_MAX = 64 };

static const char *const patterns[] = {
    "tokenizer*",
    "tokenization_*.py",
    "tekken.json",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "*.tiktoken",
    "*.model",
    "added_tokens.json",
    "chat_template*",
    "spiece.*",
    "configuration_*.py",
    "generation_config.json",
    "modeling_*.py",
};

/* Plain files only: nothing else ends. */
static bool is_carried(const char *path, const char *name)
{
    struct stat info;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return stat(path, &info) == 0 && S_ISREG(info.st_mode);
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static status list_files(arena *a, const char *from, const char **list, int *n, error *err)
{
    DIR *d = opendir(from);
    if (!d)
        return error_set(err, ERR_INPUT,
                         "%s: cannot be read: %s; it is where tokenizer files are "
                         "copied from",
                         from, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) && *n < FILES_MAX;)
        if (is_carried(arena_text(a, "%s/%s", from, e->d_name), e->d_name))
            list[(*n)++] = arena_copy(a, e->d_name, strlen(e->d_name));
    closedir(d);
    if (*n) qsort(list, (size_t)*n, sizeof *list, by_name);
    return OK;
}

status hf_carry(arena *a, const char *from, const char *to, const char *const **names, int *n,
                error *err)
{
    const char **list = ARENA_ARRAY(a, const char *, FILES_MAX);
    int n_files = 0;
    status s = list_files(a, from, list, &n_files, err);
    for (int i = 0; i < n_files && !s; i++) {
        arena *copy = arena_create();
        char *data;
        size_t size;
        s = file_read(copy, arena_text(a, "%s/%s", from, list[i]), FILE_BYTES_MAX, &data, &size,
                      err);
        if (!s) s = disk_create(arena_text(a, "%s/%s", to, list[i]), data, size, err);
        arena_destroy(copy);
    }
    *names = list;
    *n = n_files;
    return s;
}
