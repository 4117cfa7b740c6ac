/* plans.c - plans of attention, built where there is no GPU from the properties of one.
 *
 *     plans PROPERTIES
 *
 * Which shapes cuDNN takes, and that its workspace is what our formula plans for. Where there is no
 * cuDNN it says so and counts as skipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/kernels/attention_room.h"
#include "backend/cuda/kernels/cudnn_open.h"
#include "backend/cuda/kernels/sdpa.h"

/* Whole sequences, and blocks that every query sees all of. */
#define WHOLE(B, N, G, S, D, DV, WINDOW)                                                           \
    {                                                                                              \
        .b = B, .h = N, .h_kv = G, .s = S, .d = D, .d_v = DV, .window = WINDOW                     \
    }
#define PART(B, N, G, S, OF_S, K, OF_K, D, DV)                                                     \
    {                                                                                              \
        .b = B, .h = N, .h_kv = G, .s = S, .d = D, .d_v = DV, .s_kv = K, .q_rows = OF_S,           \
        .kv_rows = OF_K, .full = true                                                              \
    }

static const sdpa_shape shapes[] = {
    WHOLE(8, 32, 4, 4096, 128, 128, 0),
    WHOLE(1, 32, 4, 32768, 128, 128, 0),
    WHOLE(4, 128, 128, 4096, 192, 128, 0), /* MLA */
    WHOLE(1, 64, 8, 4096, 64, 64, 128),    /* gpt-oss */
    WHOLE(2, 4, 2, 200, 128, 128, 0),
    WHOLE(1, 4, 4, 333, 192, 128, 0),
    WHOLE(2, 4, 1, 300, 64, 64, 97),
    WHOLE(1, 2, 1, 128, 64, 64, 0),
    WHOLE(1, 2, 2, 1, 64, 64, 0),
    WHOLE(3, 2, 1, 77, 32, 32, 0),
    WHOLE(1, 2, 1, 130, 8, 8, 0),
    WHOLE(1, 2, 2, 130, 96, 96, 0),
    WHOLE(1, 8, 2, 515, 80, 64, 0),
    WHOLE(1, 16, 16, 1000, 128, 64, 0),
    WHOLE(1, 16, 2, 1024, 256, 256, 0), /* qwen3-next */
    /* blocks of a ring: every query by the first half of the keys, the second half by every key */
    PART(1, 32, 4, 8192, 8192, 4096, 8192, 128, 128),
    PART(1, 32, 4, 4096, 8192, 8192, 8192, 128, 128),
    PART(2, 16, 16, 2048, 2048, 1024, 2048, 192, 128),
    PART(2, 16, 16, 1024, 2048, 2048, 2048, 192, 128),
    PART(3, 4, 2, 150, 150, 75, 150, 64, 48),
    PART(3, 4, 1, 75, 150, 150, 150, 32, 32),
    PART(2, 2, 2, 1, 2, 2, 2, 64, 64),
};

static char *read_file(const char *name)
{
    static char text[4096];
    FILE *f = fopen(name, "rb");
    if (!f) return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static const char *const passes[] = {"forward", "backward", "deterministic"};

static bool check(const sdpa_shape *z, sdpa_pass pass, const char *device)
{
    error err = {""};
    sdpa_plan *plan = NULL;
    const bool wanted = sdpa_takes(z);
    const bool built = sdpa_plan_make(&plan, z, pass, device, &err) == OK;
    const int64_t room = sdpa_library_bytes(z, pass);
    const int64_t bytes = built ? sdpa_plan_workspace(plan) : 0;
    const bool fine = !wanted || (built && bytes <= room);
    printf("%s %lldx%lld by %lld, %lld/%lld heads of %lld/%lld, window %lld, %s: ",
           fine ? "ok" : "not ok", (long long)z->b, (long long)z->s,
           (long long)(z->s_kv ? z->s_kv : z->s), (long long)z->h, (long long)z->h_kv,
           (long long)z->d, (long long)z->d_v, (long long)z->window, passes[pass]);
    if (built)
        printf("workspace %lld of %lld planned\n", (long long)bytes, (long long)room);
    else
        printf("%s\n", wanted ? err.text : "not there");
    if (!wanted) printf("    (not asked for)\n");
    sdpa_plan_free(plan);
    return fine;
}

int main(int argc, char **argv)
{
    const cudnn_library *lib;
    error err = {""};
    int bad = 0;
    const char *device = argc > 1 ? read_file(argv[1]) : NULL;
    if (!device) {
        fprintf(stderr, "usage: plans PROPERTIES\n");
        return 2;
    }
    if (cudnn_open(&lib, &err) != OK) {
        printf("ok plans # SKIP %s\n", err.text);
        return 0;
    }
    printf("%s\n", cudnn_found());
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int pass = 0; pass < 3; pass++) bad += !check(&shapes[i], (sdpa_pass)pass, device);
    return bad != 0;
}
