"""Time training steps of the paper's MNIST models in PyTorch, as a comparison for BenchmarkTrainStep.

PyTorch 2.6 is in Debian 13. To compile, torch.compile needs the packages after libopenblas0-pthread:

    apt-get install python3-torch libopenblas0-pthread python3-setuptools libtorch-dev g++ python3-dev
    OPENBLAS_NUM_THREADS=1 python3 bench/torch_hvae.py -K 10 -t 2 --channels-last

-K is the number of leapfrog steps (0 for a VAE), and -t the number of threads. --channels-last stores images as (row,
column, channel), and --compile uses torch.compile. The tempering is free, and all steps share the step sizes. A batch
has 100 images. The parameters have the names and shapes of a checkpoint.
"""

import argparse
import math
import resource
import time

import torch
from torch.nn.functional import conv2d, conv_transpose2d, linear, pad, softplus

LATENT, HIDDEN, BATCH = 64, 450, 100
LAYERS = {  # shape of the weight, size of the bias, sizes of the layer's input and output
    "encoder.conv1": ([16, 1, 5, 5], 16, 784, 3136),
    "encoder.conv2": ([32, 16, 5, 5], 32, 3136, 1568),
    "encoder.conv3": ([32, 32, 5, 5], 32, 1568, 512),
    "encoder.hidden": ([HIDDEN, 512], HIDDEN, 512, HIDDEN),
    "encoder.mean": ([LATENT, HIDDEN], LATENT, HIDDEN, LATENT),
    "encoder.std": ([LATENT, HIDDEN], LATENT, HIDDEN, LATENT),
    "decoder.hidden": ([HIDDEN, LATENT], HIDDEN, LATENT, HIDDEN),
    "decoder.expand": ([512, HIDDEN], 512, HIDDEN, 512),
    "decoder.deconv1": ([32, 32, 5, 5], 32, 512, 1568),
    "decoder.deconv2": ([32, 16, 5, 5], 16, 1568, 3136),
    "decoder.deconv3": ([16, 1, 5, 5], 1, 3136, 784),
}
parser = argparse.ArgumentParser()
parser.add_argument("-K", type=int, default=0, help="number of leapfrog steps")
parser.add_argument("-t", type=int, default=1, help="number of threads")
parser.add_argument("-n", type=int, default=20, help="number of timed optimiser steps")
parser.add_argument("--channels-last", action="store_true", help="store images as (row, column, channel)")
parser.add_argument("--compile", action="store_true", help="use torch.compile")
a = parser.parse_args()
torch.set_num_threads(a.t)
torch.set_flush_denormal(True)


def images(x):
    """Return images or the weights of a convolution in the chosen memory format."""
    return x.contiguous(memory_format=torch.channels_last) if a.channels_last else x


p = {}
for layer, (shape, size, n_in, n_out) in LAYERS.items():
    weight = torch.randn(shape) / math.sqrt(n_in + n_out)
    p[layer + ".weight"] = (images(weight) if len(shape) == 4 else weight).requires_grad_()
    p[layer + ".bias"] = torch.full([size], -2.0 if layer == "decoder.deconv3" else 0.0).requires_grad_()


def apply(layer, function, x, **options):
    return function(x, p[layer + ".weight"], p[layer + ".bias"], **options)


def encode(x):
    """Return the mean and the standard deviation of q(z|x)."""
    h = x
    for i, (before, after) in enumerate([(1, 2), (1, 2), (2, 2)], 1):
        h = softplus(apply(f"encoder.conv{i}", conv2d, pad(h, (before, after, before, after)), stride=2))
    h = softplus(apply("encoder.hidden", linear, h.flatten(1)))
    return apply("encoder.mean", linear, h), softplus(apply("encoder.std", linear, h))


def log_likelihood(x, z):
    """Return log p(x|z)."""
    h = apply("decoder.expand", linear, softplus(apply("decoder.hidden", linear, z))).view(-1, 32, 4, 4)
    h = images(h)
    for i, (before, size) in enumerate([(2, 7), (1, 14), (1, 28)], 1):
        h = apply(f"decoder.deconv{i}", conv_transpose2d, softplus(h), stride=2)
        h = h[:, :, before:before + size, before:before + size]
    return (x * h - softplus(h)).flatten(1).sum(1)


def u(z, x):
    return 0.5 * (z**2).sum() - log_likelihood(x, z).sum()


def eager_grad_u(z, x):
    return torch.autograd.grad(u(z, x), z, create_graph=True)[0]


# The gradient of U(z) = -log p(x, z) as a differentiable function of z and the parameters.
grad_u = torch.func.grad(u) if a.compile else eager_grad_u


def elbo(x, K, eps, alpha):
    mean, std = encode(x)
    z = mean + std * torch.randn(len(x), LATENT)
    if K == 0:
        return (log_likelihood(x, z) - (0.5 * (mean**2 + std**2 - 1) - std.log()).sum(1)).mean()
    rho = torch.randn(len(x), LATENT) / alpha.prod()
    g = grad_u(z, x)
    for k in range(K):
        rho = rho - 0.5 * eps * g
        z = z + eps * rho
        g = grad_u(z, x)
        rho = alpha[k] * (rho - 0.5 * eps * g)
    return (log_likelihood(x, z) - 0.5 * (z**2 + rho**2).sum(1) + std.log().sum(1) + LATENT).mean()


if a.compile:
    elbo = torch.compile(elbo)
x = images((torch.rand(BATCH, 1, 28, 28) < 0.13).float())
flow = [torch.full([LATENT], math.log(0.2 / 0.3)).requires_grad_(), torch.full([a.K], math.log(9.0)).requires_grad_()]
optimiser = torch.optim.Adamax([*p.values(), *(flow if a.K > 0 else [])], lr=1e-3)
times = []
for step in range(a.n + 2):
    start = time.time()
    optimiser.zero_grad()
    (-elbo(x, a.K, 0.5 * flow[0].sigmoid(), flow[1].sigmoid())).backward()
    optimiser.step()
    if step >= 2:  # the first two steps also allocate memory
        times.append(1000 * (time.time() - start))
times.sort()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
options = f"channels_last={a.channels_last} compile={a.compile} threads={a.t}"
print(f"K={a.K} {options}: median {times[len(times) // 2]:.1f} ms/step, min {times[0]:.1f}, peak {peak} MiB")
