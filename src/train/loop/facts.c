/* facts.c - comparing texts over all ranks by their checksums. */
#include "train/loop/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/export.h"
#include "train/checkpoint/tensor_file.h"

enum { EXCERPT = 100, RANKS_NAMED = 8, BLOCK = 1 << 16 };

/* "ranks 2, 3": those whose sum is not that of rank 0. */
static const char *others(const uint64_t *all, int64_t n, arena *a)
{
    textbuf t = text_init(a);
    int64_t count = 0;
    for (int64_t r = 1; r < n; r++) count += all[r] != all[0];
    text_add(&t, count > 1 ? "ranks" : "rank");
    for (int64_t r = 1, named = 0; r < n && named < RANKS_NAMED; r++)
        if (all[r] != all[0]) text_add(&t, "%s %" PRId64, named++ ? "," : "", r);
    if (count > RANKS_NAMED) text_add(&t, " and %" PRId64 " more", count - RANKS_NAMED);
    return t.s;
}

static int excerpt(const char *line)
{
    size_t n = strcspn(line, "\n");
    return (int)(n < EXCERPT ? n : EXCERPT);
}

/* Where two texts part: the lines of both. */
static void first_difference(char *out, size_t room, const char *mine, const char *other)
{
    while (*mine && *other) {
        size_t n = strcspn(mine, "\n"), m = strcspn(other, "\n");
        if (n != m || memcmp(mine, other, n) != 0) break;
        mine += n + (mine[n] != 0);
        other += m + (other[m] != 0);
    }
    snprintf(out, room, "'%.*s' instead of '%.*s'", excerpt(mine), mine, excerpt(other), other);
}

static status differs(comm *c, const fact *f, const uint64_t *all, arena *a, error *err)
{
    int64_t first = 0, length = (int64_t)strlen(f->text);
    char line[4 * EXCERPT] = "";
    while (all[first] == all[0]) first++;
    comm_broadcast(c, GROUP_WORLD, 0, &length, sizeof length);
    char *text = ARENA_ARRAY(a, char, length + 1);
    if (comm_rank(c) == 0) memcpy(text, f->text, (size_t)length);
    comm_broadcast(c, GROUP_WORLD, 0, text, (size_t)length);
    if (comm_rank(c) == first) first_difference(line, sizeof line, f->text, text);
    comm_broadcast(c, GROUP_WORLD, first, line, sizeof line);
    return error_set(err, ERR_INPUT,
                     "%s: %s differs from rank 0 (rank %" PRId64 " has %s); repair: %s", f->name,
                     others(all, comm_size(c), a), first, line, f->repair);
}

status facts_agree(comm *c, const fact *facts, int n, arena *a, error *err)
{
    int64_t ranks = comm_size(c);
    uint64_t *all = ARENA_ARRAY(a, uint64_t, ranks);
    for (int i = 0; i < n && ranks > 1; i++) {
        uint64_t mine = sum_of(facts[i].text, strlen(facts[i].text));
        comm_collect(c, GROUP_WORLD, &mine, sizeof mine, all);
        for (int64_t r = 1; r < ranks; r++)
            if (all[r] != all[0]) return differs(c, &facts[i], all, a, err);
    }
    return OK;
}

/* The program itself, as a checksum. */
static const char *program_text(arena *a)
{
    FILE *file = fopen("/proc/self/exe", "rb");
    if (!file) return "an unreadable program";
    unsigned char *block = arena_take(a, BLOCK);
    sum64 sum;
    char text[SUM_TEXT_MAX];
    sum_init(&sum);
    for (size_t n; (n = fread(block, 1, BLOCK, file)) > 0;) sum_add(&sum, block, n);
    fclose(file);
    sum_text(text, sum_value(&sum));
    return arena_text(a, "checksum %s", text);
}

status facts_start(comm *c, const setup *s, arena *a, error *err)
{
    if (comm_size(c) == 1) return OK;
    textbuf text = text_init(a);
    export_yaml(&s->r, true, &text);
    const fact facts[] = {{"program", program_text(a), "start the same build on all ranks"},
                          {"recipe", text.s, "give all ranks the same recipe and overrides"}};
    return facts_agree(c, facts, 2, a, err);
}
