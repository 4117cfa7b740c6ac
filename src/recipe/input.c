/* input.c - recipes and inputs of Megatron-LM, told apart by what is in them. */
#include "recipe/input.h"

#include <ctype.h>

#include "base/file.h"

bool input_is_megatron(const char *data, size_t n)
{
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
    status s = file_read(r->a, path, MEGATRON_BYTES_MAX, &data, &n, err);
    if (s) return s;
    return input_is_megatron(data, n) ? megatron_read_with(r, path, how, err)
                                      : recipe_read_yaml(r, path, err);
}
