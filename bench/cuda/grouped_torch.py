"""The expert GEMMs of torch._grouped_mm, on the shapes of grouped_gemm.cu."""
import statistics
import time
import torch

T, E = 262144, 128


def skew():
    left = T - 32 * 4005
    counts, light = [], 0
    for e in range(E):
        if e % 4 == 0:
            counts.append(4005)
        else:
            counts.append(left * (light + 1) // 96 - left * light // 96)
            light += 1
    return counts


def time_ms(call, warm, n, pause):
    times = []
    for i in range(warm + n):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        time.sleep(pause)
        start.record()
        call()
        end.record()
        end.synchronize()
        if i >= warm:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


print("torch", torch.__version__, "CUDA", torch.version.cuda)
for n, k, experts, cases in (
    (1536, 2048, 128, (("even", [2048] * 128), ("skew", skew()), ("256 rows", [256] * 128))),
    (2048, 768, 128, (("even", [2048] * 128), ("skew", skew()), ("256 rows", [256] * 128))),
    (4096, 7168, 32, (("32 x 2048", [2048] * 32),)),
    (7168, 2048, 32, (("32 x 2048", [2048] * 32),)),
):
    for name, counts in cases:
        rows = sum(counts)
        x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
        dy = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(experts, n, k, device="cuda", dtype=torch.bfloat16)
        offs = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
        for what, call in (
            ("forward", lambda: torch._grouped_mm(x, w.transpose(-2, -1), offs=offs)),
            ("data gradient", lambda: torch._grouped_mm(dy, w, offs=offs)),
            ("weight gradient", lambda: torch._grouped_mm(dy.t(), x, offs=offs)),
        ):
            cool, hot = (2e-9 * rows * n * k / time_ms(call, *how)
                         for how in ((2, 10, 0.02), (150, 64, 0)))
            print(f"{name:10} N{n} K{k} {what:16} torch {cool:6.1f} TFLOP/s with pauses, "
                  f"{hot:6.1f} without", flush=True)
        del x, dy, w
