"""Time single products and convolutions in PyTorch, as a comparison for BenchmarkGEMM and BenchmarkConv.

    OPENBLAS_NUM_THREADS=1 python3 bench/torch_operations.py -t 1

-t is the number of threads. A convolution has 100 images, and its faster memory format counts: (channel, row, column) or
channels_last. PyTorch computes both gradients of a convolution at once. BenchmarkConv measures them as dinput and dweight.
"""

import argparse
import time

import torch
from torch.nn.functional import conv2d

parser = argparse.ArgumentParser()
parser.add_argument("-t", type=int, default=1, help="number of threads")
torch.set_num_threads(parser.parse_args().t)


def report(name, *functions):
    """Print the median and the minimum time of the fastest function, in 30 samples of at least 3 ms each."""
    best = None
    for f in functions:
        f()
        samples = []
        for _ in range(30):
            start, n = time.perf_counter(), 0
            while n == 0 or time.perf_counter() - start < 0.003:
                f()
                n += 1
            samples.append(1e6 * (time.perf_counter() - start) / n)
        samples.sort()
        if best is None or samples[0] < best[0]:
            best = samples
    print(f"{name}: median {best[len(best) // 2]:.0f} us, min {best[0]:.0f}", flush=True)


for m, n, k in [(450, 100, 64), (512, 100, 450), (1024, 1024, 1024)]:
    a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    report(f"GEMM/{m}x{n}x{k}", lambda: torch.mm(a, b, out=c))

for name, size, channels, filters in [("28to14", 28, 1, 16), ("14to7", 14, 16, 32), ("7to4", 7, 32, 32)]:
    forward, gradients = [], []
    for layout in [torch.contiguous_format, torch.channels_last]:
        x = torch.randn(100, channels, size, size).contiguous(memory_format=layout).requires_grad_()
        w = torch.randn(filters, channels, 5, 5).contiguous(memory_format=layout).requires_grad_()
        y = conv2d(x, w, stride=2, padding=2)
        delta = torch.ones_like(y)
        x0, w0 = x.detach(), w.detach()  # without a graph
        forward.append(lambda x=x0, w=w0: conv2d(x, w, stride=2, padding=2))
        gradients.append(lambda x=x, w=w, y=y, d=delta: torch.autograd.grad(y, (x, w), d, retain_graph=True))
    report(f"Conv/{name}/forward", *forward)
    report(f"Conv/{name}/gradients", *gradients)
