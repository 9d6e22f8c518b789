"""Compute golden.json, the values that golden_test.go expects, with PyTorch in float64. In the project's root folder:

    apt-get install python3-torch
    /usr/bin/python3 mnist/model/testdata/golden.py

golden.json was made in this way on Debian 12 (PyTorch 1.13.1, Python 3.11.2, NumPy 1.24.2, an x86-64 processor). Other
versions and processors change the last digits.

golden_test.go describes the inputs, and mnist/README.md the parameters and the networks. The flow is Algorithm 1 of
the paper. Automatic differentiation computes all gradients, including the gradient of U(z) = -log p(x, z) in the
flow. Each row of x, z and rho is a draw.
"""

import json
import math
import re
from pathlib import Path

import numpy
import torch
from torch.distributions import Bernoulli, Normal, kl_divergence
from torch.nn.functional import conv2d, conv_transpose2d, linear, pad

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

LATENT, IMAGES, PIXELS, MAX_EPS = 3, 2, 28 * 28, 0.5
LAYERS = {  # the shape of the weight and the size of the bias
    "encoder.conv1": ([16, 1, 5, 5], 16),
    "encoder.conv2": ([32, 16, 5, 5], 32),
    "encoder.conv3": ([32, 32, 5, 5], 32),
    "encoder.hidden": ([450, 512], 450),
    "encoder.mean": ([LATENT, 450], LATENT),
    "encoder.std": ([LATENT, 450], LATENT),
    "decoder.hidden": ([450, LATENT], 450),
    "decoder.expand": ([512, 450], 512),
    "decoder.deconv1": ([32, 32, 5, 5], 32),
    "decoder.deconv2": ([32, 16, 5, 5], 16),
    "decoder.deconv3": ([16, 1, 5, 5], 1),
}
MODELS = {  # the arguments of evaluate
    "vae": {},
    "hvae, K = 2": dict(K=2),
    "hvae, K = 2, fixed tempering": dict(K=2, tempering="fixed"),
    "hvae, K = 3, free tempering, ε varied": dict(K=3, tempering="free", vary_eps=True),
    "hvae, K = 2, untied tempering": dict(K=2, tempering="untied"),
    "vae, mean of 3 draws": dict(draws=3),
    "vae, 3 importance samples": dict(draws=3, importance=True),
    "hvae, K = 2, fixed tempering, 3 importance samples": dict(K=2, tempering="fixed", draws=3, importance=True),
}


def v(t, n):
    """Return v(t, i) of golden_test.go for i = 0 ... n-1."""
    h = numpy.arange(1, n + 1, dtype=numpy.uint32) + numpy.uint32((t + 1) << 20)
    h *= numpy.uint32(2654435761)
    h ^= h >> 15
    h *= numpy.uint32(2246822519)
    h ^= h >> 13
    return torch.from_numpy(h / 2**32 - 0.5)


def parameters(K, tempering, vary_eps):
    """Return all parameters by name, in the order of a checkpoint."""
    p = {}

    def add(name, shape, scale=1.0, shift=0.0):
        value = scale * v(len(p), math.prod(shape)) + shift
        p[name] = value.view(shape).requires_grad_()

    for layer, (weight, bias) in LAYERS.items():
        add(layer + ".weight", weight, math.sqrt(12 / math.prod(weight[1:])))
        add(layer + ".bias", [bias], 0.2)
    if K > 0:
        add("flow.step_size_logit", [K if vary_eps else 1, LATENT])
    if tempering in ("free", "untied"):
        add("flow.alpha_logit", [K], shift=2)
    if tempering == "untied":
        add("flow.log_momentum_sd", [1], shift=-1)
    if tempering == "fixed":
        add("flow.log_temperature", [1], shift=-1)
    return p


def softplus(x):
    return torch.nn.functional.softplus(x, threshold=40)  # the default, 20, has errors of 2e-9


def apply(layer, function, x, p, **options):
    return function(x, p[layer + ".weight"], p[layer + ".bias"], **options)


