/* input.c - recipes and inputs of Megatron-LM, told apart by what is in them. */
#include "config/input.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "config/megatron_reader.h"

/* Does it begin with the key of a recipe (`model:`)? Then its values may look like flags. */
static bool begins_as_recipe(const char *data, size_t n)
{
    const char *end = data + n, *p = data;
    while (p < end && (isspace((unsigned char)*p) || *p == '#' || *p == '-')) {
        bool line = *p == '#' || (end - p > 3 && memcmp(p, "---\n", 4) == 0);
        if (*p == '-' && !line) return false;
        const char *stop = line ? memchr(p, '\n', (size_t)(end - p)) : p;
        p = stop ? stop + 1 : end;
    }
    const char *key = p;
    while (p < end && (islower((unsigned char)*p) || *p == '_' || *p == '.')) p++;
    return p > key && p < end && *p == ':' && (p + 1 == end || isspace((unsigned char)p[1]));
}

bool input_is_megatron(const char *data, size_t n)
{
    if (begins_as_recipe(data, n) && !megatron_is_yaml(data, n)) return false;
    bool comment = false, inside = false; /* of a word */
    for (size_t i = 0; i < n; i++) {
        char c = data[i];
        if (c == '\n')
            comment = inside = false;
        else if (comment)
            continue;
        else if (c == '#' && !inside)
            comment = true;
        else if (!inside && i + 2 < n && c == '-' && data[i + 1] == '-' &&
                 isalpha((unsigned char)data[i + 2]))
            return true;
        else
            inside = !isspace((unsigned char)c) && !(c == '"' || c == '\'' || c == '(');
    }
    return false;
}

status input_read(recipe *r, const char *path, const megatron_options *how, error *err)
{
    char *data;
    size_t n;
    TRY(file_read(r->a, path, MEGATRON_BYTES_MAX, &data, &n, err));
    r->folder = file_folder(r->a, path);
    return input_is_megatron(data, n) ? megatron_parse_with(r, path, data, n, how, err)
                                      : recipe_parse_yaml(r, path, data, n, err);
}
