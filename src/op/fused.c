/* fused.c - forms of fused kinds: the table, and reading it. */
#include "op/fused.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"

enum { PLACE_ALIGN = 256 };

/* KIND(sizes) inputs > outputs; ... A size is a product of the fused kind's, or a number. What is
 * between parts has, where it is first named, its elements, the operand whose format it has and,
 * behind ?, one without which it is missing. An operand that must be missing is -. */
typedef struct form_text {
    op_kind kind;
    unsigned fusion;
    const char *with; /* expansions: holds where this operand is there; NULL: always */
    const char *parts;
} form_text;

#define SPLIT_NORMED                                                                               \
    "QKV_SPLIT(T,N,G,D) qkv > ~q[T*N*D:qkv] ~k[T*G*D:qkv] v gate; NORM(T*N,D) ~q wq > q rq; "      \
    "NORM(T*G,D) ~k wk > k rk; ROPE(T,S,N,D,0,ROT) table > q; ROPE(T,S,G,D,0,ROT) table > k"
#define SPLIT_ONLY                                                                                 \
    "QKV_SPLIT(T,N,G,D) qkv > q k v gate; ROPE(T,S,N,D,0,ROT) table > q; "                         \
    "ROPE(T,S,G,D,0,ROT) table > k"
#define ADD_THEN_NORM  "ADD(M*H) a b > h; NORM(M,H) h w > y rstd"
#define NORM_GRADIENTS "NORM_W(M,H) dy x rstd > dw; NORM_D(M,H) dy x w rstd > dx"
#define CODES          "q s - qt st" /* without a factor of the tensor: one pass makes them */
#define ACT_CODES      "ACT(M,F) u p > ~a[M*F:u]; QUANTISE(E,M,F,FORM,TYPE,0) ~a offsets > " CODES
#define ACT_D_CODES                                                                                \
    "ACT_D(M,F) da u p > ~du[2*M*F:u] dp; QUANTISE(E,M,2*F,FORM,TYPE,0) ~du offsets > " CODES
#define PERMUTE_CODES                                                                              \
    "PERMUTE(T,K,H,ROOM) x probs rows > ~xp[ROOM*H:x] pp; "                                        \
    "QUANTISE(E,ROOM,H,FORM,TYPE,0) ~xp offsets > " CODES
#define UNPERMUTE_D_CODES                                                                          \
    "UNPERMUTE_D(T,K,H,ROOM) dy rows > ~dyp[ROOM*H:dy]; "                                          \
    "QUANTISE(E,ROOM,H,FORM,TYPE,0) ~dyp offsets > " CODES
#define NORM_CODES "NORM(M,H) x w > ~y[M*H:w] rstd; QUANTISE(1,M,H,FORM,TYPE,0) ~y - > " CODES

/* What the transformation finds. Its first row that fits wins: norms of heads before others. */
static const form_text pattern_texts[] = {
    {OP_QKV_HEADS, FUSE_QKV, NULL, SPLIT_NORMED},
    {OP_QKV_HEADS, FUSE_QKV, NULL, SPLIT_ONLY},
    {OP_QKV_HEADS_D, FUSE_QKV, NULL,
     "ROPE_D(T,S,N,D,0,ROT) table > dq; ROPE_D(T,S,G,D,0,ROT) table > dk; "
     "NORM_W(T*N,D) dq ~q rq > dwq; NORM_D(T*N,D) dq ~q wq rq > ~dq; "
     "NORM_W(T*G,D) dk ~k rk > dwk; NORM_D(T*G,D) dk ~k wk rk > ~dk; "
     "QKV_JOIN(T,N,G,D) ~dq ~dk dv dgate > dqkv"},
    {OP_QKV_HEADS_D, FUSE_QKV, NULL,
     "ROPE_D(T,S,N,D,0,ROT) table > dq; ROPE_D(T,S,G,D,0,ROT) table > dk; "
     "QKV_JOIN(T,N,G,D) dq dk dv dgate > dqkv"},
    {OP_NORM_QUANT, FUSE_NORM_QUANT, NULL, NORM_CODES},
    {OP_ADD_NORM, FUSE_ADD_NORM, NULL, ADD_THEN_NORM},
    {OP_NORM_BACK, FUSE_NORM_BACK, NULL, NORM_GRADIENTS},
    {OP_ACT_QUANT, FUSE_ACT_QUANT, NULL, ACT_CODES},
    {OP_ACT_D_QUANT, FUSE_ACT_QUANT, NULL, ACT_D_CODES},
    {OP_PERMUTE_QUANT, FUSE_PERMUTE_QUANT, NULL, PERMUTE_CODES},
    {OP_UNPERMUTE_D_QUANT, FUSE_PERMUTE_QUANT, NULL, UNPERMUTE_D_CODES},
};

