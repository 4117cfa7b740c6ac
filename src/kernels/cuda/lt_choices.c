/* lt_choices.c - see lt_choices.h. */
#include "kernels/cuda/lt_choices.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE = 512 };

static struct {
    pthread_mutex_t lock;
    char *path; /* NULL: nothing is kept */
    lt_choice *list;
    int n, room;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const lt_shape *a, const lt_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_turned == b->a_turned &&
           a->b_turned == b->b_turned && a->in == b->in && a->out == b->out && a->add == b->add;
}

static void add(const lt_choice *c)
{
    if (kept.n == kept.room) {
        const int room = kept.room ? 2 * kept.room : 64;
        lt_choice *list = realloc(kept.list, sizeof *list * (size_t)room);
        if (!list) return; /* it is chosen again next time */
        kept.list = list;
        kept.room = room;
    }
    kept.list[kept.n++] = *c;
}

static void print_choice(char *line, const lt_choice *c)
{
    const lt_shape *s = &c->shape;
    int n = snprintf(line, LINE, "%" PRId64 " %" PRId64 " %" PRId64 " %d %d %d %d %d", s->m, s->n,
                     s->k, s->a_turned, s->b_turned, (int)s->in, (int)s->out, s->add);
    for (int i = 0; i < LT_ALGO_WORDS; i++)
        n += snprintf(line + n, LINE - (size_t)n, " %016" PRIx64, c->algo[i]);
    snprintf(line + n, LINE - (size_t)n, "\n");
}

static bool read_choice(const char *line, lt_choice *c)
{
    int flag[5], at = 0;
    lt_shape *s = &c->shape;
    if (!strchr(line, '\n')) return false; /* not whole */
    if (sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %d %d %d %d %d%n", &s->m, &s->n, &s->k,
               &flag[0], &flag[1], &flag[2], &flag[3], &flag[4], &at) != 8)
        return false;
    s->a_turned = flag[0], s->b_turned = flag[1], s->add = flag[4];
    s->in = (dtype)flag[2], s->out = (dtype)flag[3];
    for (int i = 0; i < LT_ALGO_WORDS; i++) {
        int more = 0;
        if (sscanf(line + at, " %" SCNx64 "%n", &c->algo[i], &more) != 1) return false;
        at += more;
    }
    return true;
}

/* Is the file there and of this version? Then its choices are known (C1). */
static bool read_all(const char *path, size_t version)
{
    FILE *f = fopen(path, "r");
    char line[LINE];
    size_t theirs = 0;
    lt_choice c;
    if (!f) return false;
    const bool known = fgets(line, LINE, f) && sscanf(line, "cublaslt %zu", &theirs) == 1;
    if (known && theirs == version)
        while (fgets(line, LINE, f))
            if (read_choice(line, &c)) add(&c);
    fclose(f);
    if (known && theirs != version)
        fprintf(stderr,
                "%s: algorithms of products were chosen with cuBLASLt %zu and this is %zu: they "
                "are chosen again, and sums may be added in another order\n",
                path, theirs, version);
    return known && theirs == version;
}

static void write_text(const char *how, const char *text)
{
    FILE *f = fopen(kept.path, how);
    const bool fine = f && fputs(text, f) >= 0;
    if (f && fclose(f) == 0 && fine) return;
    fprintf(stderr,
            "%s: algorithms of products cannot be kept there (%s): a run that goes on from here "
            "chooses its own\n",
            kept.path, strerror(errno));
    free(kept.path);
    kept.path = NULL;
}

/* The file anew, with what is known; its folder, too, where it is missing. */
static void write_all(size_t version)
{
    char line[LINE], *slash = strrchr(kept.path, '/');
    if (slash && slash != kept.path) {
        *slash = 0;
        mkdir(kept.path, 0777); /* if it fails, so does the file, which is said */
        *slash = '/';
    }
    snprintf(line, LINE, "cublaslt %zu\n", version);
    write_text("w", line);
    for (int i = 0; i < kept.n && kept.path; i++) {
        print_choice(line, &kept.list[i]);
        write_text("a", line);
    }
}

void lt_choices_use(const char *path, const char *from, size_t version)
{
    pthread_mutex_lock(&kept.lock);
    free(kept.path);
    kept.path = path && *path ? strdup(path) : NULL;
    kept.n = 0;
    const bool there = kept.path && read_all(kept.path, version);
    const bool other = from && *from && !(kept.path && strcmp(from, kept.path) == 0);
    if (!there && other) read_all(from, version);
    if (!there && kept.path) write_all(version);
    pthread_mutex_unlock(&kept.lock);
}

bool lt_choices_find(lt_choice *c)
{
    bool found = false;
    pthread_mutex_lock(&kept.lock);
    for (int i = 0; i < kept.n && !found; i++) {
        found = is_same(&kept.list[i].shape, &c->shape);
        if (found) memcpy(c->algo, kept.list[i].algo, sizeof c->algo);
    }
    pthread_mutex_unlock(&kept.lock);
    return found;
}

void lt_choices_keep(const lt_choice *c)
{
    char line[LINE];
    pthread_mutex_lock(&kept.lock);
    if (kept.path) {
        add(c);
        print_choice(line, c);
        write_text("a", line);
    }
    pthread_mutex_unlock(&kept.lock);
}
