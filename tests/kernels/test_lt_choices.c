/* test_lt_choices.c - which algorithm of cuBLASLt a GEMM gets: files of runs and of the machine,
 * and whose goes first. Needs neither CUDA nor a GPU: the source is part of the CUDA object and
 * stands here with it. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cuda/kernels/lt_choices.c"

static char folder[] = "/tmp/moefold-choices-XXXXXX";
static char run_a[64], run_b[80], machine[64], said[64];

static void name_files(void)
{
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(run_a, sizeof run_a, "%s/a.txt", folder);
    snprintf(run_b, sizeof run_b, "%s/new/b.txt", folder);
    snprintf(machine, sizeof machine, "%s/h200.txt", folder);
    snprintf(said, sizeof said, "%s/said", folder);
}

static int begin(void **state)
{
    (void)state;
    name_files();
    return 0;
}

static int end(void **state)
{
    char new_folder[64];
    (void)state;
    lt_choices_use(&(lt_files){.version = 0});
    snprintf(new_folder, sizeof new_folder, "%s/new", folder);
    const char *const files[] = {run_a, run_b, machine, said};
    for (int i = 0; i < 4; i++) unlink(files[i]);
    rmdir(new_folder);
    return rmdir(folder);
}

/* What is printed on stderr meanwhile goes to the file `said`. */
static void use(const char *run, const char *from, const char *tuned, size_t version,
                const char *gpu)
{
    const int was = dup(2), to = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(to, 2);
    lt_choices_use(&(lt_files){run, from, tuned, version, gpu});
    dup2(was, 2);
    close(was);
    close(to);
}

