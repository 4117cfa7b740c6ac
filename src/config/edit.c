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
    value *items = ARENA_ARRAY(a, value, (int64_t)e->words.n);
    for (size_t i = 0; i < e->words.n; i++)
        items[i] = value_of_text(job_word(e->k, e->words.word[i]));
    return (value){.kind = V_LIST, .list = {items, (int)e->words.n}};
}

bool edits_apply(recipe *r, edits e, const char *why)
{
    error err;
    for (size_t i = 0; i < e.n; i++)
        if (recipe_set_knob(r, e.list[i].k, value_of(&e.list[i], r->a), why, &err)) return false;
    return true;
}

const char *edits_text(edits e, arena *a)
{
    textbuf t = text_init(a);
    for (size_t i = 0; i < e.n; i++) {
        text_add(&t, "%s%s=", i ? " " : "", knobs[e.list[i].k].key);
        value_print(&t, value_of(&e.list[i], a));
    }
    return t.n ? t.s : "";
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
