/* files.c - which files a run reads: the knobs that name them, and the two kinds of files that name
 * them in their stead, as Megatron-LM reads them. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/loop/state.h"

static data_paths words_of_text(const trainer *t, const char *text)
{
    static const char blanks[] = " \t\r\n\f\v";
    int n = 0;
    const char **list = ARENA_ARRAY(t->a, const char *, strlen(text) / 2 + 1);
    for (const char *p = text + strspn(text, blanks); *p; p += strspn(p, blanks)) {
        size_t len = strcspn(p, blanks);
        list[n++] = arena_copy(t->a, p, len);
        p += len;
    }
    return (data_paths){list, n};
}

enum { NAMES_BYTES_MAX = 64 << 20 };

/* dataset.data_args_path: what dataset.data_path would hold. */
static status read_words(const trainer *t, const char *path, data_paths *out, error *err)
{
    char *text;
    size_t n;
    status s = file_read(t->a, path, NAMES_BYTES_MAX, &text, &n, err);
    if (s) return error_prefix(err, s, "%s", knobs[K_DATA_ARGS].key);
    *out = words_of_text(t, text);
    if (out->n) return OK;
    return error_set(err, ERR_INPUT, "%s=%s: names no files", knobs[K_DATA_ARGS].key, path);
}

/* A text with blanks, or a list of words and numbers; null names none. */
static status words_of_json(const trainer *t, const json_t *v, const char *where, data_paths *out,
                            error *err)
{
    if (json_is_string(v)) *out = words_of_text(t, json_string_value(v));
    if (json_is_string(v) || json_is_null(v)) return OK;
    size_t n = json_array_size(v);
    const char **list = ARENA_ARRAY(t->a, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        const char *word = json_string_value(one);
        if (word)
            list[i] = arena_copy(t->a, word, strlen(word));
        else if (json_is_number(one))
            list[i] = arena_text(t->a, "%.17g", json_number_value(one));
        else
            v = NULL;
    }
    *out = (data_paths){list, (int)n};
    if (json_is_array(v)) return OK;
    return error_set(err, ERR_INPUT,
                     "%s is needed: prefixes of files, with weights or without, or null", where);
}

/* dataset.per_split_data_args_path: {"train": [...], "valid": [...], "test": [...]} */
static status read_separate(const trainer *t, const char *path, data_options *o, error *err)
{
    json_t *root;
    status s = json_read(path, &root, err);
    if (s) return error_prefix(err, s, "%s", knobs[K_SPLIT_ARGS].key);
    for (int i = 0; i < DATA_SPLITS && !s; i++) {
        const char *name = data_split_names[i];
        s = words_of_json(t, json_object_get(root, name),
                          arena_text(t->a, "%s=%s: \"%s\"", knobs[K_SPLIT_ARGS].key, path, name),
                          &o->separate[i], err);
    }
    json_decref(root);
    return s;
}

status trainer_files(const trainer *t, data_options *o, error *err)
{
    const job *j = &t->s->j;
    const char *words = j->data_args, *sets = j->split_args;
    if (j->mock_data) return OK;
    const job_texts separate[DATA_SPLITS] = {j->train_data, j->valid_data, j->test_data};
    o->paths = (data_paths){j->data_path.item, j->data_path.n};
    for (int i = 0; i < DATA_SPLITS; i++)
        o->separate[i] = (data_paths){separate[i].item, separate[i].n};
    if (words) return read_words(t, words, &o->paths, err);
    return sets ? read_separate(t, sets, o, err) : OK;
}
