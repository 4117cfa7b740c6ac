/* moefold.c - the planner as a library: what include/moefold.h says, by the rooms below. */
#include <moefold.h>

#include <stdlib.h>
#include <string.h>

#include "answer/price.h"
#include "config/input.h"
#include "config/models/models.h"
#include "predict/audit/audit.h"
#include "train/executor/timing.h"

struct moefold_job {
    arena *a;
    error err;
    recipe given;
    setup s;
    violations found;
};

struct moefold_answer {
    json_t *root;
};

static moefold_status said(status st)
{
    return st == OK          ? MOEFOLD_OK
           : st == ERR_RULE  ? MOEFOLD_RULE
           : st == ERR_INPUT ? MOEFOLD_INPUT
                             : MOEFOLD_MACHINE;
}

static status read_words(moefold_job *j, const char *const *words, int n)
{
    recipe *r = &j->given;
    error *err = &j->err;
    if (n < 1)
        return error_set(err, ERR_INPUT,
                         "no word is given; the first is a preset model or a recipe's file");
    recipe_init(r, j->a, arena_text(j->a, "%s", words[0]));
    status st = OK;
    if (model_is_named(words[0]))
        recipe_set(r, K_MODEL, value_of_text(r->name), "words");
    else
        st = input_read(r, r->name, NULL, err);
    for (int i = 1; i < n && !st; i++)
        st = recipe_override(r, arena_text(j->a, "%s", words[i]), "words", err);
    if (!st) st = recipe_read_machine(r, err);
    return st ? st : model_fill(r, err);
}

moefold_status moefold_open(moefold_job **out, const char *const *words, int n)
{
    arena *a = arena_create();
    moefold_job *j = *out = ARENA_NEW(a, moefold_job);
    j->a = a;
    status st = read_words(j, words, n);
    if (!st) st = setup_init(&j->s, &j->given, a, &j->err);
    if (st) return said(st);
    setup_states(&j->s, a);
    rules_check(&j->found, &j->s, false, a);
    rules_prove(&j->found, &j->s, false, a);
    return MOEFOLD_OK;
}

void moefold_close(moefold_job *j)
{
    if (j) arena_destroy(j->a);
}

const char *moefold_why(const moefold_job *j)
{
    return j->err.text;
}

static void answered(moefold_answer **out, json_t *root)
{
    *out = malloc(sizeof **out);
    if (*out)
        (*out)->root = root;
    else
        json_decref(root);
}

moefold_status moefold_check(moefold_job *j, moefold_answer **out)
{
    const setup *s = &j->s;
    arena *a = arena_create();
    hardware hw;
    *out = NULL;
    j->err = (error){{0}};
    fit f = {.why_not = audit_why_not_of(s, &j->found, a)};
    status st = f.why_not ? OK : timing_machine(&hw, s, a, &j->err);
    if (st) {
        arena_destroy(a);
        return said(st);
    }
    if (!f.why_not) fit_of(&f, s, &j->found, &hw, a);
    state_bytes state;
    bool laid_out = s->possible && !s->pipe.why_not;
    int64_t pp = !laid_out   ? 0
                 : f.why_not ? setup_fullest(s, &state)
                             : rank_coordinates(&s->lay, f.fullest).pp;
    verdict_answer x = {.ok = !j->found.n_errors,
                        .fit = answer_fit(&f, a),
                        .recipe = s->r.name,
                        .notes = answer_texts(s->r.notes, s->r.n_notes, a),
                        .model = answer_model(s, a),
                        .layout = answer_layout(s, a),
                        .memory = laid_out ? answer_memory(s, pp, &f, a) : NULL};
    x.violations = answer_violations(&x.n_violations, &j->found, a);
    answered(out, answer_json(verdict_answer, &x));
    arena_destroy(a);
    return *out ? MOEFOLD_OK : MOEFOLD_MACHINE;
}

moefold_status moefold_price(moefold_job *j, moefold_answer **out)
{
    const setup *s = &j->s;
    arena *a = arena_create();
    hardware hw;
    price p;
    price_answer x;
    *out = NULL;
    j->err = (error){{0}};
    const char *why_not = audit_not_known(s, a);
    if (!why_not) why_not = audit_why_not_of(s, &j->found, a);
    status st = why_not ? error_set(&j->err, ERR_RULE, "no program can be built: %s", why_not)
                        : timing_machine(&hw, s, a, &j->err);
    if (!st) {
        const price_options o = {.stack = NULL};
        const price_job asked = {s, &hw, &o};
        price_setup(&p, s, &hw, &o, a);
        answer_price(&x, &p, &asked, a);
        x.violations = answer_violations(&x.n_violations, &j->found, a);
        answered(out, answer_json(price_answer, &x));
    }
    arena_destroy(a);
    return st ? said(st) : *out ? MOEFOLD_OK : MOEFOLD_MACHINE;
}

void moefold_answer_free(moefold_answer *answer)
{
    if (!answer) return;
    json_decref(answer->root);
    free(answer);
}

/* ---- fields */

static const json_t *at(const moefold_answer *answer, const char *path)
{
    const json_t *x = answer->root;
    for (const char *p = path; x && *p; p += strspn(p, ".")) {
        char key[256], *end;
        size_t n = strcspn(p, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, p, n);
        key[n] = 0;
        long place = strtol(key, &end, 10);
        bool in_list = json_is_array(x) && end != key && !*end && place >= 0;
        x = in_list ? json_array_get(x, (size_t)place) : json_object_get(x, key);
        p += n;
    }
    return x;
}

bool moefold_bool(const moefold_answer *answer, const char *path, bool *out)
{
    const json_t *x = at(answer, path);
    if (json_is_boolean(x)) *out = json_is_true(x);
    return json_is_boolean(x);
}

bool moefold_integer(const moefold_answer *answer, const char *path, int64_t *out)
{
    const json_t *x = at(answer, path);
    if (json_is_integer(x)) *out = json_integer_value(x);
    return json_is_integer(x);
}

bool moefold_real(const moefold_answer *answer, const char *path, double *out)
{
    const json_t *x = at(answer, path);
    if (json_is_number(x)) *out = json_number_value(x);
    return json_is_number(x);
}

const char *moefold_text(const moefold_answer *answer, const char *path)
{
    return json_string_value(at(answer, path));
}

int64_t moefold_count(const moefold_answer *answer, const char *path)
{
    const json_t *x = at(answer, path);
    return json_is_array(x)    ? (int64_t)json_array_size(x)
           : json_is_object(x) ? (int64_t)json_object_size(x)
                               : -1;
}

char *moefold_json(const moefold_answer *answer)
{
    return json_dumps(answer->root, JSON_COMPACT | JSON_REAL_PRECISION(17));
}
