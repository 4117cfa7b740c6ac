/* lt_choices.c - see lt_choices.h. */
#include "backend/cuda/kernels/lt_choices.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

enum { LINE = 512, NOTE = 128, NAME = 128 };

typedef struct kept_choice {
    lt_choice c;
    char note[NOTE]; /* what follows the algorithm; "": nothing */
} kept_choice;

typedef struct choice_list {
    char *path; /* NULL: it has no file, or none that can be written */
    kept_choice *list;
    int n, room;
} choice_list;

static struct {
    pthread_mutex_t lock;
    choice_list run, tuned;
    size_t version;
    char gpu[NAME];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool lt_shape_is(const lt_shape *a, const lt_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_turned == b->a_turned &&
           a->b_turned == b->b_turned && a->in == b->in && a->out == b->out && a->add == b->add &&
           a->scaling == b->scaling && a->in_b == b->in_b;
}

/* ---- lists */

static kept_choice *find(const choice_list *l, const lt_shape *s)
{
    for (int i = 0; i < l->n; i++)
        if (lt_shape_is(&l->list[i].c.shape, s)) return &l->list[i];
    return NULL;
}

/* The later one of a GEMM wins. */
static void put(choice_list *l, const kept_choice *c)
{
    kept_choice *old = find(l, &c->c.shape);
    if (old) {
        *old = *c;
        return;
    }
    if (l->n == l->room) {
        const int room = l->room ? 2 * l->room : 64;
        kept_choice *list = realloc(l->list, sizeof *list * (size_t)room);
        if (!list) return; /* it is chosen again next time */
        l->list = list;
        l->room = room;
    }
    l->list[l->n++] = *c;
}

static void name_file(choice_list *l, const char *path)
{
    free(l->path);
    l->path = path && *path ? strdup(path) : NULL;
    l->n = 0;
}

/* ---- lines */

static void print_choice(char *line, const kept_choice *c)
{
    const lt_shape *s = &c->c.shape;
    int n = 0;
    if (s->scaling) n = snprintf(line, LINE, "scaled %d %d ", (int)s->scaling, (int)s->in_b);
    n += snprintf(line + n, LINE - (size_t)n, "%" PRId64 " %" PRId64 " %" PRId64 " %d %d %d %d %d",
                  s->m, s->n, s->k, s->a_turned, s->b_turned, (int)s->in, (int)s->out, s->add);
    for (int i = 0; i < LT_ALGO_WORDS; i++)
        n += snprintf(line + n, LINE - (size_t)n, " %016" PRIx64, c->c.algo[i]);
    snprintf(line + n, LINE - (size_t)n, "%s%s\n", *c->note ? " # " : "", c->note);
}

static bool is_format(int t)
{
    return t == DTYPE_F32 || t == DTYPE_BF16;
}

static bool is_narrow(int t)
{
    return t == DTYPE_E4M3 || t == DTYPE_E5M2 || t == DTYPE_FP4;
}

/* What stands before the sizes of scaled operands; *at: where the sizes start. */
static bool read_scaling(const char *line, lt_shape *s, int *at)
{
    int scaling = 0, in_b = 0;
    *at = 0;
    if (strncmp(line, "scaled ", 7) != 0) return true;
    if (sscanf(line, "scaled %d %d%n", &scaling, &in_b, at) != 2) return false;
    s->scaling = (lt_scaling)scaling, s->in_b = (dtype)in_b;
    return scaling > LT_UNSCALED && scaling < LT_SCALINGS && is_narrow(in_b);
}

static bool read_choice(const char *line, kept_choice *c)
{
    int flag[5], at = 0, from;
    lt_shape *s = &c->c.shape;
    *c = (kept_choice){.note = ""};
    if (!strchr(line, '\n')) return false; /* not whole */
    if (!read_scaling(line, s, &from)) return false;
    if (sscanf(line + from, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %d %d %d %d %d%n", &s->m, &s->n,
               &s->k, &flag[0], &flag[1], &flag[2], &flag[3], &flag[4], &at) != 8)
        return false;
    at += from;
    s->a_turned = flag[0], s->b_turned = flag[1], s->add = flag[4];
    s->in = (dtype)flag[2], s->out = (dtype)flag[3];
    for (int i = 0; i < LT_ALGO_WORDS; i++) {
        int more = 0;
        if (sscanf(line + at, " %" SCNx64 "%n", &c->c.algo[i], &more) != 1) return false;
        at += more;
    }
    (void)sscanf(line + at, " # %127[^\n]", c->note);
    return (s->scaling ? is_narrow(flag[2]) : is_format(flag[2])) && is_format(flag[3]) &&
           s->m > 0 && s->n > 0 && s->k > 0;
}

/* ---- files */

/* Why a file's choices are set aside: a run chooses anew, which may change its bits; what was tuned
 * for another library or GPU is of no use here. */
static void say_set_aside(const choice_list *l, const char *path, size_t version, const char *gpu)
{
    char theirs[NAME + 16], ours[NAME];
    if (version != kept.version) {
        snprintf(theirs, sizeof theirs, "with cuBLASLt %zu", version);
        snprintf(ours, sizeof ours, "%zu", kept.version);
    } else {
        snprintf(theirs, sizeof theirs, "on %s", gpu);
        snprintf(ours, sizeof ours, "%s", kept.gpu);
    }
    if (l == &kept.run)
        fprintf(stderr,
                "%s: algorithms of products were chosen %s and this is %s: they are chosen again, "
                "and sums may be added in another order\n",
                path, theirs, ours);
    else
        fprintf(stderr,
                "%s: algorithms of products were tuned %s and this is %s: they are not used; "
                "repair: moefold bench --device cuda RECIPE, or moefold.cublaslt=none\n",
                path, theirs, ours);
}

/* Is the file there, and are its choices for this library and this GPU? Then they are known
 * (C1). */
static bool read_all(choice_list *l, const char *path)
{
    FILE *f = file_is_plain(path) ? fopen(path, "r") : NULL;
    char line[LINE], gpu[NAME] = "";
    size_t theirs = 0;
    kept_choice c;
    if (!f) return false;
    const bool known = fgets(line, LINE, f) && sscanf(line, "cublaslt %zu %127[^\n]", &theirs, gpu);
    const bool same = theirs == kept.version, here = !*gpu || strcmp(gpu, kept.gpu) == 0;
    if (known && same && here)
        while (fgets(line, LINE, f))
            if (read_choice(line, &c)) put(l, &c);
    fclose(f);
    if (known && !(same && here)) say_set_aside(l, path, theirs, gpu);
    return known && same && here;
}

static bool write_text(const char *path, const char *how, const char *text)
{
    FILE *f = fopen(path, how);
    const bool fine = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && fine;
}

static void make_folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) return;
    *slash = 0;
    mkdir(path, 0777); /* if it fails, so does the file, which is said */
    *slash = '/';
}

