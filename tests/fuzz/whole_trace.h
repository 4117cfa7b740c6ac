/* whole_trace.h - a whole trace of the PyTorch profiler, drawn at random: steps with operations on
 * the host, their launches and kernels on several streams, as they follow from one another. Readers
 * look for what belongs together; bytes at random have nothing that does. */
#ifndef TESTS_FUZZ_WHOLE_TRACE_H
#define TESTS_FUZZ_WHOLE_TRACE_H

#include <jansson.h>

#include "fuzz/mutate.h"

typedef struct drawn_trace {
    json_t *events;
    double host, device[3]; /* microseconds: how far each is */
    int correlation;
    unsigned *seed;
} drawn_trace;

static inline json_t *drawn_event(drawn_trace *t, const char *cat, const char *name, double ts,
                                  double dur)
{
    json_t *e = json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i}", "ph", "X", "cat", cat, "name",
                          name, "ts", ts, "dur", dur, "pid", 1, "tid", 2);
    json_array_append_new(t->events, e);
    return e;
}

/* An operation of the host, its launch, and the kernel some time after. */
static inline void drawn_kernel(drawn_trace *t)
{
    static const char *const names[] = {
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv",
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopB_NNT",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x128",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
        "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel",
        "triton_poi_fused_add_0",
        "multi_tensor_apply_kernel",
        "Memcpy HtoD (Pinned -> Device)",
        "Memset (Device)",
    };
    static const char *const ops[] = {"aten::mm", "_LayerNormLinear", "FusedAttnFunc",
                                      "Optimizer.step#AdamW.step", "autograd::engine::evaluate"};
    static const char *const groups[] = {
        "EXPERT_MODEL_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP", "CONTEXT_PARALLEL_GROUP",
        "PIPELINE_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP_WITH_CP"};
    unsigned *seed = t->seed;
    int stream = (int)mutate_random(seed, 3), correlation = ++t->correlation;
    double length = 1 + mutate_random(seed, 400);
    unsigned kind = mutate_random(seed, sizeof names / sizeof *names);
    drawn_event(t, "cpu_op", MUTATE_PICK(seed, ops), t->host, 12);
    json_t *launch = drawn_event(t, "cuda_runtime", "cudaLaunchKernel", t->host + 3, 5);
    json_object_set_new(launch, "args", json_pack("{s:i}", "correlation", correlation));
    double begin = fmax(t->device[stream], t->host + 6);
    const char *cat = kind == 8 ? "gpu_memcpy" : kind == 9 ? "gpu_memset" : "kernel";
    json_t *k = drawn_event(t, cat, names[kind], begin, length);
    json_object_set_new(k, "args",
                        json_pack("{s:i, s:i, s:i}", "device", 0, "stream", 7 + stream,
                                  "correlation", correlation));
    if (kind < 2)
        json_object_set_new(json_object_get(k, "args"), "Process Group Description",
                            json_string(MUTATE_PICK(seed, groups)));
    t->device[stream] = begin + length;
    t->host += 13 + mutate_random(seed, 60);
}

/* NULL: it does not fit. The caller frees it. */
static inline char *whole_trace(unsigned *seed, size_t max)
{
    drawn_trace t = {.events = json_array(), .seed = seed};
    unsigned steps = 1 + mutate_random(seed, 3), n = 1 + mutate_random(seed, 8);
    char name[32];
    for (unsigned s = 0; s < steps; s++) {
        double start = t.host, last = 0;
        for (unsigned i = 0; i < n; i++) drawn_kernel(&t);
        for (int i = 0; i < 3; i++) last = fmax(last, t.device[i]);
        if (mutate_random(seed, 2)) t.host = fmax(t.host, last); /* the host waits */
        snprintf(name, sizeof name, "ProfilerStep#%u", s + 3);
        drawn_event(&t, "user_annotation", name, start, t.host - start);
    }
    json_t *root = json_pack("{s:i, s:[{s:s}], s:o}", "schemaVersion", 1, "deviceProperties",
                             "name", "NVIDIA H100", "traceEvents", t.events);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text && strlen(text) <= max) return text;
    free(text);
    return NULL;
}

#endif
