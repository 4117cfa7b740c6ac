/* job_of.c - each knob's value in its field. A value of another kind than the knob's, which a rule
 * names, and one of a knob that is open read as null. */
#include "config/job_of.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

typedef enum field_type {
    ONE_BOOL,
    ONE_INT,
    ONE_FLOAT,
    ONE_ENUM,
    ONE_TEXT,
    MANY_INT,
    MANY_FLOAT,
    MANY_ENUM,
    MANY_TEXT
} field_type;

typedef struct field {
    field_type type;
    size_t at;
    const char *const *words; /* of an ENUM, behind null */
} field;

#include "config/job_words.h"

static int64_t whole_of(value v)
{
    return v.kind == V_INT ? v.whole : 0;
}

static double real_of(value v)
{
    return v.kind == V_FLOAT ? v.real : v.kind == V_INT ? (double)v.whole : 0;
}

static const char *text_of(value v)
{
    return v.kind == V_TEXT ? v.text : NULL;
}

static signed char word_of(const field *f, value v)
{
    signed char i = 0;
    if (v.kind != V_TEXT) return 0;
    while (f->words[i] && strcmp(f->words[i], v.text) != 0) i++;
    return (signed char)(i + 1); /* J_..._OTHER, where it is none of them */
}

static int n_items(value v)
{
    return v.kind == V_LIST ? v.list.n : v.kind != V_NULL;
}

static value item_of(value v, int i)
{
    return v.kind == V_LIST ? v.list.items[i] : v;
}

