"""Time elementwise functions of 4,096 elements in PyTorch on one thread, as a comparison for BenchmarkElementwise."""

import time

import torch

torch.set_num_threads(1)
for dtype in [torch.float32, torch.float64]:
    x = torch.randn(64, 64, dtype=dtype)
    y = torch.empty_like(x)
    for name, run in {
        "exp": lambda: torch.exp(x, out=y),
        "log": lambda: torch.log(positive, out=y),
        "tanh": lambda: torch.tanh(x, out=y),
        "sigmoid": lambda: torch.sigmoid(x, out=y),
        "softplus": lambda: torch._C._nn.softplus(x, out=y),
    }.items():
        positive = x * x
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(500):
                run()
            best = min(best, (time.perf_counter() - start) / 500)
        print(f"{str(dtype)[6:]}/{name}: {1e9 * best:.0f} ns")