/* How its rows can do it by parts. The gradient of heads has to split again what it norms, and
 * leaves dq and dk as they are. */
static const form_text expansion_texts[] = {
    {OP_QKV_HEADS, 0, "wq", SPLIT_NORMED},
    {OP_QKV_HEADS, 0, NULL, SPLIT_ONLY},
    {OP_QKV_HEADS_D, 0, "wq",
     "QKV_SPLIT(T,N,G,D) qkv > ~q[T*N*D:qkv] ~k[T*G*D:qkv] ~v[T*G*D:qkv] ~gate[T*N*D:qkv?dgate]; "
     "COPY(T*N*D) dq > ~tq[T*N*D:dq]; COPY(T*G*D) dk > ~tk[T*G*D:dk]; "
     "ROPE_D(T,S,N,D,0,ROT) table > ~tq; ROPE_D(T,S,G,D,0,ROT) table > ~tk; "
     "NORM_W(T*N,D) ~tq ~q rq > dwq; NORM_D(T*N,D) ~tq ~q wq rq > ~dq[T*N*D:dqkv]; "
     "NORM_W(T*G,D) ~tk ~k rk > dwk; NORM_D(T*G,D) ~tk ~k wk rk > ~dk[T*G*D:dqkv]; "
     "QKV_JOIN(T,N,G,D) ~dq ~dk dv dgate > dqkv"},
    {OP_QKV_HEADS_D, 0, NULL,
     "COPY(T*N*D) dq > ~tq[T*N*D:dq]; COPY(T*G*D) dk > ~tk[T*G*D:dk]; "
     "ROPE_D(T,S,N,D,0,ROT) table > ~tq; ROPE_D(T,S,G,D,0,ROT) table > ~tk; "
     "QKV_JOIN(T,N,G,D) ~tq ~tk dv dgate > dqkv"},
    {OP_ADD_NORM, 0, NULL, ADD_THEN_NORM},
    {OP_NORM_BACK, 0, NULL, NORM_GRADIENTS},
    {OP_ACT_QUANT, 0, NULL, ACT_CODES},
    {OP_ACT_D_QUANT, 0, NULL, ACT_D_CODES},
    {OP_PERMUTE_QUANT, 0, NULL, PERMUTE_CODES},
    {OP_UNPERMUTE_D_QUANT, 0, NULL, UNPERMUTE_D_CODES},
    {OP_NORM_QUANT, 0, NULL, NORM_CODES},
};

enum {
    N_PATTERNS = sizeof pattern_texts / sizeof pattern_texts[0],
    N_EXPANSIONS = sizeof expansion_texts / sizeof expansion_texts[0],
};

/* ---- reading */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static size_t word_length(const char *s)
{
    size_t n = 0;
    while (is_letter(s[n])) n++;
    return n;
}

/* The place of a word of n letters in a list with spaces; -1: it is not there. */
static int place_in(const char *list, const char *word, size_t n)
{
    for (int i = 0; *list; i++) {
        size_t length = strcspn(list, " ");
        if (length == n && memcmp(list, word, n) == 0) return i;
        list += length + (list[length] == ' ');
    }
    return -1;
}

