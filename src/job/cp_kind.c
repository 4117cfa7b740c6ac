/* cp_kind.c - the rows of cp_kinds.def, and the one of a layer. */
#include "job/cp_kind.h"

const cp_traits cp_kinds[CP_KINDS] = {
#define CP_KIND(id, word, name, title, ...)                                                        \
    [CP_##id] = {name, title, J_CP_COMM_##word, __VA_ARGS__},
#include "job/cp_kinds.def"
};

const cp_traits *cp_kind_of(const job *j, int word)
{
    for (int i = 0; i < CP_KINDS; i++) {
        const cp_traits *k = &cp_kinds[i];
        bool latent = j->latent_ring && k->word == J_CP_COMM_P2P;
        if (k->word == word && k->latent == latent) return k;
    }
    return &cp_kinds[CP_RING];
}

bool cp_some(job_words words, size_t trait, bool has)
{
    for (int i = 0; i < CP_KINDS; i++)
        if (job_lists(words, cp_kinds[i].word) &&
            *(const bool *)((const char *)&cp_kinds[i] + trait) == has)
            return true;
    return false;
}
