/* pipeline_string.c - layout strings such as Et|(tt|)*30mL: reading, writing, balancing.
 *
 *     string = { part [ "*" number ] }
 *     part   = "E" | "t" | "m" | "L" | "|" | "(" string ")"      parentheses need their number
 *
 * I1  The reader unfolds into one text of letters and bars. It only grows, and never beyond the
 *     limits in pipeline.h, so no repetition of repetitions can cost more than that text.
 * I2  What is written has no parentheses inside parentheses: Megatron's reader knows one level. */
#include "layout/pipeline.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/maths.h"

/* ---- reading */

typedef struct reader {
    const char *text;
    size_t at;
    int depth;
    textbuf out;
    error *err;
} reader;

static status complain(const reader *in, size_t at, const char *what)
{
    return error_set(in->err, ERR_INPUT, "%s: column %zu: %s, in '%.200s'", knobs[K_PP_LAYOUT].key,
                     at + 1, what, in->text);
}

static char peek(reader *in)
{
    while (in->text[in->at] == ',' || isspace((unsigned char)in->text[in->at])) in->at++;
    return in->text[in->at];
}

static status put(reader *in, const char *s, size_t n, size_t times, size_t at)
{
    size_t room = STAGE_LETTERS_MAX + STAGES_MAX - in->out.n;
    if (n && times > room / n)
        return complain(in, at, "more stages and layers than any model"); /* I1 */
    for (size_t i = 0; i < times; i++) text_put(&in->out, s, n);
    return OK;
}

/* "*12" after a part that begins at out[from]: writes it eleven times more. */
static status repeat(reader *in, size_t from)
{
    size_t at = in->at++;
    int64_t times = 0;
    if (!isdigit((unsigned char)peek(in))) return complain(in, at, "a number belongs after *");
    for (; isdigit((unsigned char)in->text[in->at]); in->at++)
        if (times <= STAGE_LETTERS_MAX) times = times * 10 + (in->text[in->at] - '0');
    if (times < 1 || times > STAGE_LETTERS_MAX)
        return complain(in, at, "a repetition is a number from 1 to 1048576");
    size_t n = in->out.n - from;
    const char *part = arena_copy(in->out.a, in->out.s + from, n); /* `out` moves when it grows */
    return put(in, part, n, (size_t)times - 1, at);
}

static status read_parts(reader *in);

static status read_parentheses(reader *in)
{
    size_t at = in->at++, from = in->out.n;
    if (++in->depth > LAYOUT_DEPTH_MAX)
        return complain(in, at, "too many parentheses inside each other");
    TRY(read_parts(in));
    if (peek(in) != ')') return complain(in, at, "this parenthesis is never closed");
    if (in->out.n == from) return complain(in, at, "these parentheses are empty");
    in->at++;
    in->depth--;
    return peek(in) == '*' ? OK : complain(in, at, "these parentheses need *n behind them");
}

static status read_parts(reader *in)
{
    for (char c = peek(in); c && c != ')'; c = peek(in)) {
        size_t from = in->out.n;
        status s;
        if (c == '(')
            s = read_parentheses(in);
        else if (strchr("EtmL|", c))
            s = put(in, &c, 1, 1, in->at++);
        else
            return complain(in, in->at, "stages are made of E, t, m, L, |, x*n and (..)*n");
        if (!s && peek(in) == '*') s = repeat(in, from);
        if (s) return s;
    }
    return OK;
}

/* Cuts the unfolded text at its bars. */
static status cut(reader *in, const char ***stages, int *n_stages)
{
    size_t n = 1;
    for (size_t i = 0; i < in->out.n; i++) n += in->out.s[i] == '|';
    if (n > STAGES_MAX) return complain(in, 0, "more stages than any model");
    const char **list = ARENA_ARRAY(in->out.a, const char *, n);
    char *p = in->out.s;
    for (size_t i = 0; i < n; i++) {
        list[i] = p;
        p += strcspn(p, "|");
        *p++ = 0;
    }
    *stages = list;
    *n_stages = (int)n;
    return OK;
}

status pipeline_parse(arena *a, const char *layout, const char ***stages, int *n_stages, error *err)
{
    reader in = {.text = layout, .out = text_init(a), .err = err};
    TRY(read_parts(&in));
    if (in.text[in.at] == ')') return complain(&in, in.at, "this parenthesis was never opened");
    if (!in.out.n) return complain(&in, 0, "the layout is empty");
    return cut(&in, stages, n_stages);
}

/* ---- writing */

static void add_run(textbuf *t, char letter, int64_t n)
{
    if (n > 3)
        text_add(t, "%c*%" PRId64, letter, n);
    else
        for (int64_t i = 0; i < n; i++) text_put(t, &letter, 1);
}

static void add_stage(textbuf *t, const stage *s)
{
    if (s->embedding) text_add(t, "E");
    add_run(t, 't', s->n_layers);
    add_run(t, 'm', s->n_mtp);
    if (s->loss) text_add(t, "L");
}

static bool alike(const stage *a, const stage *b)
{
    return a->n_layers == b->n_layers && a->n_mtp == b->n_mtp && a->embedding == b->embedding &&
           a->loss == b->loss;
}

/* `n` times "STAGE|", folded where that is shorter. */
static void add_stages(textbuf *t, const stage *s, int64_t n)
{
    textbuf one = text_init(t->a);
    add_stage(&one, s);
    const char *folded = arena_text(t->a, "(%s|)*%" PRId64, one.s, n);
    if ((int64_t)strlen(folded) < n * (int64_t)(one.n + 1)) {
        text_add(t, "%s", folded);
        return;
    }
    for (int64_t i = 0; i < n; i++) text_add(t, "%s|", one.s);
}

const char *pipeline_text(arena *a, const pipeline *p)
{
    textbuf t = text_init(a);
    int64_t last = p->stages ? p->pp * p->vpp - 1 : -1;
    for (int64_t i = 0, n; i < last; i += n) {
        for (n = 1; i + n < last && alike(&p->stages[i], &p->stages[i + n]);) n++;
        add_stages(&t, &p->stages[i], n);
    }
    if (last >= 0) add_stage(&t, &p->stages[last]);
    return t.s;
}

/* ---- balancing */

const char *pipeline_balanced(arena *a, int64_t n_layers, int64_t n_mtp, int64_t n_stages)
{
    if (n_stages < 1) n_stages = 1;
    pipeline p = {.pp = n_stages, .vpp = 1, .stages = ARENA_ARRAY(a, stage, n_stages)};
    stage *first = &p.stages[0], *last = &p.stages[n_stages - 1];
    int64_t end = n_mtp + 1, units = n_layers + 1 + end, open = n_stages;
    if (n_stages > 1 && units / n_stages < end) { /* what must be last is a full share already */
        units -= end;
        open--;
    }
    for (int64_t i = 0; i < open; i++) p.stages[i].n_layers = units / open + (i < units % open);
    first->n_layers -= 1;
    if (open == n_stages) last->n_layers -= end;
    first->embedding = last->loss = true;
    last->n_mtp = n_mtp;
    return pipeline_text(a, &p);
}
