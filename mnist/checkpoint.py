"""Estimate the ELBO and the NLL of MNIST's first test images from a checkpoint, in PyTorch. For example:

    apt-get install python3-torch
    /usr/bin/python3 mnist/checkpoint.py mnist/results/vae.safetensors t10k-images-idx3-ubyte.gz 100 1000

The arguments are the checkpoint, the compressed file of test images, and the numbers of images and of importance
samples. `hvae-mnist eval` prints the same estimates, but with other noise.

Any safetensors reader loads a checkpoint (model.safetensors). Its __metadata__ contains format (hvae-mnist/1), model (vae or
hvae), K (0 for a VAE), latent (the number of latent dimensions), tempering (none, fixed, free or untied), vary_eps (true or
false), max_eps (0.5, the bound of the step sizes), and the training's seed, best epoch and its val_elbo. Models trained with
-draws also have draws and importance. All but older files have the name and hash of the training data (data, data_sha256),
and sha256, the SHA-256 of a line key=value for each other key, sorted, and of the bytes after the header.

    tensor                           shape of weight and of bias     layer
    encoder.conv1                    16,1,5,5 and 16                 28 to 14 pixels, stride 2, pads 1 before and 2 after
    encoder.conv2                    32,16,5,5 and 32                14 to 7, stride 2, pads 1 and 2
    encoder.conv3                    32,32,5,5 and 32                7 to 4, stride 2, pads 2 and 2
    encoder.hidden                   450,512 and 450
    encoder.mean, encoder.std        latent,450 and latent           the mean, and the standard deviation softplus(x)
    decoder.hidden, decoder.expand   450,latent and 450; 512,450 and 512
    decoder.deconv1                  32,32,5,5 (in, out) and 32      4 to 7, the transpose of the convolution of conv3
    decoder.deconv2                  32,16,5,5 and 16                7 to 14, the transpose of the convolution of conv2
    decoder.deconv3                  16,1,5,5 and 1                  14 to 28, the transpose of conv1: logits of the pixels
    flow.step_size_logit             1,latent or K,latent            step sizes max_eps * sigmoid(x)
    flow.alpha_logit                 K                               free and untied tempering: alpha = sigmoid(x)
    flow.log_momentum_sd             1                               untied tempering: s = exp(x)
    flow.log_temperature             1                               fixed tempering: 1/sqrt(beta_0) = 1 + exp(x)

Softplus follows every layer except the mean and the logits. Images are flattened as (channel, row, column). A transposed
convolution crops its full output at each edge by the padding of the corresponding convolution.
"""

import gzip, json, math, struct, sys, torch
from torch.nn.functional import conv2d, conv_transpose2d, linear, pad, softplus

raw = open(sys.argv[1], "rb").read()
start = 8 + struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:start])
meta, p = head.pop("__metadata__"), {}
for name, t in head.items():
    lo, hi = t["data_offsets"]
    p[name] = torch.frombuffer(bytearray(raw[start + lo:start + hi]), dtype=torch.float32).view(t["shape"])


def apply(layer, function, x, **options):
    return function(x, p[layer + ".weight"], p[layer + ".bias"], **options)


def encode(x):
    """Return the mean and the standard deviation of q(z|x)."""
    h = x
    for i, (before, after) in enumerate([(1, 2), (1, 2), (2, 2)], 1):
        h = softplus(apply(f"encoder.conv{i}", conv2d, pad(h, (before, after, before, after)), stride=2))
    h = softplus(apply("encoder.hidden", linear, h.flatten(1)))
    return apply("encoder.mean", linear, h), softplus(apply("encoder.std", linear, h))


def log_joint(x, z):
    """Return log p(x, z)."""
    h = apply("decoder.expand", linear, softplus(apply("decoder.hidden", linear, z))).view(-1, 32, 4, 4)
    for i, (before, size) in enumerate([(2, 7), (1, 14), (1, 28)], 1):
        h = apply(f"decoder.deconv{i}", conv_transpose2d, softplus(h), stride=2)
        h = h[:, :, before:before + size, before:before + size]
    return (x * h - softplus(h)).flatten(1).sum(1) + log_normal(z)


def log_normal(z):
    """Return log N(z | 0, I)."""
    return -0.5 * (z**2 + math.log(2 * math.pi)).sum(1)


def grad_u(x, z):
    """Return the gradient of U(z) = -log p(x, z)."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        return torch.autograd.grad(-log_joint(x, z).sum(), z)[0]


K, latent = int(meta["K"]), int(meta["latent"])
if K > 0:  # the step sizes [K or 1, latent]
    eps = float(meta["max_eps"]) * p["flow.step_size_logit"].sigmoid()
    eps = eps.expand(K, latent)
alpha, s = torch.ones(K), torch.ones(1)  # without tempering
if meta["tempering"] in ("free", "untied"):
    alpha = p["flow.alpha_logit"].sigmoid()
    s = 1 / alpha.prod()
if meta["tempering"] == "untied":
    s = p["flow.log_momentum_sd"].exp()
if meta["tempering"] == "fixed":  # 1/sqrt(beta_k) is quadratic in k
    s = 1 + p["flow.log_temperature"].exp()
    heat = s + (1 - s) * (torch.arange(K + 1) / K) ** 2
    alpha = heat[1:] / heat[:-1]


def log_estimate(x, mean, std):
    """Return log p̂(x) for draws from q(z|x) (Algorithm 1)."""
    epsilon, gamma = torch.randn_like(mean), torch.randn_like(mean)
    z, rho = mean + std * epsilon, s * gamma  # z_0 ~ q(z|x), rho_0 ~ N(0, s^2 I)
    g = grad_u(x, z) if K > 0 else None
    for k in range(K):
        rho = rho - eps[k] / 2 * g  # leapfrog step
        z = z + eps[k] * rho
        g = grad_u(x, z)
        rho = rho - eps[k] / 2 * g
        rho = alpha[k] * rho  # tempering
    log_q0 = log_normal(epsilon) - std.log().sum(1)  # of z_0
    log_momentum = log_normal(gamma) - latent * s.log()  # of rho_0
    log_det = latent * alpha.log().sum()  # of the Jacobian of the flow
    return log_joint(x, z) + log_normal(rho) - (log_q0 + log_momentum - log_det)


torch.manual_seed(1)
images, samples = int(sys.argv[3]), int(sys.argv[4])
grey = torch.frombuffer(bytearray(gzip.open(sys.argv[2]).read()[16:]), dtype=torch.uint8)
with torch.no_grad():
    x = torch.bernoulli(grey[:images * 784].view(images, 1, 28, 28) / 255)
    logs = torch.stack([log_estimate(x[i:i + 1], mean.expand(samples, -1), std.expand(samples, -1))
                        for i, (mean, std) in enumerate(zip(*encode(x)))])
print("ELBO %.2f" % logs.mean())
print("NLL  %.2f" % (math.log(samples) - logs.logsumexp(1)).mean())
