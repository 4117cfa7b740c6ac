/* moefold.c - what include/moefold.h says, by the questions of this room. */
#include <moefold.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/caller.h"
#include "library/check.h"
#include "library/plan.h"
#include "library/price.h"

struct moefold_answer {
    json_t *root; /* NULL: none */
    status st;
    error err;
};

/* A call: its words, the first of which is the question's name. */
typedef struct call {
    const char *const *given;
    int n;
    moefold_answer *out;
    status (*ask)(struct call *c, arena *a);
    char **words;
} call;

/* Reads the words of a question without --help. */
static status read_words(call *c, const asked_words *w, recipe *r, megatron_options *how, arena *a)
{
    bool done = false;
    TRY(words_are_text(w->argc, w->argv, &c->out->err));
    words_files f = {.first = NULL};
    TRY(words_read(a, w, &f, r, &done, &c->out->err));
    *how = f.how;
    if (!done) return OK;
    return error_set(&c->out->err, ERR_INPUT, "--help is no question; `moefold %s --help` answers",
                     w->name);
}

static status ask_check(call *c, arena *a)
{
    word_option options[WORD_OPTIONS_MAX];
    check_words w = {0};
    recipe *r = ARENA_NEW(a, recipe);
    checked *x = ARENA_NEW(a, checked);
    megatron_options how;
    const asked_words words = {"check", c->n, c->words, options, check_options(options, &w)};
    TRY(read_words(c, &words, r, &how, a));
    w.json = true;
    TRY(check_run(x, r, &w, true, a, &c->out->err));
    c->out->root = check_json(x, a);
    return x->bad ? ERR_RULE : OK;
}

static status ask_price(call *c, arena *a)
{
    word_option options[WORD_OPTIONS_MAX];
    price_words w = {0};
    recipe *r = ARENA_NEW(a, recipe);
    priced *q = ARENA_NEW(a, priced);
    megatron_options how;
    const asked_words words = {"price", c->n, c->words, options, price_word_options(options, &w)};
    TRY(read_words(c, &words, r, &how, a));
    status st = price_run(q, r, &w, a, &c->out->err);
    if (!st || q->why_not) c->out->root = price_json(q, a);
    return st ? st : q->bad ? ERR_RULE : OK;
}

static status ask_plan(call *c, arena *a)
{
    word_option options[WORD_OPTIONS_MAX];
    plan_words w = {0};
    recipe *r = ARENA_NEW(a, recipe);
    plan_answer *p = ARENA_NEW(a, plan_answer);
    error *err = &c->out->err;
    char **list = ARENA_ARRAY(a, char *, c->n + 2);
    asked_words words = {"plan", 0, list, options, plan_options(options, &w)};
    TRY(plan_ready_words(c->n, c->words, list, &words.argc, &w, err));
    TRY(read_words(c, &words, r, &w.how, a));
    status st = plan_run(p, r, &w, a, err);
    if (!st || p->end == PLAN_LATE) c->out->root = plan_json(p, err->text, a);
    if (p->end == PLAN_REFUSED) error_set(err, ERR_RULE, "%s", plan_refusal_text(&p->refused, a));
    return st ? st : p->end == PLAN_FOUND ? OK : ERR_RULE;
}

static void work(void *of)
{
    static const char name[] = "moefold";
    call *c = of;
    arena *a = arena_create();
    c->words = ARENA_ARRAY(a, char *, c->n + 1);
    c->words[0] = arena_text(a, "%s", name);
    for (int i = 0; i < c->n; i++) c->words[i + 1] = arena_text(a, "%s", c->given[i]);
    c->n++;
    c->out->st = c->ask(c, a);
    arena_destroy(a);
}

/* Numbers are read and written with points, whatever the language of the caller. */
static moefold_status answered(moefold_answer **out, call c, const moefold_watch *watch)
{
    moefold_answer *x = *out = calloc(1, sizeof *x);
    if (!x) return MOEFOLD_MEMORY;
    caller by = {0};
    if (watch) by = (caller){.goes_on = watch->goes_on, .with = watch->with, .most = watch->memory};
    c.out = x;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), outer = uselocale(plain);
    caller_end end = caller_run(&by, work, &c);
    uselocale(outer);
    freelocale(plain);
    if (end) {
        json_decref(x->root);
        x->root = NULL;
        error_set(&x->err, ERR_MACHINE,
                  end == CALLER_CANCELLED ? "cancelled" : "no memory is left");
        return end == CALLER_CANCELLED ? MOEFOLD_CANCELLED : MOEFOLD_MEMORY;
    }
    return (moefold_status)x->st;
}

moefold_status moefold_check(moefold_answer **answer, const char *const *words, int n,
                             const moefold_watch *watch)
{
    return answered(answer, (call){.given = words, .n = n, .ask = ask_check}, watch);
}

moefold_status moefold_price(moefold_answer **answer, const char *const *words, int n,
                             const moefold_watch *watch)
{
    return answered(answer, (call){.given = words, .n = n, .ask = ask_price}, watch);
}

moefold_status moefold_plan(moefold_answer **answer, const char *const *words, int n,
                            const moefold_watch *watch)
{
    return answered(answer, (call){.given = words, .n = n, .ask = ask_plan}, watch);
}

const char *moefold_version(void)
{
    return MOEFOLD_VERSION;
}

void moefold_free(moefold_answer *answer)
{
    if (!answer) return;
    json_decref(answer->root);
    free(answer);
}

const char *moefold_why(const moefold_answer *answer)
{
    return answer ? answer->err.text : "no memory is left";
}

/* ---- fields */

static const json_t *at(const moefold_answer *answer, const char *path)
{
    const json_t *x = answer ? answer->root : NULL;
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
    return answer && answer->root ? json_dumps(answer->root, JSON_COMPACT | JSON_REAL_PRECISION(17))
                                  : NULL;
}
