/* appended.c - overrides as words for the command line that made a recipe. */
#include "config/appended.h"

#include <string.h>

/* A list of what is safe, for no list of what is not is ever complete. '=', ':' and '~' are special
 * to a shell only in places of their own; '~' and all else outside of the list is quoted. */
const char *word_quoted(arena *a, const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-+.,:/=@%^";
    if (word[0] && word[strspn(word, safe)] == 0) return word;
    textbuf t = text_init(a);
    text_add(&t, "'");
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            text_add(&t, "'\\''");
        else
            text_put(&t, p, 1);
    }
    text_add(&t, "'");
    return t.s;
}

static bool was_said_by(const recipe *r, knob_id k, const char *option)
{
    return r->knob[k].from == FROM_USER && r->knob[k].why && text_equal(r->knob[k].why, option);
}

/* The value that is assigned, or NULL. */
static const char *assigned(knob_id k, const char *const *list)
{
    size_t n = strlen(knobs[k].key);
    for (; *list; list++)
        if (strncmp(*list, knobs[k].key, n) == 0 && (*list)[n] == '=') return *list + n + 1;
    return NULL;
}

/* `--gpus` says both; null takes the number back. */
static const char *gpus_word(const recipe *r, const char *n, const char *name, arena *a)
{
    bool with_type = name || was_said_by(r, K_GPU, "--gpus");
    const char *type = name ? name : recipe_word(r, K_GPU);
    if (!n && recipe_given(r, K_N_GPUS)) n = value_text(a, r->knob[K_N_GPUS].v);
    if (!n || text_equal(n, "null")) return type ? type : knobs[K_GPU].dflt;
    return with_type ? arena_text(a, "%sx%s", n, type) : n;
}

/* Options that take one number. */
static const struct {
    knob_id k;
    const char *option;
} counted[] = {{K_SEQ, "--seq"}, {K_GBS, "--gbs"}};

/* The option that said what this assignment says; NULL: an override can. */
static const char *option_of(const recipe *r, const char *assignment)
{
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        size_t n = strlen(knobs[counted[i].k].key);
        if (was_said_by(r, counted[i].k, counted[i].option) &&
            strncmp(assignment, knobs[counted[i].k].key, n) == 0 && assignment[n] == '=' &&
            !text_equal(assignment + n + 1, "null"))
            return counted[i].option;
    }
    return NULL;
}

const char *const *recipe_appended(const recipe *r, const char *const *overrides, arena *a)
{
    int n = 0, size = 0;
    while (overrides[size]) size++;
    const char **out = ARENA_ARRAY(a, const char *, 2 * size + 3);
    const char *count = assigned(K_N_GPUS, overrides), *name = assigned(K_GPU, overrides);
    bool gpus =
        (count && was_said_by(r, K_N_GPUS, "--gpus")) || (name && was_said_by(r, K_GPU, "--gpus"));
    for (; *overrides; overrides++) {
        const char *said = strchr(*overrides, '=') + 1, *option = option_of(r, *overrides);
        if (gpus && (said == count || said == name)) continue;
        if (option) out[n++] = option;
        out[n++] = option ? said : *overrides;
    }
    if (gpus) out[n++] = "--gpus";
    if (gpus) out[n++] = gpus_word(r, count, name, a);
    return out;
}

const char *words_text(const char *const *words, arena *a)
{
    textbuf t = text_init(a);
    for (; *words; words++) text_add(&t, "%s%s", t.n ? " " : "", word_quoted(a, *words));
    return t.s;
}
