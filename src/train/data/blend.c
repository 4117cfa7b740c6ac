/* blend.c - which member of a blend comes next, and which of its sequences a split gives out.
 *
 * I1  The next sample comes from the member with the largest weight * max(k, 1) - used, where k
 *     counts samples; the first of equals. Product and difference are rounded one after the
 *     other, as on the machines where Megatron runs; a fused multiply-add would decide ties
 *     differently.
 * I2  Weights are divided by their sum twice, as Megatron does. */
#include "train/data/blend.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "train/data/index.h"
#include "train/data/numpy.h"

enum { MEMBERS_MAX = 32766 }; /* Megatron keeps members in 16 bits */

/* ---- the list */

/* A number as Python's float() reads it; that knows no hexadecimal ones. */
static bool number_of(const char *word, double *v)
{
    char *end;
    *v = strtod(word, &end);
    if (end == word || strpbrk(word, "xX(")) return false;
    while (isspace((unsigned char)*end)) end++;
    return *end == 0;
}

static const char *trimmed(arena *a, const char *word)
{
    while (isspace((unsigned char)*word)) word++;
    size_t n = strlen(word);
    while (n && isspace((unsigned char)word[n - 1])) n--;
    return arena_copy(a, word, n);
}

static bool has_weights(const char *const *words, int n_words)
{
    double v;
    for (int i = 0; i < n_words; i += 2)
        if (!number_of(words[i], &v)) return false;
    return n_words % 2 == 0;
}

static status read_weights(blend_list *list, arena *a, const char *const *words, error *err)
{
    list->weights = ARENA_ARRAY(a, double, list->n);
    for (int i = 0; i < list->n; i++) {
        double *w = &list->weights[i];
        number_of(words[2 * i], w);
        list->prefixes[i] = trimmed(a, words[2 * i + 1]);
        if (!(*w > 0) || !isfinite(*w))
            return error_set(err, ERR_INPUT,
                             "dataset.data_path: the weight '%.100s' of %.500s is not a positive "
                             "number; leave out sets that should not be read",
                             words[2 * i], list->prefixes[i]);
    }
    double sum = numpy_sum(list->weights, list->n);
    if (!isfinite(sum))
        return error_set(err, ERR_INPUT, "dataset.data_path: the weights are too large to add up");
    numpy_normalize(list->weights, list->n); /* I2, the first time */
    for (int i = 0; i < list->n; i++)
        if (!(list->weights[i] > 0))
            return error_set(
                err, ERR_INPUT,
                "dataset.data_path: the weight '%.100s' is too small relative to the others",
                words[2 * i]);
    return OK;
}

static status read_paths(blend_list *list, arena *a, const char *const *words, error *err)
{
    double v;
    for (int i = 0; i < list->n; i++) {
        list->prefixes[i] = trimmed(a, words[i]);
        bool odd = number_of(words[i], &v);
        if (odd && !file_exists(arena_text(a, "%s.idx", list->prefixes[i])))
            return error_set(
                err, ERR_INPUT,
                "dataset.data_path: '%.100s' looks like a weight, but not every path has "
                "one; write 'weight path' for all or 'path' for all",
                words[i]);
    }
    return OK;
}

status blend_parse(blend_list *list, arena *a, const char *const *words, int n_words, error *err)
{
    bool weighted = n_words > 0 && has_weights(words, n_words);
    blend_list found = {.n = weighted ? n_words / 2 : n_words};
    if (found.n < 1 || found.n > MEMBERS_MAX)
        return error_set(err, ERR_INPUT, "dataset.data_path: names %d sets; 1 to %d can be blended",
                         found.n, MEMBERS_MAX);
    found.prefixes = ARENA_ARRAY(a, const char *, found.n);
    TRY(weighted ? read_weights(&found, a, words, err) : read_paths(&found, a, words, err));
    *list = found;
    return OK;
}

/* ---- sizes */

int64_t blend_share(int64_t n, double weight)
{
    return (int64_t)ceil((double)n * weight);
}

int64_t blend_built(int64_t n, double weight, double surplus)
{
    return (int64_t)ceil((double)blend_share(n, weight) * (1 + surplus));
}

/* ---- the mix */

typedef struct mixer {
    int n;
    double *weights;
    int64_t *used;
    const int64_t *most; /* NULL: a member is never spent */
} mixer;

static int furthest_behind(const mixer *m, int64_t k) /* I1 */
{
    double scale = k < 1 ? 1 : (double)k, largest = -INFINITY;
    int found = 0;
    for (int i = 0; i < m->n; i++) {
        double due = m->weights[i] * scale;
        double behind = due - (double)m->used[i];
        if (behind <= largest || (m->most && m->used[i] == m->most[i])) continue;
        largest = behind;
        found = i;
    }
    return found;
}

