/* versions.c - reading moefold.versions and what is known of containers.
 *
 * I1  Text that cannot be read is an error of recipe_versions_read and unknown to all else. */
#include "config/versions.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

static const char *const parts[] = {"te", "torch", "cudnn", "nccl"};
enum { PARTS = sizeof parts / sizeof parts[0], ITEM_MAX = 64 };

/* What people call them: the part's title first. */
static const struct {
    const char *name, *part;
} titles[] = {
    {"Transformer Engine", "te"}, {"PyTorch", "torch"},
    {"cuDNN", "cudnn"},           {"NCCL", "nccl"},
    {"container", "container"},   {"transformer-engine", "te"},
    {"transformer_engine", "te"}, {"tensor-engine", "te"},
};

static const struct {
    const char *name, *of[PARTS];
} containers[] = {
#define CONTAINER(name, te, torch, cudnn, nccl) {name, {te, torch, cudnn, nccl}},
#include "config/containers.def"
#undef CONTAINER
};
enum { CONTAINERS = sizeof containers / sizeof containers[0] };

const char *version_part_title(const char *part)
{
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        if (text_equal(titles[i].part, part)) return titles[i].name;
    return part;
}

/* "2.9.0a0+5228986c39" is 2.9.0: Megatron's own bounds let such builds of NVIDIA pass, too. */
static bool read_version(part_version *out, const char *s, size_t n)
{
    static const char tail[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
    *out = (part_version){0};
    if (!n || n >= VERSION_TEXT) return false;
    memcpy(out->text, s, n);
    const char *p = out->text;
    while (out->n < VERSION_NUMBERS && isdigit((unsigned char)*p)) {
        int64_t x = 0;
        for (int digits = 0; isdigit((unsigned char)*p); p++) {
            if (++digits > 9) return false;
            x = 10 * x + (*p - '0');
        }
        out->number[out->n++] = x;
        if (*p != '.' || !isdigit((unsigned char)p[1])) break;
        p++;
    }
    if (!out->n) return false;
    return !*p ||
           ((isalpha((unsigned char)*p) || ((*p == '.' || *p == '+' || *p == '-') && p[1])) &&
            strspn(p, tail) == strlen(p));
}

static int compare(const part_version *a, const part_version *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a->number[i] != b->number[i]) return a->number[i] < b->number[i] ? -1 : 1;
    return 0;
}

/* One "NAME=VERSION" of the list at *rest, which moves on. False: no more. */
static bool next_item(const char **rest, const char **item, size_t *n)
{
    if (!**rest) return false;
    *item = *rest;
    *n = strcspn(*rest, ",");
    *rest += *n;
    if (**rest == ',') (*rest)++;
    return true;
}

static const char *part_named(const char *s, size_t n)
{
    for (int i = 0; i < PARTS; i++)
        if (strlen(parts[i]) == n && strncmp(parts[i], s, n) == 0) return parts[i];
    return NULL;
}

static const char *part_meant(const char *word)
{
    const char *names[PARTS + sizeof titles / sizeof titles[0]];
    int n = 0;
    for (int i = 0; i < PARTS; i++) names[n++] = parts[i];
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        if (!text_equal(titles[i].part, "container")) names[n++] = titles[i].name;
    const char *near = text_nearest(word, names, n);
    for (size_t i = 0; near && i < sizeof titles / sizeof titles[0]; i++)
        if (text_equal(near, titles[i].name)) return titles[i].part;
    return near;
}

static status unknown_part(const char *word, const char *number, error *err)
{
    const char *near = part_meant(word);
    return error_set(
        err, ERR_INPUT,
        "moefold.versions: '%.40s' is none of te, torch, cudnn, nccl; repair: %s=%.40s", word,
        near ? near : "te", *number ? number : "2.12");
}

static status read_item(const char *item, size_t n, unsigned *seen, error *err)
{
    char text[ITEM_MAX];
    if (n >= sizeof text) n = sizeof text - 1;
    memcpy(text, item, n);
    text[n] = 0;
    char *equals = strchr(text, '=');
    const char *word = equals ? equals + 1 : "";
    if (equals) *equals = 0;
    const char *part = part_named(text, strlen(text));
    if (!part) return unknown_part(text, word, err);
    part_version v;
    if (!read_version(&v, word, strlen(word)))
        return error_set(err, ERR_INPUT,
                         "moefold.versions: %s=%.40s is no version (numbers with dots are needed); "
                         "repair: %s=2.12",
                         part, word, part);
    for (int i = 0; i < PARTS; i++) {
        if (parts[i] != part) continue;
        if (*seen & 1u << i)
            return error_set(err, ERR_INPUT,
                             "moefold.versions: %s is given twice; repair: leave one", part);
        *seen |= 1u << i;
    }
    return OK;
}

status recipe_versions_read(const recipe *r, error *err)
{
    const char *rest = recipe_word(r, K_VERSIONS), *item;
    if (!rest) return OK;
    if (!*rest)
        return error_set(err, ERR_INPUT,
                         "moefold.versions is empty; repair: te=2.12,torch=2.9, or null");
    size_t n;
    unsigned seen = 0;
    status st = OK;
    while (!st && next_item(&rest, &item, &n)) st = read_item(item, n, &seen, err);
    return st;
}

static bool said_of(const job *j, const char *part, part_version *out)
{
    const char *rest = j->versions, *item;
    size_t n, name = strlen(part);
    while (rest && next_item(&rest, &item, &n))
        if (n > name && item[name] == '=' && strncmp(item, part, name) == 0) {
            bool read = read_version(out, item + name + 1, n - name - 1);
            out->given = true;
            return read;
        }
    return false;
}

static bool is_patch_of(const char *stack, const char *name)
{
    size_t n = strlen(name);
    return strncmp(stack, name, n) == 0 && (!stack[n] || stack[n] == '.');
}

static bool held_of(const job *j, const char *part, part_version *out)
{
    const char *stack = j->stack;
    if (!stack) return false;
    if (text_equal(part, "container")) return read_version(out, stack, strlen(stack));
    for (int c = 0; c < CONTAINERS; c++)
        for (int i = 0; i < PARTS; i++)
            if (is_patch_of(stack, containers[c].name) && text_equal(parts[i], part) &&
                containers[c].of[i])
                return read_version(out, containers[c].of[i], strlen(containers[c].of[i]));
    return false;
}

bool version_of(const job *j, const char *part, part_version *out)
{
    part_version held;
    bool said = said_of(j, part, out);
    if (!held_of(j, part, &held)) return said;
    if (!said || (held.n > out->n && compare(&held, out, out->n) == 0)) *out = held;
    return true;
}

bool version_is(const job *j, const char *part, const char *since, const char *until)
{
    part_version own, end;
    if (!version_of(j, part, &own)) return false;
    if (read_version(&end, since, strlen(since)) && compare(&own, &end, VERSION_NUMBERS) < 0)
        return false;
    return !read_version(&end, until, strlen(until)) || compare(&own, &end, VERSION_NUMBERS) < 0;
}

const char *version_conflict(const job *j, int i, part_version *said, part_version *held)
{
    for (int p = 0; p < PARTS; p++) {
        if (!said_of(j, parts[p], said) || !held_of(j, parts[p], held)) continue;
        int n = said->n < held->n ? said->n : held->n;
        if (compare(said, held, n) && i-- == 0) return parts[p];
    }
    return NULL;
}

bool versions_clash(const job *j)
{
    part_version said, held;
    return version_conflict(j, 0, &said, &held) != NULL;
}
