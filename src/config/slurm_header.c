/* slurm_header.c - the #SBATCH lines at the top of a batch script.
 *
 * An option is --name=value, --name value, -N value or -Nvalue, several on a line; a later line
 * wins. Of a range of nodes (4-8) the first number is what the job is sure to get. */
#include "config/slurm_header.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef struct count_option {
    const char *name, *letter;
    size_t at;
} count_option;

static const count_option counts[] = {
    {"nodes", "N", offsetof(slurm_header, nodes)},
    {"ntasks", "n", offsetof(slurm_header, tasks)},
    {"ntasks-per-node", NULL, offsetof(slurm_header, tasks_per_node)},
    {"gpus", "G", offsetof(slurm_header, gpus)},
    {"gpus-per-node", NULL, offsetof(slurm_header, gpus_per_node)},
    {"gpus-per-task", NULL, offsetof(slurm_header, gpus_per_task)},
    {"gres", NULL, offsetof(slurm_header, gpus_per_node)},
    {"cpus-per-task", "c", offsetof(slurm_header, cpus_per_task)},
};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

/* 8, gpu:8, h100:8, gpu:h100:8(S:0-1), 4-8. */
static void take(arena *a, slurm_header *h, const count_option *o, const char *text)
{
    bool gres = text_equal(o->name, "gres"), gpus = text_starts(o->name, "gpus");
    if (gres) text = strstr(text, "gpu");
    if (!text) return;
    if (gres) text += strlen("gpu");
    if (gres && *text == ':') text++;
    size_t type = strcspn(text, ":,(");
    bool typed = (gres || gpus) && type && !isdigit((unsigned char)*text);
    if (typed) h->gpu = arena_copy(a, text, type);
    if (typed) text += type + (text[type] == ':');
    int64_t n = strtoll(text, NULL, 10);
    if (n > 0) *(int64_t *)(void *)((char *)h + o->at) = n;
}

/* The option that this word is, and the value in it; NULL: the next word holds it. */
static const count_option *option_of(const char *word, const char **text)
{
    *text = NULL;
    for (int i = 0; i < N_COUNTS; i++) {
        const count_option *o = &counts[i];
        size_t n = strlen(o->name);
        if (word[0] == '-' && word[1] == '-' && strncmp(word + 2, o->name, n) == 0 &&
            (!word[2 + n] || word[2 + n] == '=')) {
            if (word[2 + n]) *text = word + 3 + n;
            return o;
        }
        if (o->letter && word[0] == '-' && word[1] == o->letter[0]) {
            if (word[2]) *text = word + 2 + (word[2] == '=');
            return o;
        }
    }
    return NULL;
}

static void read_line(arena *a, slurm_header *h, const char *p, const char *end)
{
    const count_option *open = NULL;
    while (p < end) {
        size_t n = 0;
        while (p < end && isspace((unsigned char)*p)) p++;
        while (p + n < end && !isspace((unsigned char)p[n])) n++;
        const char *word = arena_copy(a, p, n), *text;
        p += n;
        if (!n || *word == '#') return;
        const count_option *o = option_of(word, &text);
        if (open && *word != '-') take(a, h, open, word);
        open = o && !text ? o : NULL;
        if (o && text) take(a, h, o, text);
    }
}

slurm_header slurm_header_read(arena *a, const char *data, size_t n)
{
    static const char mark[] = "#SBATCH";
    slurm_header h = {0};
    const char *end = data + n;
    for (const char *p = data; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        const char *first = p;
        while (first < stop && isspace((unsigned char)*first)) first++;
        if (first < stop && *first != '#') break;
        size_t len = (size_t)(stop - p), m = sizeof mark - 1;
        if (len > m && memcmp(p, mark, m) == 0 && isspace((unsigned char)p[m]))
            read_line(a, &h, p + m, stop);
        p = stop + 1;
    }
    return h;
}

int64_t slurm_gpus_per_node(const slurm_header *h)
{
    if (h->gpus_per_node) return h->gpus_per_node;
    if (h->gpus_per_task && h->tasks_per_node)
        return h->gpus_per_task <= INT64_MAX / h->tasks_per_node
                   ? h->gpus_per_task * h->tasks_per_node
                   : 0;
    if (h->gpus && h->nodes && h->gpus % h->nodes == 0) return h->gpus / h->nodes;
    return 0;
}

static int put(arena *a, shell_set *out, int n, int most, const char *name, int64_t value)
{
    if (value <= 0 || n == most) return n;
    out[n] = (shell_set){.name = name, .value = arena_text(a, "%" PRId64, value)};
    return n + 1;
}

int slurm_variables(arena *a, const slurm_header *h, shell_set *out, int most)
{
    int n = 0;
    bool gemm = h->nodes > 0 && h->tasks_per_node > 0 && h->nodes < INT32_MAX &&
                h->tasks_per_node < INT32_MAX;
    int64_t tasks = h->tasks ? h->tasks : gemm ? h->nodes * h->tasks_per_node : 0;
    n = put(a, out, n, most, "SLURM_NNODES", h->nodes);
    n = put(a, out, n, most, "SLURM_JOB_NUM_NODES", h->nodes);
    n = put(a, out, n, most, "SLURM_NTASKS", tasks);
    n = put(a, out, n, most, "SLURM_NPROCS", tasks);
    n = put(a, out, n, most, "SLURM_NTASKS_PER_NODE", h->tasks_per_node);
    n = put(a, out, n, most, "SLURM_TASKS_PER_NODE", h->tasks_per_node);
    n = put(a, out, n, most, "SLURM_CPUS_PER_TASK", h->cpus_per_task);
    n = put(a, out, n, most, "SLURM_GPUS", h->gpus);
    n = put(a, out, n, most, "SLURM_GPUS_PER_TASK", h->gpus_per_task);
    n = put(a, out, n, most, "SLURM_GPUS_PER_NODE", slurm_gpus_per_node(h));
    return put(a, out, n, most, "SLURM_GPUS_ON_NODE", slurm_gpus_per_node(h));
}