/* One word needs no memory: a search takes it again and again. */
static const signed char each_word[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void take_many(void *to, const field *f, value v, arena *a)
{
    int n = n_items(v);
    if (f->type == MANY_INT) {
        int64_t *item = ARENA_ARRAY(a, int64_t, n);
        for (int i = 0; i < n; i++) item[i] = whole_of(item_of(v, i));
        *(job_numbers *)to = (job_numbers){item, n, v.kind == V_LIST};
    } else if (f->type == MANY_FLOAT) {
        double *item = ARENA_ARRAY(a, double, n);
        for (int i = 0; i < n; i++) item[i] = real_of(item_of(v, i));
        *(job_reals *)to = (job_reals){item, n, v.kind == V_LIST};
    } else if (f->type == MANY_TEXT) {
        const char **item = ARENA_ARRAY(a, const char *, n);
        for (int i = 0; i < n; i++) item[i] = text_of(item_of(v, i));
        *(job_texts *)to = (job_texts){item, n};
    } else if (n == 1 && v.kind != V_LIST) {
        signed char word = word_of(f, v);
        *(job_words *)to = (job_words){&each_word[word], 1, false, 1u << word};
    } else {
        signed char *item = ARENA_ARRAY(a, signed char, n);
        unsigned set = 0;
        for (int i = 0; i < n; i++) set |= 1u << (item[i] = word_of(f, item_of(v, i)));
        *(job_words *)to = (job_words){item, n, v.kind == V_LIST, set};
    }
}

void job_take(job *j, const recipe *r, knob_id k)
{
    const field *f = &fields[k];
    const value null = {.kind = V_NULL}, v = r->knob[k].from == FROM_NOTHING ? null : r->knob[k].v;
    void *to = (char *)j + f->at;
    uint64_t bit = UINT64_C(1) << k % 64;
    j->given[k / 64] = v.kind == V_NULL ? j->given[k / 64] & ~bit : j->given[k / 64] | bit;
    switch (f->type) {
    case ONE_BOOL:
        *(bool *)to = v.kind == V_BOOL && v.flag;
        break;
    case ONE_INT:
        *(int64_t *)to = whole_of(v);
        break;
    case ONE_FLOAT:
        *(double *)to = real_of(v);
        break;
    case ONE_ENUM:
        *(signed char *)to = word_of(f, v);
        break;
    case ONE_TEXT:
        *(const char **)to = text_of(v);
        break;
    default:
        take_many(to, f, v, r->a);
    }
    if (k == K_GPU) j->machine = recipe_gpu(r);
}

void job_of(job *j, const recipe *r)
{
    memset(j, 0, sizeof *j);
    for (int k = 0; k < K_COUNT; k++) job_take(j, r, (knob_id)k);
}

bool resolve_is_open(const resolving *d, knob_id k)
{
    return d->r->knob[k].from == FROM_NOTHING;
}

void resolve_fill(resolving *d, knob_id k, value v, origin from, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (recipe_fill_list(d->r, k, v, from, format, args)) job_take(d->j, d->r, k);
    va_end(args);
}

void resolve_default(resolving *d, knob_id k)
{
    if (d->r->knob[k].from != FROM_NOTHING) return;
    recipe_fill_default(d->r, k);
    job_take(d->j, d->r, k);
}

void resolve_defaults(resolving *d)
{
    for (int k = 0; k < K_COUNT; k++) resolve_default(d, (knob_id)k);
}

/* ---- one knob */

static void *field_of(job *j, knob_id k, bool given)
{
    uint64_t bit = UINT64_C(1) << k % 64;
    j->given[k / 64] = given ? j->given[k / 64] | bit : j->given[k / 64] & ~bit;
    return (char *)j + fields[k].at;
}

static const size_t sizes[] = {[ONE_BOOL] = sizeof(bool),         [ONE_INT] = sizeof(int64_t),
                               [ONE_FLOAT] = sizeof(double),      [ONE_ENUM] = sizeof(signed char),
                               [ONE_TEXT] = sizeof(const char *), [MANY_INT] = sizeof(job_numbers),
                               [MANY_FLOAT] = sizeof(job_reals),  [MANY_ENUM] = sizeof(job_words),
                               [MANY_TEXT] = sizeof(job_texts)};

void job_put_null(job *j, knob_id k)
{
    memset(field_of(j, k, false), 0, sizes[fields[k].type]);
}

void job_put_flag(job *j, knob_id k, bool flag)
{
    assert(fields[k].type == ONE_BOOL);
    *(bool *)field_of(j, k, true) = flag;
}

void job_put_int(job *j, knob_id k, int64_t whole)
{
    assert(fields[k].type == ONE_INT);
    *(int64_t *)field_of(j, k, true) = whole;
}

void job_put_real(job *j, knob_id k, double real)
{
    assert(fields[k].type == ONE_FLOAT);
    *(double *)field_of(j, k, true) = real;
}

void job_put_word(job *j, knob_id k, int word)
{
    if (fields[k].type == MANY_ENUM) {
        job_words one = {&each_word[word], word != 0, false, (unsigned)(word != 0) << word};
        *(job_words *)field_of(j, k, word != 0) = one;
        return;
    }
    assert(fields[k].type == ONE_ENUM);
    *(signed char *)field_of(j, k, word != 0) = (signed char)word;
}

void job_put_words(job *j, knob_id k, const signed char *item, int n)
{
    unsigned set = 0;
    assert(fields[k].type == MANY_ENUM);
    for (int i = 0; i < n; i++) set |= 1u << item[i];
    *(job_words *)field_of(j, k, true) = (job_words){item, n, true, set};
}

void job_put_ints(job *j, knob_id k, const int64_t *item, int n)
{
    assert(fields[k].type == MANY_INT);
    *(job_numbers *)field_of(j, k, true) = (job_numbers){item, n, true};
}

bool job_flag(const job *j, knob_id k)
{
    assert(fields[k].type == ONE_BOOL);
    return *(const bool *)((const char *)j + fields[k].at);
}

int job_word_of(const job *j, knob_id k)
{
    assert(fields[k].type == ONE_ENUM);
    return *((const signed char *)j + fields[k].at);
}

int64_t job_int(const job *j, knob_id k)
{
    assert(fields[k].type == ONE_INT);
    return *(const int64_t *)((const char *)j + fields[k].at);
}

void job_put_as(job *j, const job *from, knob_id k)
{
    void *to = field_of(j, k, job_has(from, k));
    memcpy(to, (const char *)from + fields[k].at, sizes[fields[k].type]);
    if (k == K_GPU) j->machine = from->machine;
}

const char *job_word(knob_id k, int word)
{
    const char *const *w = fields[k].words;
    if (!w || word < 1) return NULL;
    for (int i = 1; w[i - 1]; i++)
        if (i == word) return w[i - 1];
    return NULL;
}

/* ---- two jobs */

static bool same_words(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_many(const field *f, const void *a, const void *b)
{
    if (f->type == MANY_INT) {
        const job_numbers *x = a, *y = b;
        return x->n == y->n && x->listed == y->listed &&
               (!x->n || memcmp(x->item, y->item, (size_t)x->n * sizeof *x->item) == 0);
    }
    if (f->type == MANY_FLOAT) {
        const job_reals *x = a, *y = b;
        return x->n == y->n && x->listed == y->listed &&
               (!x->n || memcmp(x->item, y->item, (size_t)x->n * sizeof *x->item) == 0);
    }
    if (f->type == MANY_ENUM) {
        const job_words *x = a, *y = b;
        return x->n == y->n && x->listed == y->listed &&
               (!x->n || memcmp(x->item, y->item, (size_t)x->n) == 0);
    }
    const job_texts *x = a, *y = b;
    if (x->n != y->n) return false;
    for (int i = 0; i < x->n; i++)
        if (!same_words(x->item[i], y->item[i])) return false;
    return true;
}

bool job_same(const job *a, const job *b, knob_id k)
{
    const field *f = &fields[k];
    const void *x = (const char *)a + f->at, *y = (const char *)b + f->at;
    if (job_has(a, k) != job_has(b, k)) return false;
    switch (f->type) {
    case ONE_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case ONE_INT:
        return *(const int64_t *)x == *(const int64_t *)y;
    case ONE_FLOAT:
        return *(const double *)x == *(const double *)y;
    case ONE_ENUM:
        return *(const signed char *)x == *(const signed char *)y;
    case ONE_TEXT:
        return same_words(*(const char *const *)x, *(const char *const *)y);
    default:
        return same_many(f, x, y);
    }
}

bool job_equal(const job *a, const job *b)
{
    for (int k = 0; k < K_COUNT; k++)
        if (!job_same(a, b, (knob_id)k)) return false;
    return true;
}

/* FNV-1a */
static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    return text ? mix(h, text, strlen(text) + 1) : h;
}

static uint64_t mix_knob(uint64_t h, const field *f, const void *x)
{
    switch (f->type) {
    case ONE_FLOAT: {
        double real = *(const double *)x + 0.0; /* -0 is 0 */
        return mix(h, &real, sizeof real);
    }
    case ONE_TEXT:
        return mix_text(h, *(const char *const *)x);
    case MANY_INT: {
        const job_numbers *many = x;
        h = mix(h, &many->listed, sizeof many->listed);
        return mix(h, many->item, (size_t)many->n * sizeof *many->item);
    }
    case MANY_FLOAT: {
        const job_reals *many = x;
        h = mix(h, &many->listed, sizeof many->listed);
        return mix(h, many->item, (size_t)many->n * sizeof *many->item);
    }
    case MANY_ENUM: {
        const job_words *many = x;
        h = mix(h, &many->listed, sizeof many->listed);
        return mix(h, many->item, (size_t)many->n);
    }
    case MANY_TEXT: {
        const job_texts *many = x;
        for (int i = 0; i < many->n; i++) h = mix_text(h, many->item[i]);
        return h;
    }
    default:
        return mix(h, x, sizes[f->type]);
    }
}

uint64_t job_hash(const job *j)
{
    uint64_t h = 14695981039346656037u;
    for (int k = 0; k < K_COUNT; k++) {
        if (!job_has(j, (knob_id)k)) continue;
        h = mix(h, &k, sizeof k);
        h = mix_knob(h, &fields[k], (const char *)j + fields[k].at);
    }
    return h;
}
