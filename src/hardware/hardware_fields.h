/* hardware_fields.h - every key of a hardware file, and where its number goes. */
#ifndef HARDWARE_HARDWARE_FIELDS_H
#define HARDWARE_HARDWARE_FIELDS_H

#include <stddef.h>

#include "hardware/hardware.h"

typedef enum field_kind { FIELD_NUMBER, FIELD_WHOLE, FIELD_CURVE } field_kind;

typedef struct field {
    const char *path;
    size_t at;
    field_kind kind;
    bool optional;
    double most; /* numbers are above 0 (or 0, where optional), no more than this */
} field;

#define NUM(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_NUMBER, false, m                                      \
    }
#define OPT(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_NUMBER, true, m                                       \
    }
#define INT(p, member, m)                                                                          \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_WHOLE, false, m                                       \
    }
#define CRV(p, member)                                                                             \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_CURVE, false, 1.5                                     \
    }
#define COP(p, member)                                                                             \
    {                                                                                              \
        p, offsetof(hardware, member), FIELD_CURVE, true, 1.5                                      \
    }
#define LEVEL(p, member)                                                                           \
    NUM(p ".latency", member.latency, 1), NUM(p ".bandwidth", member.bandwidth, 1e15),             \
        CRV(p ".efficiency", member.efficiency)
#define GRADIENTS(p, member)                                                                       \
    COP(p "data", member[GRADIENT_DATA]), COP(p "weight", member[GRADIENT_WEIGHT]),                \
        COP(p "added", member[GRADIENT_ADDED])
#define SCALED(p, i)                                                                               \
    NUM("quantise." p ".rate", narrow_rate[i], 1.5),                                               \
        NUM("quantise." p ".bytes", narrow_bytes[i], 64)
