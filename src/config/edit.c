/* edit.c - edits of a recipe: applied, and as words. */
#include "config/edit.h"

#include <string.h>

#include "config/job_of.h"

bool edits_resolve(edits *out, edits e, const job *j, arena *a)
{
    edit *list = ARENA_ARRAY(a, edit, (int64_t)e.n);
    for (size_t i = 0; i < e.n; i++) {
        list[i] = e.list[i];
        if (list[i].kind != EDIT_DOUBLE && list[i].kind != EDIT_HALVE) continue;
        int64_t now = job_int(j, list[i].k);
        bool half = list[i].kind == EDIT_HALVE;
        if (half && (now < 2 || now % 2)) return false;
        list[i].kind = EDIT_INT;
        list[i].whole = half ? now / 2 : (now > 0 ? now : 1) * 2;
    }
    *out = (edits){list, e.n};
    return true;
}

static value value_of(const edit *e, arena *a)
{
    if (e->kind == EDIT_FLAG) return value_of_bool(e->flag);
    if (e->kind == EDIT_INT) return value_of_int(e->whole);
    if (e->kind == EDIT_REAL) return value_of_float(e->real);
    if (e->kind == EDIT_WORD) return value_of_text(job_word(e->k, e->word));
    if (e->kind == EDIT_NULL) return (value){.kind = V_NULL};
    if (e->kind == EDIT_READ) return e->read.v;
    value *items = ARENA_ARRAY(a, value, (int64_t)e->words.n);
    for (size_t i = 0; i < e->words.n; i++)
        items[i] = value_of_text(job_word(e->k, e->words.word[i]));
    return (value){.kind = V_LIST, .list = {items, (int)e->words.n}};
}

bool edits_apply(recipe *r, edits e, const char *why)
{
    error err;
    for (size_t i = 0; i < e.n; i++) {
        const edit *x = &e.list[i];
        value v = value_of(x, r->a);
        if (x->kind == EDIT_READ && x->k != K_COUNT) v = recipe_located(r, x->k, v, "");
        const char *key = x->kind != EDIT_READ ? NULL : x->read.key ? x->read.key : knobs[x->k].key;
        if (key ? recipe_set_key(r, key, v, why, &err) : recipe_set_knob(r, x->k, v, why, &err))
            return false;
    }
    return true;
}

bool edit_read(edit *out, const char *assignment, arena *a)
{
    const char *equals = strchr(assignment, '=');
    const char *key = arena_copy(a, assignment, (size_t)(equals - assignment));
    bool is_alias = false;
    error err;
    int k = knob_find(key, &is_alias);
    *out = (edit){.k = k < 0 ? K_COUNT : (knob_id)k, .kind = EDIT_READ};
    out->read.text = assignment;
    out->read.key = k < 0 || is_alias ? key : NULL;
    out->read.v = value_of_text(equals + 1);
    return k < 0 || !knob_parse(a, (knob_id)k, equals + 1, &out->read.v, &err);
}

edits edits_kept(edits e, arena *a)
{
    edit *list = ARENA_ARRAY(a, edit, (int64_t)e.n);
    for (size_t i = 0; i < e.n; i++) {
        const edit *x = &e.list[i];
        list[i] = *x;
        if (x->kind == EDIT_READ)
            edit_read(&list[i], arena_copy(a, x->read.text, strlen(x->read.text)), a);
        if (x->kind == EDIT_WORDS && x->words.n) {
            signed char *word = ARENA_ARRAY(a, signed char, (int64_t)x->words.n);
            memcpy(word, x->words.word, x->words.n);
            list[i].words.word = word;
        }
    }
    return (edits){list, e.n};
}

static const char *text_of(const edit *e, arena *a)
{
    if (e->kind == EDIT_READ) return e->read.text;
    textbuf t = text_init(a);
    text_add(&t, "%s=", knobs[e->k].key);
    value_print(&t, value_of(e, a));
    return t.s;
}

const char *edits_text(edits e, arena *a)
{
    textbuf t = text_init(a);
    for (size_t i = 0; i < e.n; i++) text_add(&t, "%s%s", i ? " " : "", text_of(&e.list[i], a));
    return t.n ? t.s : "";
}

const char *const *edits_words(edits e, arena *a)
{
    const char **words = ARENA_ARRAY(a, const char *, (int64_t)e.n + 1);
    for (size_t i = 0; i < e.n; i++) words[i] = text_of(&e.list[i], a);
    return words;
}

edits edits_join(edits first, edits then, arena *a)
{
    edit *list = ARENA_ARRAY(a, edit, (int64_t)(first.n + then.n));
    if (first.n) memcpy(list, first.list, first.n * sizeof *list);
    if (then.n) memcpy(list + first.n, then.list, then.n * sizeof *list);
    return (edits){list, first.n + then.n};
}

bool edits_name(edits e, knob_id k)
{
    for (size_t i = 0; i < e.n; i++)
        if (e.list[i].k == k) return true;
    return false;
}

bool edit_holds(const edit *e, const job *j)
{
    if (e->kind == EDIT_NULL || !job_has(j, e->k)) return e->kind == EDIT_NULL && !job_has(j, e->k);
    if (e->kind == EDIT_FLAG) return job_flag(j, e->k) == e->flag;
    if (e->kind == EDIT_INT) return job_int(j, e->k) == e->whole;
    return job_word_of(j, e->k) == e->word;
}

/* ---- sets */

static bool same_key(const edit *x, const edit *y)
{
    const char *a = x->kind == EDIT_READ ? x->read.key : NULL,
               *b = y->kind == EDIT_READ ? y->read.key : NULL;
    return x->k == y->k && (a == b || (a && b && strcmp(a, b) == 0));
}

static size_t place_of(edits set, const edit *one)
{
    size_t i = 0;
    while (i < set.n && !same_key(&set.list[i], one)) i++;
    return i;
}

bool edits_have(edits e, const edit *x, arena *a)
{
    size_t i = place_of(e, x);
    return i < e.n && value_equal(value_of(&e.list[i], a), value_of(x, a));
}

edits edits_put(edits set, edit one, arena *a)
{
    size_t at = place_of(set, &one), n = set.n + (at == set.n);
    edit *list = ARENA_ARRAY(a, edit, (int64_t)n);
    if (set.n) memcpy(list, set.list, set.n * sizeof *list);
    list[at] = one;
    return (edits){list, n};
}

edits edits_without(edits set, size_t i, arena *a)
{
    edit *list = ARENA_ARRAY(a, edit, (int64_t)set.n);
    memcpy(list, set.list, i * sizeof *list);
    memcpy(list + i, set.list + i + 1, (set.n - i - 1) * sizeof *list);
    return (edits){list, set.n - 1};
}

bool edits_add(edits *set, edits more, arena *a)
{
    for (size_t i = 0; i < more.n; i++) {
        if (edits_have(*set, &more.list[i], a)) continue;
        if (place_of(*set, &more.list[i]) < set->n) return false;
        *set = edits_put(*set, more.list[i], a);
    }
    return true;
}

edits edits_thin(edits set, bool (*enough)(void *with, edits set), void *with, arena *a)
{
    for (bool dropped = true; dropped;) { /* what is dropped late may free what was kept before */
        dropped = false;
        for (size_t i = set.n; i-- > 0;) {
            edits less = edits_without(set, i, a);
            if (!enough(with, less)) continue;
            set = less;
            dropped = true;
        }
    }
    return set;
}