/* The file anew (`how`: "w", or "wx" for one that is not there), with what is known. */
static bool write_all(const choice_list *l, const char *path, const char *how)
{
    char line[LINE];
    snprintf(line, LINE, "cublaslt %zu %s\n", kept.version, kept.gpu);
    bool fine = write_text(path, how, line);
    for (int i = 0; i < l->n && fine; i++) {
        print_choice(line, &l->list[i]);
        fine = write_text(path, "a", line);
    }
    return fine;
}

/* A run goes on without the file. */
static void leave_run_file(void)
{
    fprintf(stderr,
            "%s: algorithms of products cannot be kept there (%s): a run that goes on from here "
            "chooses its own\n",
            kept.run.path, strerror(errno));
    free(kept.run.path);
    kept.run.path = NULL;
}

/* ---- what others call */

static void use_run(const char *path, const char *from)
{
    name_file(&kept.run, path);
    path = kept.run.path;
    const bool there = path && read_all(&kept.run, path);
    const bool other = from && *from && !(path && strcmp(from, path) == 0);
    if (!there && other) read_all(&kept.run, from);
    if (there || !path) return;
    make_folder_of(kept.run.path);
    if (write_all(&kept.run, path, "wx")) return;
    if (errno == EEXIST && read_all(&kept.run, path)) return; /* C4 */
    if (!write_all(&kept.run, path, "w")) leave_run_file();
}

void lt_choices_use(const lt_files *f)
{
    pthread_mutex_lock(&kept.lock);
    kept.version = f->version;
    snprintf(kept.gpu, sizeof kept.gpu, "%s", f->gpu ? f->gpu : "");
    use_run(f->run, f->from);
    name_file(&kept.tuned, f->tuned);
    if (kept.tuned.path) read_all(&kept.tuned, kept.tuned.path);
    pthread_mutex_unlock(&kept.lock);
}

lt_source lt_choices_find(lt_choice *c)
{
    pthread_mutex_lock(&kept.lock);
    const kept_choice *run = find(&kept.run, &c->shape), *tuned = find(&kept.tuned, &c->shape);
    const kept_choice *found = run ? run : tuned; /* C3 */
    if (found) memcpy(c->algo, found->c.algo, sizeof c->algo);
    pthread_mutex_unlock(&kept.lock);
    return run ? LT_KEPT : tuned ? LT_TUNED : LT_FIRST;
}

void lt_choices_keep(const lt_choice *c)
{
    char line[LINE];
    const kept_choice own = {*c, ""};
    pthread_mutex_lock(&kept.lock);
    if (kept.run.path) {
        put(&kept.run, &own);
        print_choice(line, &own);
        if (!write_text(kept.run.path, "a", line)) leave_run_file();
    }
    pthread_mutex_unlock(&kept.lock);
}

status lt_choices_tune(const lt_choice *c, const char *note, error *err)
{
    char beside[PATH_MAX];
    kept_choice own = {*c, ""};
    status s = OK;
    snprintf(own.note, sizeof own.note, "%s", note);
    pthread_mutex_lock(&kept.lock);
    const char *path = kept.tuned.path;
    put(&kept.tuned, &own);
    if (path) {
        snprintf(beside, sizeof beside, "%s.new", path);
        if (!write_all(&kept.tuned, beside, "w") || rename(beside, path) != 0)
            s = error_set(err, ERR_MACHINE,
                          "%s: tuned algorithms cannot be written there (%s); repair: --out in "
                          "another folder",
                          path, strerror(errno));
    }
    pthread_mutex_unlock(&kept.lock);
    return s;
}