def encode(p, x):
    """Return the mean and the standard deviation of q(z|x)."""
    h = x.view(-1, 1, 28, 28)
    for i, (before, after) in enumerate([(1, 2), (1, 2), (2, 2)], 1):
        h = softplus(apply(f"encoder.conv{i}", conv2d, pad(h, (before, after, before, after)), p, stride=2))
    h = softplus(apply("encoder.hidden", linear, h.flatten(1), p))
    return apply("encoder.mean", linear, h, p), softplus(apply("encoder.std", linear, h, p))


def log_likelihood(p, x, z):
    """Return log p(x|z)."""
    h = apply("decoder.expand", linear, softplus(apply("decoder.hidden", linear, z, p)), p).view(-1, 32, 4, 4)
    for i, (before, size) in enumerate([(2, 7), (1, 14), (1, 28)], 1):
        h = apply(f"decoder.deconv{i}", conv_transpose2d, softplus(h), p, stride=2)
        h = h[:, :, before:before + size, before:before + size]
    return Bernoulli(logits=h.flatten(1)).log_prob(x).sum(1)


def temper(p, K, tempering):
    """Return alpha_1 ... alpha_K and the standard deviation s of the initial momentum."""
    if tempering == "fixed":
        start = 1 + p["flow.log_temperature"].exp()
        inv_sqrt_beta = (1 - start) * (torch.arange(K + 1) / K) ** 2 + start
        return inv_sqrt_beta[1:] / inv_sqrt_beta[:-1], start
    if tempering == "none":
        return torch.ones(K), torch.ones(1)
    alpha = p["flow.alpha_logit"].sigmoid()
    return alpha, p["flow.log_momentum_sd"].exp() if tempering == "untied" else 1 / alpha.prod()


def evaluate(K=0, tempering="none", vary_eps=False, draws=1, importance=False):
    """Return a model's entry in golden.json."""
    p = parameters(K, tempering, vary_eps)
    x = torch.stack([(v(100 + b, PIXELS) > 0.1).double() for b in range(IMAGES)])
    epsilon = torch.stack([math.sqrt(12) * v(200 + j, LATENT) for j in range(IMAGES * draws)])
    gamma0 = torch.stack([math.sqrt(12) * v(300 + j, LATENT) for j in range(IMAGES * draws)])
    x, mean, std = (a.repeat_interleave(draws, 0) for a in (x, *encode(p, x)))
    q0, normal, (alpha, s) = Normal(mean, std), Normal(0.0, 1.0), temper(p, K, tempering)

    def log_joint(z):
        return log_likelihood(p, x, z) + normal.log_prob(z).sum(1)

    def gradient_of_U(z):
        return torch.autograd.grad(-log_joint(z).sum(), z, create_graph=True)[0]

    z, rho = mean + std * epsilon, s * gamma0
    log_q = q0.log_prob(z).sum(1) + Normal(0.0, s).log_prob(rho).sum(1) - LATENT * alpha.log().sum()
    for k in range(K):
        eps = MAX_EPS * p["flow.step_size_logit"][k if vary_eps else 0].sigmoid()
        rho = rho - eps / 2 * gradient_of_U(z)
        z = z + eps * rho
        rho = alpha[k] * (rho - eps / 2 * gradient_of_U(z))
    log_estimate = log_joint(z) + normal.log_prob(rho).sum(1) - log_q

    if draws > 1:
        logs = log_estimate.view(IMAGES, draws)
        elbo = logs.logsumexp(1) - math.log(draws) if importance else logs.mean(1)
    elif K == 0:
        elbo = log_likelihood(p, x, z) - kl_divergence(q0, normal).sum(1)
    else:
        elbo = log_estimate
    gradients = torch.autograd.grad(elbo.mean(), list(p.values()))
    return {
        "elbo": elbo.tolist(),
        "log_estimate": log_estimate.tolist(),
        "gradient_norms": {name: g.norm().item() for name, g in zip(p, gradients)},
    }


text = json.dumps({name: evaluate(**model) for name, model in MODELS.items()}, indent=1, ensure_ascii=False)
one_line = re.sub(r"\[\s+([-\d][^]]*?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
Path(__file__).with_name("golden.json").write_text(one_line + "\n")
