/* plan_more.c - what is said beside the list: the smallest cluster, fewer GPUs, activations on the
 * host, the order of bringing it up. */
#include <stdio.h>

#include "cli/plan.h"

static const char *batch_text(const plan_answer *p, arena *a)
{
    const plan_fewest *x = &p->fewest;
    int64_t asked = recipe_int(p->given, K_GBS);
    if (x->gbs == asked) return arena_text(a, "batch of %lld", (long long)asked);
    return arena_text(a, "batch of %lld, because %lld does not divide", (long long)x->gbs,
                      (long long)asked);
}

void plan_print_fewest(const plan_answer *p, arena *a)
{
    const plan_fewest *x = &p->fewest;
    const char *name = p->own ? recipe_word(p->given, K_MODEL) : p->given->name;
    if (!x->gpus) {
        cli_print("Fewest", "no count up to %lld %s is enough%s\n", (long long)x->looked_to,
                  p->hw->name, x->exact ? "" : ", among those that were tried");
        return;
    }
    cli_print(
        "Fewest", "%lld %s are enough%s: moefold plan %s --gpus %lldx%s --seq %lld --gbs %lld\n",
        (long long)x->gpus, p->hw->name,
        x->exact ? " (the smallest count of whole nodes)" : " (not every smaller count was tried)",
        name ? name : p->given->name, (long long)x->gpus, recipe_word(p->given, K_GPU),
        (long long)recipe_int(p->given, K_SEQ), (long long)x->gbs);
    printf("         %s; %s\n", choice_text(a, &x->f.c), plan_knobs_text(p, &x->f.c, a));
    printf("         DP %lld, %s; a step of %.3f s, %s of %s on the fullest rank\n",
           (long long)x->f.dp, batch_text(p, a), x->f.priced ? x->f.exact.step_s : x->f.step_s,
           text_bytes(a, x->f.peak_bytes), text_bytes(a, p->hw->usable));
}

void plan_say_fewest(const plan_answer *p, arena *a)
{
    const plan_fewest *x = &p->fewest;
    const choice *c = &p->result->best[0].c;
    printf("            This layout runs on multiples of PP x lcm(TP x CP, ETP x EP) = %lld %s.",
           (long long)layout_fewest(c->tp, c->cp, c->pp, c->ep, c->etp),
           p->hw->arch == ARCH_CPU ? "processes" : "GPUs");
    if (!x->gpus)
        printf(" --more looks for the smallest cluster that holds this job.\n");
    else if (x->gpus == p->world)
        printf(" %s\n", x->exact ? "No smaller cluster holds this job."
                                 : "Not every smaller cluster was tried.");
    else
        printf(" %s cluster that\n            holds this job: %lld %s (%s; %s; %s).\n",
               x->exact ? "The smallest" : "A smaller", (long long)x->gpus, p->hw->name,
               choice_text(a, &x->f.c), plan_knobs_text(p, &x->f.c, a), batch_text(p, a));
}

void plan_print_rounder(const plan_answer *p)
{
    const plan_rounder *x = &p->rounder;
    if (!x->gpus) return;
    cli_print("\nFewer",
              "GPUs would do: %lld %s take %.3f s for this batch of %lld, %lld take %.3f s: "
              "parallel sizes\n         divide %lld better (--gpus %lldx%s)\n",
              (long long)x->gpus, p->hw->name, x->step_s, (long long)recipe_int(p->given, K_GBS),
              (long long)p->world, x->before_s, (long long)x->gpus, (long long)x->gpus,
              recipe_word(p->given, K_GPU));
}

static const char *layout_text(const plan_answer *p, arena *a)
{
    const activation_offload *x = &p->offload;
    return arena_text(a, "%s; %s", choice_text(a, &x->v.c), plan_knobs_text(p, &x->v.c, a));
}

void plan_say_offload(const plan_answer *p, arena *a)
{
    const activation_offload *x = &p->offload;
    if (!x->tried) return;
    printf("            Activation offload is not part of the search; %d variants were tried on "
           "the layouts of the list:\n"
           "            ",
           x->tried);
    if (!x->helps) {
        printf("none fits and is faster than the first.\n");
        return;
    }
    double first = p->result->best[0].exact.step_s;
    printf("%.1f %% shorter, %.3f s with %.2f GiB, and %.2f GiB on each GPU's host: %s\n"
           "            --pin model.fine_grained_activation_offloading=true --pin "
           "model.offload_modules=[%s] searches with it.\n",
           100 * (1 - x->p.step_s / first), x->p.step_s, (double)x->p.peak_bytes / 1073741824.0,
           (double)x->p.host_bytes / 1073741824.0, layout_text(p, a), x->modules);
}

void plan_print_offload(const plan_answer *p, arena *a)
{
    const activation_offload *x = &p->offload;
    if (!x->tried_any) return;
    if (!x->helps) {
        cli_print("Offload",
                  "activation offload does not make it fit: it still needs %s (the least of %d "
                  "variants)\n",
                  text_bytes(a, x->p.peak_bytes), x->tried);
        return;
    }
    cli_print("Offload",
              "fits on these GPUs: activation offload (model.offload_modules=[%s])\n"
              "         %s\n"
              "         %s of %s on the fullest rank, and %s on its host; a step of %.3f s\n",
              x->modules, layout_text(p, a), text_bytes(a, x->p.peak_bytes),
              text_bytes(a, p->hw->usable), text_bytes(a, x->p.host_bytes), x->p.step_s);
}

void plan_print_bring_up(const plan_answer *p)
{
    const plan_bring_up *b = &p->bring_up;
    if (!b->folder) return;
    printf("\n"
           "Bring-up %s: one recipe per step; the last is the winner. Run each for 50 steps: the "
           "mean of steps 41 to 50\n"
           "         is its speed, and its loss curve must match that of the first.\n\n",
           b->folder);
    printf("            step s  tok/s/GPU      GiB  recipe\n");
    for (int i = 0; i < b->n; i++) {
        const bring_up_step *x = &b->list[i];
        if (x->skipped) {
            printf("                         skipped    %s: %s\n", x->what, x->skipped);
            continue;
        }
        printf("         %9.3f %10.1f %8.2f  %-26s %s\n", x->p.step_s, x->p.tokens_per_s_per_gpu,
               (double)x->p.peak_bytes / 1073741824.0, x->file, x->what);
        if (x->added) printf("%40s added to make it fit: %s\n", "", x->added);
        for (const char *const *w = x->added_rules; w && *w; w++)
            printf("%40s added to satisfy rules: %s\n", "", *w);
    }
}
