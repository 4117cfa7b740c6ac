/* stored.c - which knobs make a model, a job and a run the same one. */
#include "config/stored.h"

#include <string.h>

#include "base/text.h"

enum { NAMED_MAX = 12 };

static bool differs(const recipe *then, const recipe *now, knob_id k)
{
    if (then->knob[k].from == FROM_NOTHING || now->knob[k].from == FROM_NOTHING) return false;
    return !value_equal(then->knob[k].v, now->knob[k].v); /* I1 */
}

static status other_model(const stored_recipe *stored, const recipe *then, const recipe *now,
                          knob_id k, arena *a, error *err)
{
    const char *was = value_text(a, then->knob[k].v), *is = value_text(a, now->knob[k].v);
    const char *anew =
        arena_text(a, ", or %s=true to start anew from its weights", knobs[K_FINETUNE].key);
    return error_set(err, ERR_INPUT,
                     "%s: is of another model: %s was %s there and is %s here; repair: %s=%s%s",
                     stored->path, knobs[k].key, was, is, knobs[k].key, was,
                     knob_is_of(k, OF_SHAPE) ? "" : anew);
}

static void name_one(textbuf *out, const recipe *then, const recipe *now, knob_id k, int n)
{
    if (n > NAMED_MAX) return;
    text_add(out, "%s%s %s -> %s", n > 1 ? ", " : "", knobs[k].key,
             value_text(out->a, then->knob[k].v), value_text(out->a, now->knob[k].v));
}

static status read_then(recipe *then, const stored_recipe *stored, arena *a, error *err)
{
    recipe_init(then, a, stored->path);
    return recipe_parse_yaml(then, stored->path, stored->text, strlen(stored->text), err);
}

status stored_compare(const stored_recipe *stored, const recipe *now, bool resumes,
                      textbuf *changed, error *err)
{
    arena *a = changed->a;
    recipe *then = ARENA_NEW(a, recipe);
    error why = {{0}};
    int n = 0;
    if (read_then(then, stored, a, &why)) {
        text_add(changed, "the recipe in the checkpoint cannot be compared: %s", why.text);
        return OK;
    }
    for (knob_id k = 0; k < K_COUNT; k++) {
        if (knob_is_of(k, OF_RUN) || (k == K_BUFFER_FACTOR && stored->grew) ||
            !differs(then, now, k))
            continue;
        if (resumes && knob_is_of(k, OF_MODEL)) return other_model(stored, then, now, k, a, err);
        name_one(changed, then, now, k, ++n);
    }
    if (n > NAMED_MAX) text_add(changed, " and %d more", n - NAMED_MAX);
    return OK;
}

/* Where the weights came from is a person's to leave out once there is a checkpoint. */
static bool is_another_job(const recipe *then, const recipe *now, knob_id k)
{
    if (k == K_PRETRAINED && !recipe_given(now, k)) return false;
    return (k == K_PRETRAINED || knob_is_of(k, OF_JOB)) && differs(then, now, k);
}

status stored_same_job(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err)
{
    arena *a = arena_create();
    recipe *then = ARENA_NEW(a, recipe);
    const char *save = knobs[K_SAVE].key;
    status s = read_then(then, stored, a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++) {
        if (!is_another_job(then, now, k)) continue;
        const char *was = value_text(a, then->knob[k].v), *is = value_text(a, now->knob[k].v);
        const char *on = knob_is_of(k, OF_MODEL)
                             ? ""
                             : arena_text(a, ", or %s=%s to go on from it with this recipe",
                                          knobs[K_LOAD].key, folder);
        s = error_set(err, ERR_INPUT,
                      "%s=%s: holds iteration %lld of another job: %s was %s there and is %s here; "
                      "repair: %s=ANOTHER_FOLDER to start at step 0, or %s=%s to go on with that "
                      "job%s",
                      save, folder, (long long)stored->iteration, knobs[k].key, was, is, save,
                      knobs[k].key, was, on);
    }
    arena_destroy(a);
    return s;
}

status stored_same_run(const stored_recipe *stored, const recipe *now, const char *folder,
                       error *err)
{
    arena *a = arena_create();
    recipe *then = ARENA_NEW(a, recipe);
    status s = read_then(then, stored, a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++) {
        const setting *is = &now->knob[k], *was = &then->knob[k];
        bool is_set = is->from == FROM_USER || is->from == FROM_MODEL;
        bool was_set = was->from == FROM_USER;
        if ((!is_set && !was_set) || !knob_is_of(k, OF_JOB)) continue;
        const char *x = was_set ? value_text(a, was->v) : "unset", *y = value_text(a, is->v);
        if (strcmp(x, y) != 0)
            s = error_set(err, ERR_INPUT,
                          "--run %s: the folder belongs to another run: %s=%s there, %s here; "
                          "repair: name another folder",
                          folder, knobs[k].key, x, y);
    }
    arena_destroy(a);
    return s;
}

status stored_model(const stored_recipe *stored, recipe *out, error *err)
{
    recipe *then = ARENA_NEW(out->a, recipe);
    status s = read_then(then, stored, out->a, err);
    for (knob_id k = 0; k < K_COUNT && !s; k++)
        if (knob_is_of(k, OF_EVAL) && then->knob[k].from != FROM_NOTHING)
            recipe_set(out, k, then->knob[k].v, "the checkpoint's");
    return s;
}

status stored_job(const stored_recipe *stored, job *out, arena *a, error *err)
{
    recipe *then = ARENA_NEW(a, recipe);
    TRY(read_then(then, stored, a, err));
    job_of(out, then);
    return OK;
}

int64_t stored_vocabulary(const stored_recipe *stored, arena *a)
{
    recipe *then = ARENA_NEW(a, recipe);
    error ignored;
    return read_then(then, stored, a, &ignored) ? 0 : recipe_int(then, K_VOCAB);
}
