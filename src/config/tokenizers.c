/* tokenizers.c - how many tokens well-known tokenizers have. */
#include "config/tokenizers.h"

#include <string.h>

#include "base/text.h"

static const struct {
    const char *type, *model;
    int64_t tokens;
} table[] = {
#define T(type, model, tokens) {type, model, tokens},
#include "config/tokenizers.def"
#undef T
};

int64_t tokenizer_size(const char *type, const char *model)
{
    if (!type) return 0;
    bool hub = strcmp(type, "HuggingFaceTokenizer") == 0 || strcmp(type, "SFTTokenizer") == 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool typed = table[i].type[0] ? strcmp(table[i].type, type) == 0 : hub;
        if (!typed) continue;
        if (!table[i].model[0] || (model && text_contains(model, table[i].model)))
            return table[i].tokens;
    }
    return 0;
}