static op_kind read_kind(const char **s)
{
    size_t n = word_length(*s);
    int k = 0;
    while (k < OP_COUNT && (strlen(op_infos[k].name) != n || memcmp(op_infos[k].name, *s, n) != 0))
        k++;
    assert(k < OP_COUNT);
    *s += n;
    return (op_kind)k;
}

static fused_size read_size(const fused_form *f, const char **s)
{
    fused_size z = {.number = 1};
    if (**s >= '0' && **s <= '9') {
        z.number = strtoll(*s, NULL, 10);
        *s += word_length(*s);
        if (**s != '*') return z;
        ++*s;
    }
    for (bool more = true; more;) {
        size_t n = word_length(*s);
        int at = place_in(op_infos[f->kind].dims, *s, n);
        assert(at >= 0 && z.n < FUSED_FACTORS);
        z.dim[z.n++] = at;
        *s += n;
        more = **s == '*';
        *s += more;
    }
    return z;
}

static int operand_named(const fused_form *f, const char **s)
{
    const op_info *kind = &op_infos[f->kind];
    size_t n = word_length(*s);
    int in = place_in(kind->in, *s, n), out = place_in(kind->out, *s, n);
    assert(in >= 0 || out >= 0);
    *s += n;
    return in >= 0 ? in : OP_IN_MAX + out;
}

static int read_between(fused_form *f, const char **s)
{
    size_t n = word_length(++*s);
    int k = 0;
    while (k < f->n_between &&
           (strlen(f->between[k].name) != n || memcmp(f->between[k].name, *s, n) != 0))
        k++;
    fused_between *b = &f->between[k];
    if (k == f->n_between) {
        assert(k < FUSED_BETWEEN_MAX && n < sizeof b->name);
        *b = (fused_between){.like = -1, .with = -1};
        memcpy(b->name, *s, n);
        f->n_between++;
    }
    *s += n;
    if (**s == '[') {
        ++*s;
        b->elements = read_size(f, s);
        ++*s; /* : */
        b->like = operand_named(f, s);
        if (**s == '?') {
            ++*s;
            b->with = operand_named(f, s);
        }
        ++*s; /* ] */
    }
    return FUSED_BETWEEN + k;
}

static void read_operands(fused_form *f, const char **s, int *list, int room)
{
    for (int i = 0; i < room; i++) list[i] = -1;
    for (int i = 0; **s == ' ' && (*s)[1] != '>'; i++) {
        ++*s;
        assert(i < room);
        if (**s == '-')
            ++*s;
        else
            list[i] = **s == '~' ? read_between(f, s) : operand_named(f, s);
    }
}

static void read_part(fused_form *f, const char **s)
{
    assert(f->n_parts < FUSED_PARTS_MAX);
    fused_part *p = &f->parts[f->n_parts++];
    p->kind = read_kind(s);
    assert(**s == '(');
    do {
        ++*s;
        p->size[p->n_sizes++] = read_size(f, s);
    } while (**s == ',');
    ++*s; /* ) */
    read_operands(f, s, p->in, OP_IN_MAX);
    *s += 2; /* " >" */
    read_operands(f, s, p->out, OP_OUT_MAX);
}

static void read_form(fused_form *f, const form_text *text)
{
    *f = (fused_form){.kind = text->kind, .fusion = text->fusion};
    for (const char *s = text->parts; *s;) {
        read_part(f, &s);
        if (*s == ';') s += 2;
    }
}

static struct {
    pthread_once_t once;
    fused_form patterns[N_PATTERNS], expansions[N_EXPANSIONS];
} forms = {.once = PTHREAD_ONCE_INIT};

