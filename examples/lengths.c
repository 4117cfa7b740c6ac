/* lengths.c - what a recipe takes at several sequence lengths, one thread each.
 *
 *     ./lengths RECIPE TOKENS ... */
#include <moefold.h>

#include <pthread.h>
#include <stdio.h>

enum { LENGTHS_MAX = 16 };

typedef struct length {
    const char *recipe, *tokens;
    pthread_t thread;
    moefold_answer *answer;
} length;

static void *price(void *of)
{
    length *x = of;
    const char *words[] = {x->recipe, "--seq", x->tokens};
    moefold_price(&x->answer, words, 3, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    length list[LENGTHS_MAX];
    int n = argc - 2 < LENGTHS_MAX ? argc - 2 : LENGTHS_MAX;
    for (int i = 0; i < n; i++) {
        list[i] = (length){.recipe = argv[1], .tokens = argv[i + 2]};
        pthread_create(&list[i].thread, NULL, price, &list[i]);
    }
    for (int i = 0; i < n; i++) {
        const moefold_answer *x;
        double step, rate;
        int64_t peak;
        pthread_join(list[i].thread, NULL);
        x = list[i].answer;
        if (moefold_real(x, "step_s", &step) && moefold_real(x, "tokens_per_s_per_gpu", &rate) &&
            moefold_integer(x, "peak_bytes", &peak))
            printf("%8s tokens: %.3f s, %.0f tokens/s/GPU, %.2f GiB, limited by %s\n",
                   list[i].tokens, step, rate, (double)peak / (1 << 30), moefold_text(x, "wall"));
        else
            printf("%8s tokens: %s\n", list[i].tokens, moefold_why(x));
        moefold_free(list[i].answer);
    }
    return 0;
}
