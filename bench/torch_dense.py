"""Time the network of BenchmarkDense in PyTorch: an HVAE of 8x8 binary images with dense layers, tanh units and K = 4.

    OPENBLAS_NUM_THREADS=1 python3 bench/torch_dense.py -t 2

-t is the number of threads. --compile compiles the model with torch.compile. The program prints the times of one
optimiser step with batch size 100, and of one estimate of the evidence of each of 1,797 images.
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.nn.functional import softplus

PIXELS, UNITS, LATENT, K = 64, 128, 8, 4
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class HVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(PIXELS, UNITS)
        self.mean, self.sd = nn.Linear(UNITS, LATENT), nn.Linear(UNITS, LATENT)
        self.decoder, self.logits = nn.Linear(LATENT, UNITS), nn.Linear(UNITS, PIXELS)
        self.step_size = nn.Parameter(torch.full([K, LATENT], math.log(0.1 / 0.4)))
        self.alpha = nn.Parameter(torch.full([K], math.log(0.95 / 0.05)))

    def log_joint(self, z, x):
        a = self.logits(torch.tanh(self.decoder(z)))
        return (x * a - softplus(a)).sum(1) - (0.5 * z**2 + HALF_LOG_2PI).sum(1)

    def forward(self, x, epsilon, gamma, grad_u):
        """Return log p̂ for each row of x. The function grad_u(z, x) returns the gradient of U(z) = -log p(x, z)."""
        h = torch.tanh(self.encoder(x))
        sd = softplus(self.sd(h))
        z = self.mean(h) + sd * epsilon
        eps, alpha = 0.5 * torch.sigmoid(self.step_size), torch.sigmoid(self.alpha)
        rho = gamma / alpha.prod()
        g = grad_u(z, x)
        for k in range(K):
            rho = rho - 0.5 * eps[k] * g
            z = z + eps[k] * rho
            g = grad_u(z, x)
            rho = alpha[k] * (rho - 0.5 * eps[k] * g)
        log_prior = -(0.5 * epsilon**2 + sd.log() + HALF_LOG_2PI).sum(1)
        return self.log_joint(z, x) - 0.5 * (rho**2).sum(1) - log_prior + 0.5 * (gamma**2).sum(1)


parser = argparse.ArgumentParser()
parser.add_argument("-t", type=int, default=1, help="number of threads")
parser.add_argument("-n", type=int, default=300, help="number of timed optimiser steps, and a tenth of it evaluations")
parser.add_argument("--compile", action="store_true", help="use torch.compile")
a = parser.parse_args()
torch.set_num_threads(a.t)
model = HVAE()
x = (torch.rand(1797, PIXELS) < 0.3).float()
optimiser = torch.optim.Adamax(model.parameters(), lr=3e-3)
if a.compile:
    training = evaluation = torch.func.grad(lambda z, x: -model.log_joint(z, x).sum())
    forward = torch.compile(model)
else:
    forward = model

    def training(z, x):
        return -torch.autograd.grad(model.log_joint(z, x).sum(), z, create_graph=True)[0]

    def evaluation(z, x):  # without a graph of the gradient
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return -torch.autograd.grad(model.log_joint(z, x).sum(), z)[0]


def step():
    optimiser.zero_grad()
    (-forward(x[:100], torch.randn(100, LATENT), torch.randn(100, LATENT), training).mean()).backward()
    optimiser.step()


def evaluate():
    with torch.no_grad():
        forward(x, torch.randn(len(x), LATENT), torch.randn(len(x), LATENT), evaluation)


for name, run, n in [("step", step, a.n), ("evaluation", evaluate, a.n // 10)]:
    times = []
    for i in range(n + 5):
        start = time.perf_counter()
        run()
        if i >= 5:  # the first calls also compile and allocate memory
            times.append(1000 * (time.perf_counter() - start))
    times.sort()
    print(f"{name} compile={a.compile} threads={a.t}: median {times[len(times) // 2]:.2f} ms, min {times[0]:.2f}", flush=True)