static void mix(data_blend *b, mixer *m)
{
    for (int64_t k = 0; k < b->length; k++) {
        int i = furthest_behind(m, k);
        b->member[k] = (int16_t)i;
        b->sample[k] = m->used[i]++;
    }
}

static status check_used(const mixer *m, const blend_ask *ask, error *err)
{
    for (int i = 0; i < m->n; i++)
        if (m->used[i] > ask->sizes[i])
            return error_set(err, ERR_INPUT,
                             "the %s blend takes %" PRId64
                             " samples from its set %d, which has %" PRId64
                             "; raise dataset.mid_level_dataset_surplus",
                             ask->what, m->used[i], i, ask->sizes[i]);
    return OK;
}

static status mix_all(data_blend *b, const blend_ask *ask, arena *scratch, error *err)
{
    mixer m = {ask->n_members, ARENA_ARRAY(scratch, double, ask->n_members),
               ARENA_ARRAY(scratch, int64_t, ask->n_members), ask->length < 0 ? ask->sizes : NULL};
    for (int i = 0; i < m.n; i++)
        m.weights[i] = ask->weights ? ask->weights[i] : (double)ask->sizes[i];
    if (m.most)
        for (int i = 0; i < m.n; i++) m.weights[i] /= (double)b->length;
    else
        numpy_normalize(m.weights, m.n); /* I2 */
    mix(b, &m);
    return check_used(&m, ask, err);
}

status blend_init(data_blend *b, const blend_ask *ask, error *err)
{
    data_blend made = {.length = ask->length};
    void *member = NULL, *sample = NULL;
    if (made.length < 0) {
        made.length = 0;
        for (int i = 0; i < ask->n_members; i++) made.length += ask->sizes[i];
    }
    status s = data_take(&member, made.length, sizeof *made.member, "the order of a blend", err);
    if (!s) s = data_take(&sample, made.length, sizeof *made.sample, "the order of a blend", err);
    made.member = member;
    made.sample = sample;
    if (!s) {
        arena *scratch = arena_create();
        s = mix_all(&made, ask, scratch, err);
        arena_destroy(scratch);
    }
    if (s)
        blend_release(&made);
    else
        *b = made;
    return s;
}

void blend_release(data_blend *b)
{
    free(b->member);
    free(b->sample);
    *b = (data_blend){0};
}

/* ---- splits */

enum { NUMBER_MAX = 64 }; /* letters of one number */

const char *const data_split_names[DATA_SPLITS] = {"train", "valid", "test"};

static const char digits[] = "0123456789.";

/* One number of `n` letters, all digits and dots. */
static bool split_number(const char *text, size_t n, double *v)
{
    char copy[NUMBER_MAX], *end;
    if (n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *v = strtod(copy, &end);
    return end == copy + n && isfinite(*v); /* "1.2.3" and "." are none */
}

static status split_numbers(double *v, const char *text, error *err)
{
    int n_numbers = 0;
    for (const char *p = text + strcspn(text, digits); *p; p += strcspn(p, digits)) {
        size_t n = strspn(p, digits);
        if (n_numbers == DATA_SPLITS)
            return error_set(
                err, ERR_INPUT,
                "dataset.split '%.100s' has more than three numbers; it names the parts "
                "for training, validation and test",
                text);
        if (!split_number(p, n, &v[n_numbers++]))
            return error_set(err, ERR_INPUT,
                             "dataset.split '%.100s' has '%.*s', which is not a number", text,
                             (int)(n < 60 ? n : 60), p);
        p += n;
    }
    return OK;
}

status split_parse(split_ends *ends, const char *text, error *err)
{
    double part[DATA_SPLITS] = {0};
    TRY(split_numbers(part, text, err));
    double sum = numpy_sum(part, DATA_SPLITS);
    if (!(sum > 0) || !isfinite(sum))
        return error_set(
            err, ERR_INPUT,
            "dataset.split '%.100s' gives nothing to any part; write three numbers such "
            "as '969, 30, 1'",
            text);
    numpy_normalize(part, DATA_SPLITS);
    double at = 0;
    for (int i = 0; i < DATA_SPLITS; i++) {
        ends->begin[i] = at;
        at += part[i];
        ends->end[i] = at;
        ends->present[i] = ends->begin[i] < at;
    }
    return OK;
}

split_range split_of(const split_ends *ends, data_split which, int64_t n_sequences)
{
    double n = (double)n_sequences;
    if (!ends->present[which]) return (split_range){0, 0};
    return (split_range){(int64_t)rint(ends->begin[which] * n),
                         (int64_t)rint(ends->end[which] * n)};
}