static void read_forms(void)
{
    for (int i = 0; i < N_PATTERNS; i++) read_form(&forms.patterns[i], &pattern_texts[i]);
    for (int i = 0; i < N_EXPANSIONS; i++) read_form(&forms.expansions[i], &expansion_texts[i]);
}

const fused_form *fused_patterns(int *n)
{
    pthread_once(&forms.once, read_forms);
    *n = N_PATTERNS;
    return forms.patterns;
}

/* ---- expanding */

int64_t fused_size_of(const fused_size *z, const int64_t *dim)
{
    int64_t n = z->number;
    for (int i = 0; i < z->n; i++) n = mul_sat(n, dim[z->dim[i]]);
    return n;
}

static bool is_there(const op *o, int operand)
{
    return operand < OP_IN_MAX ? o->in[operand] >= 0 : o->out[operand - OP_IN_MAX] >= 0;
}

static const fused_form *expansion_of(const op *o)
{
    pthread_once(&forms.once, read_forms);
    for (int i = 0; i < N_EXPANSIONS; i++) {
        const form_text *text = &expansion_texts[i];
        const char *with = text->with;
        if (text->kind != o->kind) continue;
        if (!with || is_there(o, operand_named(&forms.expansions[i], &with)))
            return &forms.expansions[i];
    }
    return NULL;
}

/* The operand with its format and elements, where it is there. */
static int operand_of(const fused_steps *f, const op *o, const op_types *t, int operand,
                      dtype *type, int64_t *elements)
{
    if (operand < 0) return -1;
    if (operand >= FUSED_BETWEEN) {
        *type = f->type[operand - FUSED_BETWEEN];
        *elements = f->elements[operand - FUSED_BETWEEN];
        return *elements >= 0 ? operand : -1;
    }
    if (!is_there(o, operand)) return -1;
    bool in = operand < OP_IN_MAX;
    int i = in ? operand : operand - OP_IN_MAX;
    *type = in ? t->in[i] : t->out[i];
    *elements = in ? t->in_elements[i] : t->out_elements[i];
    return operand;
}

void fused_expand(fused_steps *out, const op *o, const op_types *t)
{
    static const op_types fp32;
    const fused_form *form = expansion_of(o);
    assert(form);
    if (!t) t = &fp32;
    out->n = form->n_parts;
    out->n_between = form->n_between;
    for (int i = 0; i < form->n_between; i++) {
        const fused_between *b = &form->between[i];
        bool there = b->with < 0 || is_there(o, b->with);
        out->elements[i] = there ? fused_size_of(&b->elements, o->dim) : -1;
        out->type[i] = b->like < OP_IN_MAX ? t->in[b->like] : t->out[b->like - OP_IN_MAX];
    }
    for (int i = 0; i < form->n_parts; i++) {
        const fused_part *p = &form->parts[i];
        op *made = &out->ops[i];
        op_types *of = &out->types[i];
        *made = *o;
        *of = (op_types){.in = {0}};
        made->kind = p->kind;
        made->flags = o->flags & (op_infos[p->kind].flags | REPLAY);
        memset(made->dim, 0, sizeof made->dim);
        for (int k = 0; k < p->n_sizes; k++) made->dim[k] = fused_size_of(&p->size[k], o->dim);
        for (int k = 0; k < OP_IN_MAX; k++)
            made->in[k] = operand_of(out, o, t, p->in[k], &of->in[k], &of->in_elements[k]);
        for (int k = 0; k < OP_OUT_MAX; k++)
            made->out[k] = operand_of(out, o, t, p->out[k], &of->out[k], &of->out_elements[k]);
    }
}

int64_t fused_places(const fused_steps *f, int64_t at[FUSED_BETWEEN_MAX])
{
    int64_t end = 0;
    for (int i = 0; i < f->n_between; i++) {
        at[i] = end;
        if (f->elements[i] > 0)
            end = round_up(end + dtype_bytes(f->type[i], f->elements[i]), PLACE_ALIGN);
    }
    return end;
}