#define DISPATCHED(id, p)                                                                          \
    NUM("dispatch." p ".inside", dispatch[DISPATCH_##id][0], 1.5),                                 \
        NUM("dispatch." p ".across", dispatch[DISPATCH_##id][1], 1.5),                             \
        NUM("dispatch." p ".copies", dispatch_copies[DISPATCH_##id], 4),                           \
        COP("dispatch." p ".near", dispatch_near[DISPATCH_##id]),                                  \
        OPT("dispatch." p ".row", dispatch_row[DISPATCH_##id][0], 1),                              \
        OPT("dispatch." p ".row_across", dispatch_row[DISPATCH_##id][1], 1),
#define LAUNCHED(p, i) NUM("launches." p, launches[i], 1000)
#define CALLED(p, i)                                                                               \
    OPT("calls." p ".forward", calls[i][0], 1000), OPT("calls." p ".backward", calls[i][1], 1000)

static const field fields[] = {
    NUM("peak.fp32", peak[NUMBER_FP32], 1e18),
    NUM("peak.bf16", peak[NUMBER_BF16], 1e18),
    OPT("peak.fp8", peak[NUMBER_FP8], 1e18),
    OPT("peak.fp4", peak[NUMBER_FP4], 1e18),
    INT("memory.visible", memory, 1e18),
    NUM("memory.bandwidth", memory_bandwidth, 1e18),
    CRV("memory.efficiency", memory_efficiency),
    INT("node.gpus", gpus_per_node, 1 << 20),
    LEVEL("node", node),
    INT("domain.gpus", nvlink_domain, 1 << 20),
    LEVEL("domain", domain),
    LEVEL("across", across),
    NUM("host.bandwidth", host_bandwidth, 1e15),
    OPT("host.both", host_both, 1e15),
    OPT("host.memory", host_memory, 1e18),
    NUM("host.adam", host_adam, 1e15),
    NUM("host.launch", launch, 1),
    NUM("host.graph_launch", graph_launch, 1),
    NUM("host.sync", sync, 1),
    OPT("host.step", step, 10),
    NUM("device.least", least, 1),
    OPT("device.clock", clock, 4),
    OPT("device.message_share", message_share, 1),
    OPT("device.near_share", near_share, 1),
    NUM("device.fusion", fusion, 4),
    NUM("device.unfused", unfused, 16),
    NUM("products.fp32.depth", depth[NUMBER_FP32], 1e6),
    CRV("products.fp32.efficiency", gemm[NUMBER_FP32]),
    GRADIENTS("products.fp32.", gemm_gradient[NUMBER_FP32]),
    NUM("products.bf16.depth", depth[NUMBER_BF16], 1e6),
    CRV("products.bf16.efficiency", gemm[NUMBER_BF16]),
    GRADIENTS("products.bf16.", gemm_gradient[NUMBER_BF16]),
    OPT("products.fp8.depth", depth[NUMBER_FP8], 1e6),
    COP("products.fp8.efficiency", gemm[NUMBER_FP8]),
    GRADIENTS("products.fp8.", gemm_gradient[NUMBER_FP8]),
    OPT("products.fp4.depth", depth[NUMBER_FP4], 1e6),
    COP("products.fp4.efficiency", gemm[NUMBER_FP4]),
    NUM("grouped.tile", tile, 1 << 20),
    OPT("grouped.depth", grouped_depth, 1e6),
    CRV("grouped.fp32", grouped[NUMBER_FP32]),
    CRV("grouped.bf16", grouped[NUMBER_BF16]),
    GRADIENTS("grouped.", grouped_gradient),
    COP("grouped.fp8", grouped[NUMBER_FP8]),
    GRADIENTS("grouped.fp8_", grouped_narrow),
    OPT("grouped.fp8_depth", grouped_narrow_depth, 1e6),
    COP("grouped.fp4", grouped[NUMBER_FP4]),
    CRV("attention.forward", attention[0]),
    CRV("attention.backward", attention[1]),
    CRV("attention.head", attention_head),
    OPT("attention.unequal_forward", attention_unequal[0], 4),
    OPT("attention.unequal_backward", attention_unequal[1], 4),
    NUM("attention.sinks", attention_sinks, 1.5),
    OPT("attention.wide_forward", attention_wide[0], 1.5),
    OPT("attention.wide_backward", attention_wide[1], 1.5),
    NUM("attention.linear", linear_attention, 1.5),
    OPT("delta_rule.forward", rule.part[0], 1.5),
    OPT("delta_rule.backward", rule.part[1], 1.5),
    OPT("delta_rule.chunk_forward", rule.chunk[0], 1),
    OPT("delta_rule.chunk_backward", rule.chunk[1], 1),
    OPT("delta_rule.heads", rule.heads, 1 << 20),
    NUM("head.efficiency", head, 1.5),
    NUM("head.logit_bytes", logit_bytes, 1000),
    SCALED("delayed", SCALING_DELAYED),
    SCALED("tensorwise", SCALING_TENSORWISE),
    SCALED("blockwise", SCALING_BLOCKWISE),
    SCALED("mxfp8", SCALING_MXFP8),
    SCALED("nvfp4", SCALING_NVFP4),
    DISPATCH_RATES(DISPATCHED) OPT("dispatch.start", dispatch_start, 1),
    LAUNCHED("product", LAUNCH_PRODUCT),
    LAUNCHED("grouped", LAUNCH_GROUPED),
    OPT("launches.expert", launches[LAUNCH_EXPERT], 1000),
    OPT("launches.expert_narrow", launches[LAUNCH_EXPERT_NARROW], 1000),
    LAUNCHED("attention", LAUNCH_ATTENTION),
    OPT("launches.delta_rule", launches[LAUNCH_RULE], 1000),
    LAUNCHED("head", LAUNCH_HEAD),
    LAUNCHED("router", LAUNCH_ROUTER),
    LAUNCHED("router_unfused", LAUNCH_ROUTER_UNFUSED),
    LAUNCHED("routing", LAUNCH_ROUTING),
    LAUNCHED("routing_unfused", LAUNCH_ROUTING_UNFUSED),
    LAUNCHED("elementwise", LAUNCH_ELEMENTWISE),
    LAUNCHED("quantise", LAUNCH_QUANTISE),
    LAUNCHED("message", LAUNCH_MESSAGE),
    CALLED("product", CALL_PRODUCT),
    CALLED("grouped", CALL_GROUPED),
    CALLED("expert", CALL_EXPERT),
    CALLED("attention", CALL_ATTENTION),
    CALLED("delta_rule", CALL_RULE),
    CALLED("head", CALL_HEAD),
    CALLED("router", CALL_ROUTER),
    CALLED("routing", CALL_ROUTING),
    CALLED("elementwise", CALL_ELEMENTWISE),
    CALLED("delta_heads", CALL_HEADS),
    CALLED("message", CALL_MESSAGE),
    CALLED("replay", CALL_REPLAY),
    CALLED("node", CALL_NODE),
    OPT("calls.narrow", narrow_calls, 100),
    OPT("calls.unfused", unfused_calls, 100),
    OPT("framework", framework, 1),
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

#endif