static bool was_said(const char *part)
{
    char text[2048] = "";
    FILE *f = fopen(said, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return *part ? strstr(text, part) != NULL : !*text;
}

static lt_choice choice_of(int64_t m, bool added, uint64_t first)
{
    return (lt_choice){{.m = m,
                        .n = 64,
                        .k = 4096,
                        .b_turned = true,
                        .in = DTYPE_BF16,
                        .out = DTYPE_F32,
                        .add = added},
                       {first, 2, 3}};
}

static void keep(int64_t m, bool added, uint64_t first)
{
    const lt_choice c = choice_of(m, added, first);
    lt_choices_keep(&c);
}

static void tune(int64_t m, uint64_t first)
{
    error err;
    const lt_choice c = choice_of(m, false, first);
    assert_int_equal(lt_choices_tune(&c, "head, logits: number 3 of 8, 1.5 ms", &err), OK);
}

/* The first word of what GEMM m has; 0: it has nothing. */
static uint64_t found(int64_t m, bool added, lt_source *from)
{
    lt_choice c = choice_of(m, added, 0);
    *from = lt_choices_find(&c);
    assert_true(*from == LT_FIRST || (c.algo[1] == 2 && c.algo[2] == 3 && c.algo[7] == 0));
    return *from == LT_FIRST ? 0 : c.algo[0];
}

static void has(int64_t m, bool added, uint64_t first, lt_source from)
{
    lt_source whose;
    assert_int_equal(found(m, added, &whose), first);
    assert_int_equal(whose, from);
}

static void append(const char *file, const char *text)
{
    FILE *f = fopen(file, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* ---- a run's */

static void a_run_that_goes_on_has_what_it_kept(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 0, LT_FIRST);
    keep(7, false, 11);
    keep(7, true, ~(uint64_t)0);
    use(NULL, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 0, LT_FIRST);
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
    has(7, true, ~(uint64_t)0, LT_KEPT);
    assert_true(was_said(""));
}

static void every_field_of_a_gemm_counts(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    const lt_shape own = choice_of(7, false, 0).shape;
    lt_choice others[8];
    for (int i = 0; i < 8; i++) others[i].shape = own;
    others[0].shape.m++, others[1].shape.n++, others[2].shape.k++;
    others[3].shape.a_turned = true, others[4].shape.b_turned = false;
    others[5].shape.in = DTYPE_F32, others[6].shape.out = DTYPE_BF16, others[7].shape.add = true;
    for (int i = 0; i < 8; i++) assert_int_equal(lt_choices_find(&others[i]), LT_FIRST);
}

/* FP8: scales of blocks, and another format of B, are another GEMM; a run finds it again. */
static void scaled_operands_are_gemms_of_their_own(void **state)
{
    (void)state;
    lt_choice c = {{.m = 7,
                    .n = 64,
                    .k = 4096,
                    .in = DTYPE_E5M2,
                    .out = DTYPE_F32,
                    .add = true,
                    .scaling = LT_ROWS,
                    .in_b = DTYPE_E4M3},
                   {11, 2, 3}};
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    lt_choices_keep(&c);
    use(NULL, NULL, NULL, 130100, "NVIDIA H200");
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    memset(c.algo, 0, sizeof c.algo);
    assert_int_equal(lt_choices_find(&c), LT_KEPT);
    assert_true(c.algo[0] == 11 && c.algo[2] == 3);
    lt_choice others[] = {c, c, c};
    others[0].shape.scaling = LT_SQUARES, others[1].shape.in_b = DTYPE_E5M2;
    others[2].shape.scaling = LT_UNSCALED;
    for (int i = 0; i < 3; i++) assert_int_equal(lt_choices_find(&others[i]), LT_FIRST);
}

/* Blackwell's, in a file of a run that is read again. */
static void scalings_of_blackwell_are_kept(void **state)
{
    (void)state;
    const lt_shape mx = {.m = 8,
                         .n = 64,
                         .k = 4096,
                         .in = DTYPE_E5M2,
                         .out = DTYPE_F32,
                         .scaling = LT_MX,
                         .in_b = DTYPE_E4M3};
    lt_choice c[] = {{mx, {21}}, {mx, {22}}};
    c[1].shape.scaling = LT_NV, c[1].shape.in = c[1].shape.in_b = DTYPE_FP4;
    use(run_a, NULL, NULL, 130100, "NVIDIA B200");
    for (int i = 0; i < 2; i++) lt_choices_keep(&c[i]);
    use(NULL, NULL, NULL, 130100, "NVIDIA B200");
    use(run_a, NULL, NULL, 130100, "NVIDIA B200");
    for (int i = 0; i < 2; i++) {
        memset(c[i].algo, 0, sizeof c[i].algo);
        assert_int_equal(lt_choices_find(&c[i]), LT_KEPT);
        assert_int_equal(c[i].algo[0], 21 + i);
    }
}

/* A run of before, and a line whose scaling or format there is not. */
static void lines_of_unknown_scaling_are_no_choices(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    char line[128];
    for (int i = 0; i < 3; i++) {
        const int words[][3] = {{LT_SCALINGS, DTYPE_E4M3, DTYPE_E4M3},
                                {LT_ROWS, DTYPE_BF16, DTYPE_E4M3},
                                {LT_ROWS, DTYPE_E4M3, DTYPE_BF16}};
        snprintf(line, sizeof line, "scaled %d %d 9 64 4096 0 0 %d 0 0 5 2 3 0 0 0 0 0\n",
                 words[i][0], words[i][1], words[i][2]);
        append(run_a, line);
    }
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
    assert_int_equal(kept.run.n, 1);
}

static void half_a_line_is_no_choice(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    append(run_a, "9 64 4096 0 1 99 0 0 1 2 3 0 0 0 0 0\n"); /* no such format */
    append(run_a, "8 64 4096 0 1 2 0 0 0000000000000005 0000000000000002\n");
    append(run_a, "9 64 4096 0 1 2 0 0 5 2 3 0 0 0 0 0"); /* killed while it was written */
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
    has(8, false, 0, LT_FIRST);
    has(9, false, 0, LT_FIRST);
}

static void a_new_folder_goes_on_with_the_old_ones(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    use(run_b, run_a, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
    use(run_b, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
}

static void another_version_chooses_anew_and_says_so(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    use(run_a, NULL, NULL, 130200, "NVIDIA H200");
    assert_true(was_said("chosen with cuBLASLt 130100 and this is 130200"));
    has(7, false, 0, LT_FIRST);
    keep(8, false, 5);
    use(run_a, NULL, NULL, 130200, "NVIDIA H200");
    has(8, false, 5, LT_KEPT);
    use(run_a, NULL, NULL, 130200, "NVIDIA H100 80GB HBM3");
    assert_true(was_said("chosen on NVIDIA H200 and this is NVIDIA H100 80GB HBM3"));
    has(8, false, 0, LT_FIRST);
}

static void a_file_without_a_gpu_is_read(void **state)
{
    (void)state;
    append(run_a, "cublaslt 130100\n7 64 4096 0 1 2 0 0 b 2 3 0 0 0 0 0\n");
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
}

/* ---- the machine's */

static void tuned_choices_are_for_what_the_run_has_not_met(void **state)
{
    (void)state;
    use(run_a, NULL, NULL, 130100, "NVIDIA H200");
    keep(7, false, 11);
    use(NULL, NULL, machine, 130100, "NVIDIA H200");
    tune(7, 21);
    tune(8, 22);
    tune(8, 23); /* the later one */
    use(run_a, NULL, machine, 130100, "NVIDIA H200");
    has(7, false, 11, LT_KEPT);
    has(8, false, 23, LT_TUNED);
    has(8, true, 0, LT_FIRST);
}

static void a_tuning_adds_to_the_one_before(void **state)
{
    (void)state;
    use(NULL, NULL, machine, 130100, "NVIDIA H200");
    tune(7, 21);
    use(NULL, NULL, machine, 130100, "NVIDIA H200");
    tune(8, 22);
    use(NULL, NULL, machine, 130100, "NVIDIA H200");
    has(7, false, 21, LT_TUNED);
    has(8, false, 22, LT_TUNED);
    char text[2048] = "";
    FILE *f = fopen(machine, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_non_null(strstr(text, "cublaslt 130100 NVIDIA H200\n"));
    const char *note = strstr(text, "# head, logits: number 3 of 8, 1.5 ms\n");
    assert_non_null(note); /* of both, whole */
    assert_non_null(strstr(note + 1, "# head, logits: number 3 of 8, 1.5 ms\n"));
}

static void those_of_another_gpu_are_left_alone(void **state)
{
    (void)state;
    use(NULL, NULL, machine, 130100, "NVIDIA H200");
    tune(7, 21);
    use(NULL, NULL, machine, 130100, "NVIDIA H100 80GB HBM3");
    assert_true(was_said("tuned on NVIDIA H200 and this is NVIDIA H100 80GB HBM3: they are not "
                         "used; repair: moefold bench --device cuda RECIPE"));
    has(7, false, 0, LT_FIRST);
    use(NULL, NULL, machine, 130200, "NVIDIA H200");
    assert_true(was_said("tuned with cuBLASLt 130100 and this is 130200: they are not used"));
    has(7, false, 0, LT_FIRST);
    use(NULL, NULL, machine, 130100, "NVIDIA H200"); /* a run does not write there */
    has(7, false, 21, LT_TUNED);
}

/* hardware/h200-cublaslt.txt, as it is shipped: all lines are GEMMs, the head's among them. */
static void the_shipped_file_is_for_its_gpu_and_library(void **state)
{
    const char *file = "hardware/h200-cublaslt.txt";
    lt_choice logits = {{.m = 4096, .n = 151936, .k = 2048, .in = DTYPE_BF16, .out = DTYPE_BF16},
                        {0}};
    char line[1024], gpu[64];
    size_t version = 0;
    int lines = 0;
    FILE *f = fopen(file, "r");
    (void)state;
    assert_non_null(f);
    assert_true(fgets(line, sizeof line, f) &&
                sscanf(line, "cublaslt %zu %63[^\n]", &version, gpu));
    use(NULL, NULL, file, version, gpu);
    assert_true(was_said(""));
    assert_int_equal(lt_choices_find(&logits), LT_TUNED);
    while (fgets(line, sizeof line, f)) {
        lt_choice c = {0};
        int flag[5];
        assert_int_equal(sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %d %d %d %d %d",
                                &c.shape.m, &c.shape.n, &c.shape.k, &flag[0], &flag[1], &flag[2],
                                &flag[3], &flag[4]),
                         8);
        c.shape.a_turned = flag[0], c.shape.b_turned = flag[1], c.shape.add = flag[4];
        c.shape.in = (dtype)flag[2], c.shape.out = (dtype)flag[3];
        assert_int_equal(lt_choices_find(&c), LT_TUNED);
        lines++;
    }
    fclose(f);
    assert_true(lines >= 20);
    use(NULL, NULL, file, version + 1, gpu); /* of a newer library nothing is taken */
    assert_int_equal(lt_choices_find(&logits), LT_FIRST);
}

static void a_place_that_cannot_be_written_is_named(void **state)
{
    error err;
    const lt_choice c = choice_of(7, false, 1);
    (void)state;
    use(NULL, NULL, "/nowhere/h200.txt", 130100, "NVIDIA H200");
    assert_int_equal(lt_choices_tune(&c, "", &err), ERR_MACHINE);
    assert_non_null(strstr(err.text, "/nowhere/h200.txt"));
    use("/proc/nowhere/a.txt", NULL, NULL, 130100, "NVIDIA H200");
    assert_true(was_said("cannot be kept there"));
    keep(7, false, 11); /* the run goes on without */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_run_that_goes_on_has_what_it_kept),
        T(every_field_of_a_gemm_counts),
        T(scaled_operands_are_gemms_of_their_own),
        T(scalings_of_blackwell_are_kept),
        T(lines_of_unknown_scaling_are_no_choices),
        T(half_a_line_is_no_choice),
        T(a_new_folder_goes_on_with_the_old_ones),
        T(another_version_chooses_anew_and_says_so),
        T(a_file_without_a_gpu_is_read),
        T(tuned_choices_are_for_what_the_run_has_not_met),
        T(a_tuning_adds_to_the_one_before),
        T(those_of_another_gpu_are_left_alone),
        T(the_shipped_file_is_for_its_gpu_and_library),
        T(a_place_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
